package markdown

import (
	"context"
	"errors"
	"html"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
)

// Cache has rendered texts. It is safe for concurrent use. A nil Cache caches nothing.
type Cache struct {
	texts *otter.Cache[string, HTML] // by source
}

// unused is how long a text is cached after it was last shown: deleted ones are forgotten.
const unused = 10 * time.Minute

// NewCache returns a cache of at most the given number of bytes: of the texts and their HTML. It returns nil for 0.
func NewCache(bytes int) *Cache {
	if bytes == 0 {
		return nil
	}
	return &Cache{otter.Must(&otter.Options[string, HTML]{
		MaximumWeight:    uint64(bytes),
		ExpiryCalculator: otter.ExpiryAccessing[string, HTML](unused),
		Weigher: func(source string, h HTML) uint32 {
			const entry = 150 // bytes of the cache's own
			return uint32(len(source) + len(h) + entry)
		},
	})}
}

// Show returns what render returns for a text, cached unless that is an error.
func (c *Cache) Show(source string, render func() (HTML, error)) (HTML, error) {
	if c == nil {
		return render()
	}
	if h, ok := c.texts.GetIfPresent(source); ok {
		return h, nil
	}
	h, err := render()
	if err == nil {
		c.texts.Set(strings.Clone(source), h)
	}
	return h, err
}

// Show renders a text that has been stored. One that Render refuses, which another program must have stored, is shown
// as it is, in paragraphs. The only error is that of ctx, with which Show ends.
func Show(ctx context.Context, source string) (HTML, error) {
	h, err := Render(ctx, source)
	if errors.As(err, new(*LimitError)) {
		return plain(source), nil
	}
	return h, err
}

func plain(source string) HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(source, "\n\n") {
		b.WriteString("<p>" + html.EscapeString(paragraph) + "</p>\n")
	}
	return HTML(b.String())
}
