package store_test

import (
	"context"
	"fmt"
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
				if _, _, err := w.CreateComment(context.Background(),
					store.NewComment{AuthorID: u.UserID, PostID: p.ID, Content: "me too"}); err != nil {
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
	if liked, err := w.Liked(t.Context(), ada.UserID, []string{p.ID, "absent", p.ID}); err != nil ||
		fmt.Sprint(liked) != "[true false true]" {
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
