package markdown

import (
	"strings"
	"testing"
	"unsafe"
)

func TestCache(t *testing.T) {
	const bytes = 100_000
	c := NewCache(bytes)
	first := c.Show("*a*")
	if again := c.Show(string([]byte("*a*"))); again != "<p><em>a</em></p>\n" ||
		unsafe.StringData(string(first)) != unsafe.StringData(string(again)) {
		t.Errorf("rendered twice: %s", again)
	}
	if other := c.Show("*b*"); other == first {
		t.Errorf("the HTML of another text: %s", other)
	}
	for n := range 1000 {
		c.Show(strings.Repeat("a", n))
	}
	c.texts.CleanUp()
	if size := c.texts.WeightedSize(); size > bytes {
		t.Errorf("%d bytes are cached", size)
	}
	if h := NewCache(0).Show("*a*"); h != first {
		t.Errorf("without a cache: %s", h)
	}
	slow := strings.Repeat("> ", 100) + "a"
	if h := c.Show(slow); h != HTML("<p>"+strings.Repeat("&gt; ", 100)+"a</p>\n") {
		t.Errorf("a text that is refused: %s", h)
	}
}
