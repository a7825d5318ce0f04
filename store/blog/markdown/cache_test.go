package markdown

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"
)

func TestCache(t *testing.T) {
	const bytes = 100_000
	c := NewCache(bytes)
	show := func(c *Cache, source string) HTML {
		t.Helper()
		h, err := c.Show(source, func() (HTML, error) { return Show(t.Context(), source) })
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, none := range []*Cache{nil, c} {
		if h, err := none.Show("*a*", func() (HTML, error) { return Show(ended, "*a*") }); h != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %q, %v", h, err)
		}
	}
	first := show(c, "*a*")
	if again := show(c, string([]byte("*a*"))); again != "<p><em>a</em></p>\n" ||
		unsafe.StringData(string(first)) != unsafe.StringData(string(again)) {
		t.Errorf("rendered twice: %s", again)
	}
	if other := show(c, "*b*"); other == first {
		t.Errorf("the HTML of another text: %s", other)
	}
	for n := range 1000 {
		show(c, strings.Repeat("a", n))
	}
	c.texts.CleanUp()
	if size := c.texts.WeightedSize(); size > bytes {
		t.Errorf("%d bytes are cached", size)
	}
	if h := show(NewCache(0), "*a*"); h != first {
		t.Errorf("without a cache: %s", h)
	}
	slow := strings.Repeat("> ", 100) + "a"
	if h := show(c, slow); h != HTML("<p>"+strings.Repeat("&gt; ", 100)+"a</p>\n") {
		t.Errorf("a text that is refused: %s", h)
	}
}
