package store_test

import (
	"strings"
	"testing"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestCreateComment(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "talk")
	for _, c := range []struct {
		name  string
		in    store.NewComment
		code  blog.Code
		field string
	}{
		{"unknown post", store.NewComment{AuthorID: ada.UserID, PostID: "absent", Content: "x"}, blog.NotFound, ""},
		{"malformed post id", store.NewComment{AuthorID: ada.UserID, PostID: "a/b", Content: "x"}, blog.NotFound, ""},
		{"author without a user", store.NewComment{AuthorID: "unknown", PostID: p.ID, Content: "x"}, blog.Forbidden,
			""},
		{"empty", store.NewComment{AuthorID: ada.UserID, PostID: p.ID}, blog.Invalid, "content"},
		{"too long", store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: strings.Repeat("x", 10_001)},
			blog.Invalid, "content"},
		{"escape character", store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "\x1b[31m"}, blog.Invalid,
			"content"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := w.CreateComment(t.Context(), c.in)
			storetest.WantCode(t, err, c.code, c.field)
		})
	}
	in := store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "hello", Key: "k"}
	first, post, err := w.CreateComment(t.Context(), in)
	if err != nil || post.CommentCount != 1 {
		t.Fatalf("got %v, %v", post, err)
	}
	again, post, err := w.CreateComment(t.Context(), in)
	if err != nil || *again != *first || post.CommentCount != 1 {
		t.Fatalf("same key: %v, %v, %v", again, post, err)
	}
	in.Content = "other"
	_, _, err = w.CreateComment(t.Context(), in)
	storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
	if got, err := w.Comment(t.Context(), p.ID, first.ID); err != nil || *got != *first {
		t.Fatalf("got %v, %v", got, err)
	}
	if n := len(w.AllComments(p)); n != 1 {
		t.Fatalf("got %d comments, want 1", n)
	}
}
