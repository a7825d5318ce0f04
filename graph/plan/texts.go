package plan

import (
	"byline/graph/limit"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

// Texts renders the texts of a response.
type Texts struct {
	Show   func(source string) (markdown.HTML, error) // until the request ends
	Memory *limit.Reservation                         // of the response; nil: not limited
}

// HTML returns the HTML of a text, for which it reserves memory. It returns an error if the response cannot have so
// much, or the request has ended.
func (t Texts) HTML(source string) (string, error) {
	h, err := t.Show(source)
	if err != nil {
		return "", err
	}
	return string(h), t.Memory.Grow(len(h))
}

// Excerpt returns the excerpt of a post.
func (t Texts) Excerpt(p *blog.Post) (string, error) { return p.Excerpt(t.Show) }
