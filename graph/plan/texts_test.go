package plan

import (
	"context"
	"testing"

	"byline/graph/limit"
	"byline/store/blog"
	"byline/store/blog/markdown"
)

// A response is refused when its request ends while its texts are rendered.
func TestTexts_EndWithTheRequest(t *testing.T) {
	for name, encode := range map[string]func(*planData) []byte{
		"HTML":       func(d *planData) []byte { return d.html(nil, "*a*") },
		"an excerpt": func(d *planData) []byte { return d.excerpt(nil, &blog.Post{Content: "*a*"}) },
	} {
		m, err := limit.NewMemory(limit.Capacity{}).Reserve("", limit.QueryBytes, false)
		if err != nil {
			t.Fatal(err)
		}
		ended := func(string) (markdown.HTML, error) { return "", context.DeadlineExceeded }
		if b := encode(&planData{texts: Texts{ended, m}}); string(b) != "null" || m.Err() != context.DeadlineExceeded {
			t.Errorf("%s: %s, %v", name, b, m.Err())
		}
	}
}
