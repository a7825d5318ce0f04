package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestLikesAndComments_Concurrent(t *testing.T) {
	const n = 64
	w := newWorld(t)
	p := w.AddPost(w.AddUser("author"), "popular")
	var users []*blog.User
	for i := range n {
		users = append(users, w.AddUser(fmt.Sprintf("user%d", i)))
	}
	var wg sync.WaitGroup
	for _, u := range users {
		for range 2 {
			wg.Go(func() {
				if _, _, err := w.LikePost(context.Background(), u.UserID, p.ID); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if _, _, err := w.CreateComment(context.Background(), store.NewComment{AuthorID: u.UserID, PostID: p.ID, Content: "me too"}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	got, err := w.Post(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	likers := map[string]bool{}
	for _, l := range w.AllLikes(p) {
		likers[l.UserID] = true
	}
	if likes := len(w.AllLikes(p)); got.LikeCount != n || likes != n || len(likers) != n {
		t.Errorf("likeCount %d, %d likes by %d users, want %d", got.LikeCount, likes, len(likers), n)
	}
	if comments := len(w.AllComments(p)); int(got.CommentCount) != comments || comments != 2*n {
		t.Errorf("commentCount %d, %d comments, want %d", got.CommentCount, comments, 2*n)
	}
}

func TestLikePost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "likeable")
	first, after, err := w.LikePost(t.Context(), ada.UserID, p.ID)
	if err != nil || after.LikeCount != 1 || first.Username != "ada" {
		t.Fatalf("got %v, %v, %v", first, after, err)
	}
	again, after, err := w.LikePost(t.Context(), ada.UserID, p.ID)
	if err != nil || after.LikeCount != 1 || *again != *first {
		t.Fatalf("again: %v, %v, %v", again, after, err)
	}
	if liked, err := w.Liked(t.Context(), ada.UserID, []string{p.ID, "absent", p.ID}); err != nil || fmt.Sprint(liked) != "[true false true]" {
		t.Fatalf("liked: %v, %v", liked, err)
	}
	for range 2 {
		after, err = w.UnlikePost(t.Context(), ada.UserID, p.ID)
		if err != nil || after.LikeCount != 0 {
			t.Fatalf("unlike: %v, %v", after, err)
		}
	}
	if l, err := w.Like(t.Context(), p.ID, ada.UserID); l != nil || err != nil {
		t.Fatalf("the removed like: got %v, %v, want nil", l, err)
	}
	if _, after, err = w.LikePost(t.Context(), ada.UserID, p.ID); err != nil || after.LikeCount != 1 {
		t.Fatalf("like after unlike: %v, %v", after, err)
	}
	_, _, err = w.LikePost(t.Context(), ada.UserID, "absent")
	storetest.WantCode(t, err, blog.NotFound, "")
	_, err = w.UnlikePost(t.Context(), ada.UserID, "absent")
	storetest.WantCode(t, err, blog.NotFound, "")
	_, _, err = w.LikePost(t.Context(), "unknown", p.ID)
	storetest.WantCode(t, err, blog.Forbidden, "")
	if got, err := w.Post(t.Context(), p.ID); err != nil || got.LikeCount != 1 {
		t.Fatalf("after rejected likes: %v, %v", got, err)
	}
}

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
		{"author without a user", store.NewComment{AuthorID: "unknown", PostID: p.ID, Content: "x"}, blog.Forbidden, ""},
		{"empty", store.NewComment{AuthorID: ada.UserID, PostID: p.ID}, blog.Invalid, "content"},
		{"too long", store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: strings.Repeat("x", 10_001)}, blog.Invalid, "content"},
		{"escape character", store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "\x1b[31m"}, blog.Invalid, "content"},
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
