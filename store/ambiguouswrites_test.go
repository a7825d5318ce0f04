package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"byline/internal/faulttest"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

// lossyTransport loses the first write once it is armed: its response, or the request itself.
type lossyTransport struct {
	policy.Transporter
	armed       atomic.Bool
	loseRequest bool
	writes      atomic.Int64 // since it was armed

	afterWrite func() // if set, called after the write whose response is lost
}

func (d *lossyTransport) Do(r *http.Request) (*http.Response, error) {
	if !d.armed.Load() || !changes(r) {
		return d.Transporter.Do(r)
	}
	if d.writes.Add(1); d.writes.Load() > 1 {
		return d.Transporter.Do(r)
	}
	if !d.loseRequest {
		resp, err := d.Transporter.Do(r)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		if d.afterWrite != nil {
			d.afterWrite()
		}
	}
	return nil, errors.New("connection reset by peer")
}

// lossy makes the world's account use a lossyTransport, which is not armed yet.
func (w *world) lossy(loseRequest bool) *lossyTransport {
	d := &lossyTransport{Transporter: w.Transport, loseRequest: loseRequest}
	w.Wire.To = d
	return d
}

// changes reports whether a request is a write, not a query or a batch of reads.
func changes(r *http.Request) bool {
	if r.Method == http.MethodGet || strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json") {
		return false
	}
	if r.Body == nil {
		return true
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err != nil || !bytes.Contains(body, []byte(`"operationType":"Read"`))
}

// A write whose response is lost is executed once and succeeds. A lost request is not sent again: the caller
// gets Unavailable.
func TestAmbiguousWrites(t *testing.T) {
	for _, loseRequest := range []bool{false, true} {
		for name, tt := range map[string]struct {
			do     func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error
			writes int64 // writes of the successful operation
		}{
			"create post": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				made, err := w.CreatePost(w.T.Context(),
					store.NewPost{AuthorID: ada.UserID, Title: "once", Content: "x"})
				if err != nil {
					return err
				}
				have, err := w.Post(w.T.Context(), made.ID)
				return expect(have != nil && have.Revision == 1, have, err)
			}, 1},
			"edit post": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				title := "edited"
				edited, err := w.EditPost(w.T.Context(), ada.UserID, p.ID,
					store.PostEdit{Title: &title, Version: &p.Version})
				if err != nil {
					return err
				}
				have, err := w.Post(w.T.Context(), p.ID)
				return expect(edited.Title == title && have.Title == title && have.Version == p.Version+1, have, err)
			}, 1},
			"delete post": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				if err := w.DeletePost(w.T.Context(), ada.UserID, p.ID); err != nil {
					return err
				}
				have, err := w.Post(w.T.Context(), p.ID)
				return expect(have == nil, have, err)
			}, 1},
			"delete user": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				if err := w.DeleteUser(w.T.Context(), ada.UserID, ada.Username); err != nil {
					return err
				}
				have, err := w.User(w.T.Context(), ada.UserID)
				return expect(have == nil, have, err)
			}, 1},
			"create comment": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				_, post, err := w.CreateComment(w.T.Context(),
					store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "once"})
				if err != nil {
					return err
				}
				return expect(post.CommentCount == 2, post, nil)
			}, 1},
			"edit comment": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				have, err := w.EditComment(w.T.Context(), ada.UserID, p.ID, c.ID, "edited")
				if err != nil {
					return err
				}
				return expect(have.Content == "edited" && have.UpdatedAt != nil, have, nil)
			}, 1},
			"delete comment": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				post, err := w.DeleteComment(w.T.Context(), ada.UserID, p.ID, c.ID)
				if err != nil {
					return err
				}
				return expect(post.CommentCount == 0, post, nil)
			}, 1},
			"like": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				like, post, err := w.LikePost(w.T.Context(), ada.UserID, p.ID)
				if err != nil {
					return err
				}
				return expect(like != nil && post.LikeCount == 2, post, nil)
			}, 1},
			"unlike": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				post, err := w.UnlikePost(w.T.Context(), blog.UserID("test", "grace"), p.ID)
				if err != nil {
					return err
				}
				return expect(post.LikeCount == 0, post, nil)
			}, 1},
			"create user": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				u, err := w.CreateUser(w.T.Context(), store.NewUser{ID: blog.UserID("test", "new"), Username: "new"})
				if err != nil {
					return err
				}
				have, err := w.UserByUsername(w.T.Context(), "new")
				return expect(have != nil && have.UserID == u.UserID, have, err)
			}, 2},
			"rename": {func(w *world, ada *blog.User, p *blog.Post, c *blog.Comment) error {
				u, err := w.UpdateUser(w.T.Context(), ada.UserID, store.UserEdit{Username: new("lovelace")})
				if err != nil {
					return err
				}
				have, err := w.UserByUsername(w.T.Context(), "lovelace")
				return expect(have != nil && have.UserID == u.UserID && have.Revision == ada.Revision+1, have, err)
			}, 4},
		} {
			t.Run(fmt.Sprintf("%s/request lost: %t", name, loseRequest), func(t *testing.T) {
				w := newWorld(t)
				ada, grace := w.AddUser("ada"), w.AddUser("grace")
				p := w.AddPost(ada, "Post")
				c := w.AddComment(ada, p, "comment")
				w.AddLike(grace, p)
				p, err := w.Post(t.Context(), p.ID)
				if err != nil {
					t.Fatal(err)
				}
				d := w.lossy(loseRequest)
				d.armed.Store(true)
				err = tt.do(w, ada, p, c)
				if loseRequest {
					if blog.CodeOf(err) != blog.Unavailable || d.writes.Load() != 1 {
						t.Errorf("got %d writes, %v, want 1, unavailable", d.writes.Load(), err)
					}
					return
				}
				if err != nil {
					t.Error(err)
				}
				// Operations on posts also write the summaries.
				if n := d.writes.Load(); n != tt.writes && !strings.HasSuffix(name, "post") {
					t.Errorf("got %d writes, want %d", n, tt.writes)
				}
			})
		}
	}
}

// The response of a comment's delete is lost, and its post is deleted just after.
func TestAmbiguousDelete_CommentOfDeletedPost(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "Post")
	c := w.AddComment(ada, p, "comment")
	d := w.lossy(false)
	d.afterWrite = func() { w.Corrupt("posts", p.ID, p.ID, "/deleted", true) }
	d.armed.Store(true)
	post, err := w.DeleteComment(t.Context(), ada.UserID, p.ID, c.ID)
	if post != nil || blog.CodeOf(err) != blog.NotFound {
		t.Errorf("%+v, %v", post, err)
	}
}

// The request or the response of a draft's delete is lost.
func TestAmbiguousDelete_Draft(t *testing.T) {
	for loseRequest, code := range map[bool]blog.Code{false: "", true: blog.Unavailable} {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.addDraft(ada, "t", "c")
		w.lossy(loseRequest).armed.Store(true)
		err := w.DeletePost(t.Context(), ada.UserID, p.ID)
		if left := w.draft(ada, p.ID) != nil; blog.CodeOf(err) != code || left != loseRequest {
			t.Errorf("request lost: %t: %v, is there a draft: %t", loseRequest, err, left)
		}
	}
}

// The response to a repeated create is lost: the caller gets the first post, as it is now.
func TestAmbiguousCreate_RepeatedKey(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	n := store.NewPost{AuthorID: ada.UserID, Title: "once", Content: "x", Key: "key"}
	first, err := w.CreatePost(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	title := "edited"
	edited, err := w.EditPost(t.Context(), ada.UserID, first.ID, store.PostEdit{Title: &title})
	if err != nil {
		t.Fatal(err)
	}
	w.lossy(false).armed.Store(true)
	again, err := w.CreatePost(t.Context(), n)
	if diff := cmp.Diff(edited, again); err != nil || diff != "" {
		t.Errorf("error %v, (-want +got):\n%s", err, diff)
	}
}

// A long post is deleted while a repeated create reads its text.
func TestCreatePost_DeletedWhileRepeated(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	n := store.NewPost{AuthorID: ada.UserID, Title: "once", Content: longText(11_000), Key: "key"}
	p, err := w.CreatePost(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	w.Remove("posts", p.ID, blog.TextID)
	w.Wire.To = deleteOnBatch{w, p.ID}
	if again, err := w.CreatePost(t.Context(), n); again != nil || blog.CodeOf(err) != blog.Conflict {
		t.Errorf("%+v, %v", again, err)
	}
}

// deleteOnBatch deletes a post just before a batch reads it.
type deleteOnBatch struct {
	*world
	post string
}

func (d deleteOnBatch) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" && !changes(r) {
		d.Corrupt("posts", d.post, d.post, "/deleted", true)
	}
	return d.Transport.Do(r)
}

func expect(ok bool, got any, err error) error {
	if err != nil || !ok {
		return fmt.Errorf("%+v %v", got, err)
	}
	return nil
}

// busy makes the next left writes of the world get 449, as concurrent writes of one item do. With inBatch, it is the
// status of an operation of a batch.
func (w *world) busy(inBatch bool) (left *atomic.Int32) {
	left = new(atomic.Int32)
	w.Inject(func(o faulttest.Operation) (f faulttest.Response) {
		if o.Kind.Writes() && left.Add(-1) >= 0 {
			f.Status, f.InBatch = 449, inBatch && o.Kind == faulttest.Batch
		}
		return f
	})
	return left
}

// A write that gets 449 (RetryWith) is sent again, a limited number of times.
func TestWrites_RetryWith(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "popular")
	left := w.busy(false)
	left.Store(2)
	if _, liked, err := w.LikePost(t.Context(), ada.UserID, p.ID); err != nil || liked.LikeCount != 1 {
		t.Errorf("like: %v", err)
	}
	left.Store(2)
	title := "edited"
	if _, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: &title}); err != nil {
		t.Errorf("edit: %v", err)
	}
	left.Store(1000)
	if _, err := w.UpdateUser(t.Context(), ada.UserID,
		store.UserEdit{Username: new("lovelace")}); blog.CodeOf(err) != blog.Unavailable {
		t.Errorf("rename: %v", err)
	}
	if n := 1000 - left.Load(); n < 2 || n > 20 {
		t.Errorf("sent %d times, want 2 to 20", n)
	}
}

// A batch is sent again if one of its operations gets 449 (RetryWith).
func TestBatches_RetryWith(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "popular")
	left := w.busy(true)
	left.Store(2)
	if _, liked, err := w.LikePost(t.Context(), ada.UserID, p.ID); err != nil || liked.LikeCount != 1 {
		t.Errorf("like: %v", err)
	}
	left.Store(2)
	if unliked, err := w.UnlikePost(t.Context(), ada.UserID, p.ID); err != nil || unliked.LikeCount != 0 {
		t.Errorf("unlike: %v", err)
	}
	left.Store(1000)
	if _, _, err := w.CreateComment(t.Context(),
		store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "x"}); blog.CodeOf(err) != blog.Unavailable {
		t.Errorf("comment: %v", err)
	}
	if n := 1000 - left.Load(); n < 2 || n > 20 {
		t.Errorf("sent %d times, want 2 to 20", n)
	}
}

// After a write that Cosmos DB rejects, the store does not read the outcome.
func TestAmbiguousWrites_RejectedWrite(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	var batches atomic.Int32
	w.Wire.After(func(r *http.Response) {
		if r.Request.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" {
			batches.Add(1)
		}
	})
	_, _, err := w.LikePost(t.Context(), ada.UserID, "absent")
	storetest.WantCode(t, err, blog.NotFound, "")
	_, _, err = w.CreateComment(t.Context(), store.NewComment{AuthorID: ada.UserID, PostID: "absent", Content: "x"})
	storetest.WantCode(t, err, blog.NotFound, "")
	if n := batches.Load(); n != 2 {
		t.Errorf("got %d batches, want 2", n)
	}
}

// An edit whose request is lost does not pass for an earlier edit.
func TestAmbiguousEdit_OfAnotherClient(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	one, two := "one", "two"
	p := w.AddPost(ada, one)
	c := w.AddComment(ada, p, one)
	w.Clock.Stopped.Store(true) // so that the edits have the same date
	if _, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: &one, Content: &one}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.EditComment(t.Context(), ada.UserID, p.ID, c.ID, one); err != nil {
		t.Fatal(err)
	}
	lost := func(edit func() error) {
		t.Helper()
		w.lossy(true).armed.Store(true)
		storetest.WantCode(t, edit(), blog.Unavailable, "")
	}
	editPost := func(e store.PostEdit) func() error {
		return func() error {
			_, err := w.EditPost(t.Context(), ada.UserID, p.ID, e)
			return err
		}
	}
	editComment := func(content string) func() error {
		return func() error {
			_, err := w.EditComment(t.Context(), ada.UserID, p.ID, c.ID, content)
			return err
		}
	}
	lost(editPost(store.PostEdit{Title: &two, Content: &one}))
	lost(editPost(store.PostEdit{Title: &one, Content: &two}))
	lost(editComment(two))
}
