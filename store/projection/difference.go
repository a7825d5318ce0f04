package projection

import "byline/store/blog"

// Kind is a kind of difference.
type Kind string

// The kinds of differences.
const (
	Summary   Kind = "summary" // of a post, in the author's partition
	FeedEntry Kind = "feed entry"
	Count     Kind = "count"    // of comments or likes, on a post; or comments and likes of a deleted post
	Text      Kind = "text"     // a long one on the post, a short one as an item, one that is lost, or one without a post
	Byline    Kind = "byline"   // of the author, on a post, comment or like
	Username  Kind = "username" // a user without the reservation, or a reservation without the user
	Deletion  Kind = "deletion" // a deleted user without the deletion job

	TimelineEntry Kind = "timeline entry" // of a post, in a month of a timeline
	Timeline      Kind = "timelines"      // the months of a timeline, or the count of a tag
	TopTags       Kind = "top tags"       // the list of the most used tags
	Tombstone     Kind = "tombstone"      // of a post, comment or text, with the type of what was deleted
)

// Difference is a view, a count or a reservation that does not match its source.
type Difference struct {
	Kind      Kind   `json:"kind"`
	Partition string `json:"partition"` // the value of the partition key
	ID        string `json:"id"`        // of the wrong or missing item
	Have      string `json:"have"`
	Want      string `json:"want"`

	revision int64 // of the source of a summary, at the first comparison
}

// addressable reports whether the item can be read by id and partition key.
func (d *Difference) addressable() bool {
	return blog.Addressable(d.Partition) && (d.Kind == Username || blog.Addressable(d.ID)) // a name's ID is its owner
}
