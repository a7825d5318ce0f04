package blog

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// IsLong counts the bytes of the text as JSON.
func TestIsLong(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		want    bool
	}{
		"empty":                {"", false},
		"at the limit":         {strings.Repeat("x", InlineText), false},
		"a byte too long":      {strings.Repeat("x", InlineText+1), true},
		"long by bytes":        {strings.Repeat("ü", InlineText/2+1), true},
		"short with newlines":  {strings.Repeat("\n", InlineText/2), false},
		"long by its newlines": {strings.Repeat("\n", InlineText/2+1), true},
	} {
		if got := IsLong(tt.content); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

// A stored post is read back unchanged, its summary is the same with and without the text item, and the
// post item of a long text has only an excerpt.
func TestNewPostItem_ReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := strings.Repeat(rapid.StringN(1, 60, -1).Draw(t, "word"), rapid.IntRange(1, 200).Draw(t, "times"))
		post := &Post{ID: "p", Byline: Byline{UserID: "u", Username: "ada"}, Title: "t", Content: content,
			CreatedAt: "2026-03-01T00:00:00.000Z", Version: 1, Revision: 1}
		item, text := NewPostItem(post)
		if n := len(Encode(item)); n > InlineText+512 {
			t.Fatalf("the post item has %d bytes, want at most %d", n, InlineText+512)
		}
		if (text != nil) != IsLong(content) {
			t.Fatalf("got text item %v, want one: %t", text, IsLong(content))
		}
		read, err := DecodePost("test", Encode(item))
		if err != nil {
			t.Fatal(err)
		}
		if read.Truncated != (text != nil) || string(Encode(read.Summary())) != string(Encode(post.Summary())) {
			t.Fatalf("got %+v, want the summary of %+v", read, post)
		}
		var raw []byte
		if text != nil {
			if _, ok := item.Whole(nil); ok {
				t.Fatal("whole without its text")
			}
			if _, ok := item.Whole(Encode(NewText("p", "u", content+"x"))); ok {
				t.Fatal("whole with the text of another version")
			}
			raw = Encode(text)
		}
		if whole, ok := item.Whole(raw); !ok || whole.Content != post.Content || whole.Truncated {
			t.Fatalf("got %+v, want %+v", whole, post)
		}
	})
}
