package plan

import (
	"byline/graph/limit"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

// Texts renders the texts of a response.
type Texts struct {
	Cache  *markdown.Cache    // nil: nothing is cached
	Memory *limit.Reservation // of the response; nil: not limited
}

// HTML returns the HTML of a text, for which it reserves memory. It returns an error if the response cannot have so
// much.
func (t Texts) HTML(source string) (string, error) {
	h := t.Cache.Show(source)
	return string(h), t.Memory.Grow(len(h))
}

// Excerpt returns the excerpt of a post.
func (t Texts) Excerpt(p *blog.Post) string { return p.Excerpt(t.Cache.Show) }
