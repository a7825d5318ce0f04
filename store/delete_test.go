package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
)

// remains counts the comments and likes in a post's partition, including tombstones.
func (w *world) remains(p *blog.Post) int {
	w.T.Helper()
	posts, err := w.Client.NewContainer(w.Database, "posts")
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := posts.NewQueryItemsPager("SELECT VALUE COUNT(1) FROM c WHERE c.type NOT IN ('post', 'deletedPost')",
		azcosmos.NewPartitionKeyString(p.ID), nil).NextPage(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	var n int
	if err := json.Unmarshal(r.Items[0], &n); err != nil {
		w.T.Fatal(err)
	}
	return n
}

func TestDeletePost(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		p, other := w.AddPost(ada, "deleted"), w.AddPost(ada, "stays")
		c := w.AddComment(grace, p, "a comment")
		w.AddLike(grace, p)
		storetest.WantCode(t, w.DeletePost(t.Context(), grace.UserID, p.ID), blog.Forbidden, "")
		storetest.WantCode(t, w.DeletePost(t.Context(), ada.UserID, "absent"), blog.NotFound, "")
		storetest.WantCode(t, w.DeletePost(t.Context(), grace.UserID, c.ID), blog.NotFound, "")
		if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		// The post, its comments and likes are gone at once, without the projections.
		if got, err := w.Post(t.Context(), p.ID); got != nil || err != nil {
			t.Errorf("the deleted post: got %v, %v, want nil", got, err)
		}
		if diff := cmp.Diff([]string{"stays"}, storetest.Titles(w.AllFeed())); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"stays"}, storetest.Titles(w.AllUserPosts(ada))); diff != "" {
			t.Error(diff)
		}
		if got, err := w.Comment(t.Context(), p.ID, c.ID); got != nil || err != nil {
			t.Errorf("its comment: got %v, %v, want nil", got, err)
		}
		if n := w.remains(p); n != 0 {
			t.Errorf("%d items remain", n)
		}
		// Operations on the deleted post fail.
		storetest.WantCode(t, w.DeletePost(t.Context(), ada.UserID, p.ID), blog.NotFound, "")
		_, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: new("back")})
		storetest.WantCode(t, err, blog.NotFound, "")
		_, _, err = w.LikePost(t.Context(), grace.UserID, p.ID)
		storetest.WantCode(t, err, blog.NotFound, "")
		_, _, err = w.CreateComment(t.Context(),
			store.NewComment{AuthorID: grace.UserID, PostID: p.ID, Content: "late"})
		storetest.WantCode(t, err, blog.NotFound, "")
		_, err = w.UnlikePost(t.Context(), grace.UserID, p.ID)
		storetest.WantCode(t, err, blog.NotFound, "")

		// A process with an old page of the change feed does not restore it.
		users, err := w.Account.Container(w.Database, blog.UsersContainer)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(projection.WriteSummary(t.Context(), users, ada.UserID, p),
			w.Views().ProjectFeed(t.Context(), []*blog.Post{p})); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"stays"},
			storetest.Titles(append(w.AllFeed(), w.AllUserPosts(ada)[1:]...))); diff != "" {
			t.Error(diff)
		}
		stop := w.Start()
		w.AddLike(grace, other)
		testkit.Until(t, func() error {
			if w.AllFeed()[0].LikeCount != 1 {
				return errors.New("the feed does not have the like")
			}
			return nil
		})
		stop()
		if diff := cmp.Diff([]string{"stays"}, storetest.Titles(w.AllFeed())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestDeletePost_ManyComments(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "popular")
		for range 230 {
			w.AddComment(ada, p, "me too")
		}
		var batches int
		var mu sync.Mutex
		w.Wire.Intercept(func(r *http.Request) error { // the process dies during the second batch
			mu.Lock()
			defer mu.Unlock()
			if r.Header.Get("x-ms-cosmos-is-batch-request") != "" && strings.Contains(r.URL.Path, "/colls/posts/") {
				if batches++; batches > 1 {
					return errors.New("killed")
				}
			}
			return nil
		})
		if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		if n := w.remains(p); n != 130 {
			t.Errorf("%d items remain after the first batch, want 130", n)
		}
		w.Wire.Intercept(nil)
		defer w.Start()()
		testkit.Until(t, func() error {
			if n := w.remains(p); n != 0 {
				return fmt.Errorf("%d items remain", n)
			}
			return nil
		})
	})
}

func TestDeletePost_RefillsFeed(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Start()()
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 260 {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		feedIs := func(newest int) error {
			var want []string
			for i := newest; len(want) < 100; i-- {
				want = append(want, fmt.Sprintf("post %d", i))
			}
			if diff := cmp.Diff(want, storetest.Titles(w.AllFeed())); diff != "" {
				return errors.New(diff)
			}
			return nil
		}
		testkit.Until(t, func() error {
			if n := w.FeedLength(); n != 150 {
				return fmt.Errorf("the feed container has %d posts, want 150", n)
			}
			return feedIs(259)
		})
		// Delete more posts than the margin, one by one: the feed always has 100.
		for i := 259; i >= 160; i-- {
			if err := w.DeletePost(t.Context(), ada.UserID, posts[i].ID); err != nil {
				t.Fatal(err)
			}
			if i%10 == 0 {
				testkit.Until(t, func() error { return feedIs(i - 1) })
			}
		}
		// A change of an old post does not bring it into the feed.
		w.AddLike(ada, posts[3])
		testkit.Until(t, func() error { return feedIs(159) })
	})
}

func TestDeleteComment(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	p := w.AddPost(ada, "talk")
	c := w.AddComment(grace, p, "mine")
	_, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, c.ID)
	storetest.WantCode(t, err, blog.Forbidden, "")
	_, err = w.DeleteComment(t.Context(), grace.UserID, p.ID, "absent")
	storetest.WantCode(t, err, blog.NotFound, "")
	_, err = w.DeleteComment(t.Context(), ada.UserID, p.ID, p.ID)
	storetest.WantCode(t, err, blog.NotFound, "")
	after, err := w.DeleteComment(t.Context(), grace.UserID, p.ID, c.ID)
	if err != nil || after.CommentCount != 0 {
		t.Fatalf("got %v, %v", after, err)
	}
	if got, err := w.Comment(t.Context(), p.ID, c.ID); got != nil || err != nil || len(w.AllComments(p)) != 0 {
		t.Errorf("the deleted comment: got %v, %v, want nil", got, err)
	}
	_, err = w.DeleteComment(t.Context(), grace.UserID, p.ID, c.ID)
	storetest.WantCode(t, err, blog.NotFound, "")
	_, err = w.EditComment(t.Context(), grace.UserID, p.ID, c.ID, "back")
	storetest.WantCode(t, err, blog.NotFound, "")
	if got, err := w.Post(t.Context(), p.ID); err != nil || got.CommentCount != 0 {
		t.Errorf("counted twice: %v, %v", got, err)
	}
	t.Run("concurrent deletes -> counted once each", func(t *testing.T) {
		var comments []*blog.Comment
		for range 20 {
			comments = append(comments, w.AddComment(grace, p, "x"))
		}
		var wg sync.WaitGroup
		for _, c := range comments[:15] {
			for range 2 {
				wg.Go(func() {
					_, err := w.DeleteComment(context.Background(), grace.UserID, p.ID, c.ID)
					if err != nil && blog.CodeOf(err) != blog.NotFound {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if got, err := w.Post(t.Context(), p.ID); err != nil || got.CommentCount != 5 || len(w.AllComments(p)) != 5 {
			t.Errorf("got count %d and %d comments, %v, want 5", got.CommentCount, len(w.AllComments(p)), err)
		}
	})
}

func TestEditComment(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	p := w.AddPost(ada, "talk")
	c := w.AddComment(grace, p, "frist")
	_, err := w.EditComment(t.Context(), ada.UserID, p.ID, c.ID, "mine now")
	storetest.WantCode(t, err, blog.Forbidden, "")
	_, err = w.EditComment(t.Context(), grace.UserID, p.ID, c.ID, strings.Repeat("x", 10_001))
	storetest.WantCode(t, err, blog.Invalid, "content")
	_, err = w.EditComment(t.Context(), grace.UserID, p.ID, "absent", "x")
	storetest.WantCode(t, err, blog.NotFound, "")
	_, err = w.EditComment(t.Context(), ada.UserID, p.ID, p.ID, "x")
	storetest.WantCode(t, err, blog.NotFound, "")
	got, err := w.EditComment(t.Context(), grace.UserID, p.ID, c.ID, "first")
	if err != nil || got.Content != "first" || got.UpdatedAt == nil || got.CreatedAt != c.CreatedAt {
		t.Fatalf("got %+v, %v", got, err)
	}
	if read := w.AllComments(p); len(read) != 1 || read[0].Content != "first" {
		t.Errorf("got %+v", read)
	}
}

// A create that is repeated after its item was deleted returns Conflict and creates nothing.
func TestCreatePost_KeyOfDeletedPost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "there")
	check := func(err error) {
		t.Helper()
		storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
		if !strings.Contains(err.Error(), "has been deleted") {
			t.Error(err)
		}
	}
	newPost := store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Key: "k"}
	created, err := w.CreatePost(t.Context(), newPost)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.DeletePost(t.Context(), ada.UserID, created.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.CreatePost(t.Context(), newPost)
	check(err)
	newComment := store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "c", Key: "k"}
	comment, _, err := w.CreateComment(t.Context(), newComment)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, comment.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.CreateComment(t.Context(), newComment)
	check(err)
	if posts, comments := w.AllUserPosts(ada), w.AllComments(p); len(posts) != 1 || len(comments) != 0 {
		t.Errorf("got %d posts and %d comments, want 1 and 0", len(posts), len(comments))
	}
}
