package blog

import (
	"maps"
	"slices"
	"strings"
)

// Timeline names a list of posts by date, in the feed container. Its entries are in one partition for each month of
// the posts' creation dates, and its TimelineItem lists the months that have entries.
type Timeline string

// AllPosts is the timeline of all posts.
const AllPosts Timeline = "all"

const tagPrefix = "tag."

// TagTimeline returns the timeline of the posts with a tag, given its key.
func TagTimeline(key string) Timeline { return Timeline(tagPrefix + escapeTag(key)) }

// Tag returns the key of the tag of a timeline; ok is false if it has none.
func (t Timeline) Tag() (tag string, ok bool) {
	escaped, ok := strings.CutPrefix(string(t), tagPrefix)
	if !ok {
		return "", false
	}
	return unescapeTag(escaped)
}

// Partition returns the partition key of the entries of a month.
func (t Timeline) Partition(month string) string { return string(t) + "." + month }

// TimelinesKey is the partition key of all TimelineItems.
const TimelinesKey = "timelines"

// ParseTimeline returns the timeline with a name; ok is false for other texts.
func ParseTimeline(name string) (t Timeline, ok bool) {
	if t = Timeline(name); t == AllPosts {
		return t, true
	}
	_, ok = t.Tag()
	return t, ok
}

// ParseEntryPartition returns the timeline and the month of a partition of entries; ok is false for other partitions.
func ParseEntryPartition(partition string) (t Timeline, month string, ok bool) {
	dot := strings.LastIndexByte(partition, '.')
	if dot < 0 || !ValidMonth(partition[dot+1:]) {
		return "", "", false
	}
	t, ok = ParseTimeline(partition[:dot])
	return t, partition[dot+1:], ok
}

// Month returns the month of a date, such as 2026-11.
func (d Date) Month() string { return string(d[:min(len(d), len("2006-01"))]) }

// ValidMonth reports whether a text is a month as Date.Month returns it.
func ValidMonth(s string) bool { return ValidDate(s + "-01T00:00:00.000Z") }

// Month is a month that has posts.
type Month struct {
	Month     string // such as 2026-11
	PostCount int32  // approximate
}

// TimelineItem describes a timeline. A tag without posts has none. All are in one partition, so that the tags of a post
// appear together, and one query finds the most used tags.
type TimelineItem struct {
	Envelope        // its type is TimelinesKey
	ID       string `json:"id"` // the Timeline

	// The number of entries, as the CounterItem of each month has it. Of the newest month of AllPosts it is 0, and
	// only the CounterItem has the number: so a new post does not change the item.
	Months map[string]int64 `json:"months"`
	Posts  int64            `json:"posts"` // the sum; indexed

	// Of AllPosts: whether the feed has had FeedKept posts, so that it may lack older ones.
	Full bool `json:"full,omitempty"`

	ETag string `json:"_etag,omitempty"`
}

// NewTimelineItem returns the item of a timeline without entries.
func NewTimelineItem(t Timeline) TimelineItem {
	return TimelineItem{Envelope: Envelope{Type: TimelinesKey}, ID: string(t), Months: map[string]int64{}}
}

// Newest returns the months that have entries, newest first. The newest month of AllPosts may have none.
func (i *TimelineItem) Newest() []string {
	months := slices.Sorted(maps.Keys(i.Months))
	slices.Reverse(months)
	return months
}

// Uncopied returns the month whose entries only its CounterItem counts, or "".
func (i *TimelineItem) Uncopied() string {
	if i.ID != string(AllPosts) || len(i.Months) == 0 {
		return ""
	}
	return i.Newest()[0]
}

// Count sets the numbers of entries by month, of which some may be 0, and reports whether the item has changed.
func (i *TimelineItem) Count(months map[string]int64) (changed bool) {
	uncopied := i.Uncopied()
	counted, sum := map[string]int64{}, int64(0)
	for month, n := range months {
		if n > 0 {
			counted[month] = n
			uncopied = max(uncopied, month)
		}
	}
	if i.ID == string(AllPosts) && uncopied != "" {
		counted[uncopied] = 0
	}
	for _, n := range counted {
		sum += n
	}
	changed = sum != i.Posts || !maps.Equal(counted, i.Months)
	i.Months, i.Posts = counted, sum
	return changed
}

// CounterID is the id of a CounterItem. No post has it.
const CounterID = "count:entries"

// CounterItem counts the entries in its partition. It is changed in the transactional batches that create and delete
// them, so an entry is counted once, however often its change is handled. It has no date, so no list meets it.
type CounterItem struct {
	Envelope        // its type is the partition key
	ID       string `json:"id"` // CounterID
	Posts    int64  `json:"posts"`

	ETag string `json:"_etag,omitempty"`
}

// EntryItem is the entry of a post in a timeline. No edit, rename or like changes it.
type EntryItem struct {
	Envelope         // its type is the partition key
	ID        string `json:"id"`       // of the post
	AuthorID  string `json:"authorId"` // indexed, so that the summaries of the newest posts need not be
	CreatedAt Date   `json:"creationDate"`
}

// NewEntry returns the entry of a post in a timeline.
func NewEntry(p *Post, t Timeline) EntryItem {
	return EntryItem{Envelope: Envelope{Type: t.Partition(p.CreatedAt.Month())},
		ID: p.ID, AuthorID: p.UserID, CreatedAt: p.CreatedAt}
}

// Timelines returns the timelines that a post belongs to.
func (p *Post) Timelines() []Timeline { return append(tagTimelines(p.Tags), AllPosts) }

// FormerTimelines returns the timelines that edits have removed a post from.
func (p *Post) FormerTimelines() []Timeline { return tagTimelines(p.FormerTags) }

func tagTimelines(tags []string) (all []Timeline) {
	for _, key := range TagKeys(tags) {
		all = append(all, TagTimeline(key))
	}
	return all
}

// Entry is the position of a post in a timeline.
type Entry struct {
	CreatedAt Date   `json:"creationDate"`
	ID        string `json:"id"`
}

// AuthoredEntry is an Entry with the author of the post.
type AuthoredEntry struct {
	Entry
	AuthorID string `json:"authorId"`
}

// AuthoredEntries is the format of a list of entries with their authors.
var AuthoredEntries = Format[AuthoredEntry]{Fields: "c.creationDate, c.id, c.authorId",
	fast: func(r *fastReader, e *AuthoredEntry) {
		e.CreatedAt, e.ID, e.AuthorID = r.date("creationDate"), r.text("id"), r.text("authorId")
	}}

// Entries is the format of a list of entries.
var Entries = Format[Entry]{Fields: "c.creationDate, c.id", fast: func(r *fastReader, e *Entry) {
	e.CreatedAt, e.ID = r.date("creationDate"), r.text("id")
}}
