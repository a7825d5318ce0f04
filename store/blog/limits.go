package blog

import "time"

// The most characters of what users write.
const (
	MaxTitle          = 200     // of a post, and of its title for search engines
	MaxSEODescription = 500     // of a post
	MaxCanonicalURL   = 2000    // of a post
	MaxCoverURL       = 500     // of a post; as MaxAvatarURL
	MaxCoverAlt       = 300     // of a post
	MaxFiles          = 100     // in the text of a post
	MaxContent        = 100_000 // of a post
	MaxComment        = 10_000
	MaxDisplayName    = 60
	MaxAvatarURL      = 500
	MaxBio            = 500
)

// The most follows. A follow is less than 2 KB in a logical partition, which holds 20 GB.
const (
	MaxFollowed  = 2000      // authors whom a user follows; follows at the same time may exceed it
	MaxFollowers = 4_000_000 // of an author
)

// MaxBookmarks is the most bookmarks of a user. Bookmarks that are created at the same time may exceed it.
const MaxBookmarks = 10_000

// ExcerptLength is the most characters of an excerpt.
const ExcerptLength = 280

// Quota is how many changes of a kind may be made in a period.
type Quota struct {
	Most   int
	Period time.Duration
}

// Until returns when the next change is possible after those at the given dates, oldest first; "" if it is now.
func (q Quota) Until(made []Date, now time.Time) Date {
	if len(made) < q.Most {
		return ""
	}
	if next := made[len(made)-q.Most].Time().Add(q.Period); next.After(now) {
		return NewDate(next)
	}
	return ""
}

// With returns the dates to remember after another change.
func (q Quota) With(made []Date, now Date) []Date {
	return append(made[max(0, len(made)-q.Most+1):len(made):len(made)], now)
}
