package markdown

import (
	"html"
	"strings"

	"github.com/maypok86/otter/v2"
)

// Cache has rendered texts. It is safe for concurrent use.
type Cache struct {
	texts *otter.Cache[string, HTML] // by source
}

// NewCache returns a cache of at most the given number of bytes: of the texts and their HTML.
func NewCache(bytes int) *Cache {
	return &Cache{otter.Must(&otter.Options[string, HTML]{
		MaximumWeight: uint64(bytes),
		Weigher: func(source string, h HTML) uint32 {
			const entry = 150 // bytes of the cache's own
			return uint32(len(source) + len(h) + entry)
		},
	})}
}

// HTML returns the HTML of a text. A text that Render refuses, which another program must have stored, is shown as it is,
// in paragraphs.
func (c *Cache) HTML(source string) HTML {
	if h, ok := c.texts.GetIfPresent(source); ok {
		return h
	}
	h, err := Render(source)
	if err != nil {
		h = plain(source)
	}
	c.texts.Set(strings.Clone(source), h)
	return h
}

func plain(source string) HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(source, "\n\n") {
		b.WriteString("<p>" + html.EscapeString(paragraph) + "</p>\n")
	}
	return HTML(b.String())
}
