package plan

import (
	"byline/graph/limit"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

// Texts renders the texts of a response.
type Texts struct {
	// Show renders a text, once for the response, and reserves memory for its HTML. It returns an error if the response
	// cannot have so much, or the request has ended.
	Show   func(source string) (markdown.HTML, error)
	Memory *limit.Reservation // of the response; nil: not limited
}

// HTML returns the HTML of a text.
func (t Texts) HTML(source string) (string, error) {
	h, err := t.Show(source)
	return string(h), err
}

// Excerpt returns the excerpt of a post.
func (t Texts) Excerpt(p *blog.Post) (string, error) { return p.Excerpt(t.Show) }
