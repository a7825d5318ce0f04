package blog

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

// ExcerptLength is the most characters of an excerpt.
const ExcerptLength = 280
