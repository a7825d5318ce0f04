package blog

import (
	"sync/atomic"
	"unicode/utf8"
)

// Derived caches what is computed from the texts of a post for as long as the post is cached, so that a response with
// many aliases computes it once. Copies of the post share it: one whose text has been edited computes its own. The
// zero value is empty; a nil Derived caches nothing. It is safe for concurrent use.
type Derived struct {
	slug, excerpt derived[string]
	minutes       derived[int32]
}

// DerivedBytes returns how much memory the values of the post's Derived take at most, approximately.
func (p *Post) DerivedBytes() int {
	const values = 260
	slug := 40 + min(len(p.Title), maxSlugTitle*utf8.UTFMax)
	if p.Truncated { // the excerpt is the content
		return values + slug
	}
	return values + slug + min(len(p.Content), ExcerptLength*utf8.UTFMax)
}

// Equal implements the interface of go-cmp: a cache is no difference between posts.
func (*Derived) Equal(*Derived) bool { return true }

// derived returns the post's cache, or one for this call alone.
func (p *Post) derived() *Derived {
	if p.Derived == nil {
		return &Derived{}
	}
	return p.Derived
}

// derived is a value that is computed from a text.
type derived[V any] struct{ latest atomic.Pointer[computed[V]] }

type computed[V any] struct {
	text  string
	value V
}

// of returns the value of a text. An error of compute is not cached.
func (d *derived[V]) of(text string, compute func() (V, error)) (V, error) {
	if latest := d.latest.Load(); latest != nil && latest.text == text {
		return latest.value, nil
	}
	value, err := compute()
	if err == nil {
		d.latest.Store(&computed[V]{text, value})
	}
	return value, err
}
