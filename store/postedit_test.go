package store_test

import (
	"strings"
	"testing"

	"byline/store"
	"byline/store/blog"
)

// The reading time follows each edit of a long text.
func TestEditPost_ReadingTime(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p, err := w.CreatePost(t.Context(),
		store.NewPost{AuthorID: ada.UserID, Title: "t", Content: strings.Repeat("word ", 10_000)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		words   int
		minutes int32
	}{{4600, 20}, {2300, 10}, {1, 1}, {4600, 20}} {
		edited, err := w.EditPost(t.Context(), ada.UserID, p.ID,
			store.PostEdit{Content: new(strings.Repeat("word ", tt.words))})
		if err != nil || edited.Minutes() != tt.minutes {
			t.Errorf("%d words: %d minutes, %v; want %d", tt.words, edited.Minutes(), err, tt.minutes)
		}
		if p := w.post(p.ID); p.Minutes() != tt.minutes {
			t.Errorf("%d words, read again: %d minutes, want %d", tt.words, p.Minutes(), tt.minutes)
		}
	}
}

// The author of a post whose text is lost or malformed restores it by saving it again.
func TestEditPost_RestoresText(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	content := strings.Repeat("a long text ", 5000)
	for name, lose := range map[string]func(id string){
		"lost":      func(id string) { w.Remove("posts", id, blog.TextID) },
		"malformed": func(id string) { w.Corrupt("posts", id, blog.TextID, "/content", 1) },
	} {
		for edit, e := range map[string]store.PostEdit{
			"the same text": {Content: &content}, "a title, too": {Title: new("another"), Content: &content},
		} {
			t.Run(name+", "+edit, func(t *testing.T) {
				p, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: content})
				if err != nil {
					t.Fatal(err)
				}
				lose(p.ID)
				edited, err := w.EditPost(t.Context(), ada.UserID, p.ID, e)
				if err != nil || edited.Content != content {
					t.Fatalf("%+v, %v", edited, err)
				}
				if p := w.post(p.ID); p.Truncated || p.Content != content {
					t.Errorf("read again: truncated %t, %d bytes", p.Truncated, len(p.Content))
				}
			})
		}
	}
}
