package projection

import (
	"context"
	"errors"
	"fmt"

	"byline/store/blog"
)

// view is something that the projections keep equal to its source. The files of a view have all of it: how changes are
// applied to it, and what is below.
type view struct {
	kind Kind

	// project applies changes of the posts container. It is nil for a view that is written with its source, by another
	// view or by a job, or whose source is in another container.
	project func(context.Context, changes) error

	// scanned lists what may be wrong after all items were read. Concurrent writes may have caused it.
	scanned func(context.Context, *verifier) ([]Difference, error)

	// replayed lists what a rebuild compares after a page of changed posts was applied; nil for nothing.
	replayed func(context.Context, map[string]*blog.Post) ([]Difference, error)

	// compare compares a possible difference with its source. It returns nil if they match, and otherwise the
	// difference with what there is, and what there should be.
	compare func(context.Context, Difference) (*Difference, error)

	// repair makes the view match its source again, where compare has found a difference. Its writes are conditional:
	// if a condition fails, the caller compares the difference again.
	repair func(context.Context, Difference) error
}

// changes are the changes in a page of the change feed of the posts container.
type changes struct {
	posts    map[string]*blog.Post // the last change of each post, tombstones included
	authored []blog.Authored       // posts, comments and likes that are not deleted
}

// all returns the views, in the order in which changes are applied to them: the timelines before the feed, whose oldest
// entries are deleted.
func (v *Views) all() []view {
	return []view{v.bylines(), v.timelines.view(), v.timelineItems.view(), v.summaries(), v.feedView(),
		v.counts(), v.texts(), v.usernames(), v.userDeletions(), v.tombstones()}
}

func (v *Views) viewOf(k Kind) (view, error) {
	for _, view := range v.all() {
		if view.kind == k {
			return view, nil
		}
	}
	return view{}, &blog.Error{Code: blog.Internal, Op: "verify", Err: fmt.Errorf("unknown kind %q", k)}
}

// compare compares a possible difference with its source again. It returns nil if they match.
func (v *Views) compare(ctx context.Context, d Difference) (*Difference, error) {
	if !d.addressable() {
		d.Have, d.Want = "", "unknown: the id cannot be used in a request"
		return &d, nil
	}
	view, err := v.viewOf(d.Kind)
	if err != nil {
		return nil, err
	}
	wrong, err := view.compare(ctx, d)
	switch {
	case errors.Is(err, blog.ErrMalformed):
		d.Have, d.Want = "", "unknown: the source is malformed"
		return &d, nil
	case blog.CodeOf(err) == blog.Conflict:
		d.Have, d.Want = "", "unknown: the post keeps changing"
		return &d, nil
	}
	return wrong, err
}

// Kind is a kind of difference.
type Kind string

// The kinds of differences.
const (
	Summary   Kind = "summary" // of a post, in the author's partition
	FeedEntry Kind = "feed entry"
	Count     Kind = "count"    // of comments or likes, on a post; or comments and likes of a deleted post
	Text      Kind = "text"     // stored in the wrong item for its length, lost, or without a post
	Byline    Kind = "byline"   // of the author, on a post, comment or like
	Username  Kind = "username" // a user without the reservation, or a reservation without the user
	Deletion  Kind = "deletion" // a deleted user without the deletion job

	TimelineEntry Kind = "timeline entry" // of a post, in a month of a timeline
	Timeline      Kind = "timelines"      // the counters of a timeline, or their copies and sum in its item
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
