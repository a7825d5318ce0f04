package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/storetest"
)

// A post with the maximum number of comments accepts no more until one is deleted.
func TestCreateComment_FullPost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "full")
	w.Corrupt("posts", p.ID, p.ID, "/commentCount", 99_999)
	in := store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "the last", Key: "k"}
	c, full, err := w.CreateComment(t.Context(), in)
	if err != nil || full.CommentCount != 100_000 {
		t.Fatal(full, err)
	}
	_, _, err = w.CreateComment(t.Context(), store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "one more"})
	storetest.WantCode(t, err, "LIMIT_REACHED", "")
	if again, _, err := w.CreateComment(t.Context(), in); err != nil || again.ID != c.ID {
		t.Errorf("a repetition: %v, %v", again, err)
	}
	w.AddLike(ada, p)
	if _, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, c.ID); err != nil {
		t.Fatal(err)
	}
	w.AddComment(ada, p, "one more")
}

func TestLikePost_FullPost(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	p := w.AddPost(ada, "full")
	w.Corrupt("posts", p.ID, p.ID, "/likeCount", 999_999)
	w.AddLike(ada, p)
	_, _, err := w.LikePost(t.Context(), grace.UserID, p.ID)
	storetest.WantCode(t, err, "LIMIT_REACHED", "")
	if l, _, err := w.LikePost(t.Context(), ada.UserID, p.ID); err != nil || l.UserID != ada.UserID {
		t.Errorf("a repetition: %v, %v", l, err)
	}
	w.AddComment(grace, p, "I like it")
	if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.LikePost(t.Context(), grace.UserID, p.ID)
	storetest.WantCode(t, err, blog.NotFound, "")
}

// The maximum number of comments and likes, all of maximum length, fill less than half a logical partition.
func TestLimits_FitIntoALogicalPartition(t *testing.T) {
	const partition = 20 << 30
	id, name, date := strings.Repeat("x", 100), strings.Repeat("x", 30), blog.NewDate(storetest.Epoch())
	// which JSON escapes
	comment := blog.CommentItem{Envelope: blog.Envelope{Type: blog.TypeComment}, InputDigest: id,
		Comment: blog.Comment{ID: id, PostID: id, Byline: blog.Byline{UserID: id, Username: name}, CreatedAt: date,
			UpdatedAt: &date, Content: strings.Repeat("<", 10_000)}}
	if err := store.ValidateComment(comment.Content + "<"); err == nil {
		t.Error("longer comments are accepted")
	}
	like := blog.LikeItem{Envelope: blog.Envelope{Type: blog.TypeLike}, ID: id,
		Like: blog.Like{PostID: id, Byline: blog.Byline{UserID: id, Username: name}, CreatedAt: date}}
	const system = 300 // bytes of Cosmos DB's own properties
	c, l := len(blog.Encode(comment))+system, len(blog.Encode(like))+system
	all := c*store.MaxCounted["/commentCount"] + l*store.MaxCounted["/likeCount"]
	t.Logf("comments of %d bytes and likes of %d bytes: %.1f GB", c, l, float64(all)/(1<<30))
	if all > partition/2 {
		t.Errorf("got %d bytes, want at most %d", all, partition/2)
	}
}

// An author can write a thousand comments on a post, including deleted ones. Counting them is free below the
// limit and costs little at it.
func TestCreateComment_LimitPerAuthor(t *testing.T) {
	const limit = 1000
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	p := w.AddPost(grace, "popular")
	requests, ru := 0, 0.0
	ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
		requests++
		ru += o.RU
	})
	comment := func(u *blog.User, key string) (*blog.Comment, error) {
		c, _, err := w.CreateComment(ctx, store.NewComment{AuthorID: u.UserID, PostID: p.ID, Content: "c", Key: key})
		return c, err
	}
	first, err := comment(ada, "first")
	if err != nil {
		t.Fatal(err)
	}
	each := ru
	for i := 1; i < limit; i++ {
		c, err := comment(ada, "")
		if err != nil {
			t.Fatal(i, err)
		}
		if i%2 == 0 {
			if _, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, c.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d comments of %.1f RU cost %.1f RU each, with %.2f requests", limit, each, ru/limit,
		float64(requests)/limit)
	if ru > 1.02*limit*each {
		t.Errorf("%.1f RU per comment, want at most 2%% more than %.1f", ru/limit, each)
	}
	counted := 0.0
	for i := range 3 {
		ru = 0
		if _, err := comment(ada, ""); blog.CodeOf(err) != "LIMIT_REACHED" || ru > each {
			t.Errorf("got %v for %.1f RU, want limit reached for at most %.1f", err, ru, each)
		}
		if counted = max(counted, ru); i > 0 && ru > counted-2 {
			t.Errorf("counted again after a refusal: %.1f RU", ru)
		}
		t.Logf("refused for %.1f RU", ru)
	}
	if again, err := comment(ada, "first"); err != nil || again.ID != first.ID {
		t.Errorf("a repetition: %v, %v", again, err)
	}
	for i := range 3 {
		if _, err := comment(grace, fmt.Sprint(i)); err != nil {
			t.Errorf("another author: %v", err)
		}
	}
	w.AddLike(ada, p)
}

// Another instance, which does not know of the comments, accepts one more.
func TestCreateComment_LimitPerAuthorOnAnotherInstance(t *testing.T) {
	const limit = 1000
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "popular")
	for range limit {
		w.AddComment(ada, p, "c")
	}
	s, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for range 10 {
		_, _, err = s.CreateComment(t.Context(), store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "c"})
		if err == nil {
			accepted++
		}
	}
	var e *blog.Error
	if accepted != 1 || !errors.As(err, &e) || e.Code != "LIMIT_REACHED" || e.Message == "" {
		t.Errorf("got %d more comments, then %v, want 1, then limit reached", accepted, err)
	}
}

// A logical partition that is full refuses a batch with 403/1014 in its body, whatever the HTTP status.
func TestCreateComment_FullPartition(t *testing.T) {
	for _, status := range []int{http.StatusMultiStatus, http.StatusOK} {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "full")
		w.Wire.After(func(r *http.Response) {
			if r.Request.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" {
				body := `[{"statusCode":403,"subStatusCode":1014},{"statusCode":424}]`
				r.StatusCode, r.Body, r.ContentLength = status, io.NopCloser(strings.NewReader(body)), int64(len(body))
			}
		})
		_, _, err := w.CreateComment(t.Context(),
			store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "one more"})
		storetest.WantCode(t, err, blog.LimitReached, "")
	}
}
