package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// addDraft creates a draft.
func (w *world) addDraft(u *blog.User, title, content string) *blog.Post {
	w.T.Helper()
	p, err := w.CreateDraft(w.T.Context(), store.NewPost{AuthorID: u.UserID, Title: title, Content: content})
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

// draft reads a draft of a user; nil if it does not exist.
func (w *world) draft(u *blog.User, id string) *blog.Post {
	w.T.Helper()
	drafts, err := w.Drafts(w.T.Context(), u.UserID, []string{id})
	if err != nil {
		w.T.Fatal(err)
	}
	return drafts[0]
}

// allDrafts lists all drafts of a user, two at a time.
func (w *world) allDrafts(u *blog.User) []*blog.Post {
	w.T.Helper()
	return storetest.All(w.T, 2, func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
		return w.UserDrafts(ctx, u.UserID, p)
	})
}

// post reads a post; nil if it does not exist.
func (w *world) post(id string) *blog.Post {
	w.T.Helper()
	p, err := w.Post(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

func TestDraft(t *testing.T) {
	for name, content := range map[string]string{"short": "The text.", "excerpt": longText(1000),
		"longest": strings.Repeat("\U0001F600", 100_000)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, ada, eve := t.Context(), w.AddUser("ada"), w.AddUser("eve")
			d, err := w.CreateDraft(ctx,
				store.NewPost{AuthorID: ada.UserID, Title: "secret", Content: content, Tags: []string{"Go"}})
			if err != nil {
				t.Fatal(err)
			}
			w.addDraft(ada, "older", "o")
			w.addDraft(ada, "other", "o")
			if !d.IsDraft || d.Version != 1 || d.Content != content || d.Username != "ada" {
				t.Errorf("created %+.300v", d)
			}
			is := func(title, text string, version int32) {
				t.Helper()
				got := w.draft(ada, d.ID)
				if got == nil || !got.IsDraft || got.Title != title || got.Content != text || got.Truncated ||
					got.Version != version ||
					got.Username != "ada" || got.CreatedAt != d.CreatedAt || !slices.Equal(got.Tags, []string{"Go"}) {
					t.Fatalf("%+.300v", got)
				}
			}
			is("secret", content, 1)
			if all := storetest.Titles(w.allDrafts(ada)); !slices.Equal(all, []string{"other", "older", "secret"}) {
				t.Errorf("listed %q", all)
			}
			if listed := w.allDrafts(ada)[2]; listed.ID != d.ID || !listed.IsDraft ||
				listed.Truncated != (len(content) > 280) ||
				listed.Username != "ada" || listed.Minutes() != d.Minutes() {
				t.Errorf("listed %+.300v", listed)
			}
			edit := func(u *blog.User, e store.PostEdit) error {
				_, err := w.EditPost(ctx, u.UserID, d.ID, e)
				return err
			}
			longer := content + " More."
			if name == "longest" {
				longer = "Less."
			}
			if err := edit(ada,
				store.PostEdit{Title: ptr("edited"), Content: &longer, Version: ptr(int32(1))}); err != nil {
				t.Fatal(err)
			}
			is("edited", longer, 2)
			storetest.WantCode(t, edit(ada, store.PostEdit{Title: ptr("stale"), Version: ptr(int32(1))}),
				blog.Conflict, "version")
			storetest.WantCode(t, edit(eve, store.PostEdit{Title: ptr("stolen")}), blog.NotFound, "")
			storetest.WantCode(t, w.DeletePost(ctx, eve.UserID, d.ID), blog.NotFound, "")
			storetest.WantCode(t, w.RemovePost(ctx, d.ID), blog.NotFound, "")
			_, err = w.PublishPost(ctx, eve.UserID, d.ID)
			storetest.WantCode(t, err, blog.NotFound, "")
			is("edited", longer, 2)
			if w.draft(eve, d.ID) != nil || len(w.allDrafts(eve)) > 0 || w.post(d.ID) != nil ||
				len(w.AllUserPosts(ada)) > 0 ||
				len(w.AllFeed()) > 0 {
				t.Error("the draft is public")
			}
			if n, err := w.PostCount(ctx, ada.UserID); n != 0 || err != nil {
				t.Errorf("%d posts, %v", n, err)
			}
			if items := mentioning(w.World, "edited"); len(items) != 1 {
				t.Errorf("the draft is in %d items", len(items))
			}
			w.Clock.Millis.Add(60_000)
			for range 2 { // the second publication changes nothing
				p, err := w.PublishPost(ctx, ada.UserID, d.ID)
				if err != nil || p.ID != d.ID || p.IsDraft || p.Content != longer || p.Version != 2 ||
					p.Revision != 1 ||
					p.CreatedAt <= d.CreatedAt || p.UpdatedAt != nil || !slices.Equal(p.Tags, []string{"Go"}) {
					t.Fatalf("%+.300v %v", p, err)
				}
			}
			if p := w.post(d.ID); p == nil || p.Content != longer || w.draft(ada, d.ID) != nil ||
				len(w.allDrafts(ada)) != 2 ||
				len(w.AllUserPosts(ada)) != 1 || len(w.AllFeed()) != 1 {
				t.Errorf("published %+.300v", p)
			}
			_, err = w.PublishPost(ctx, eve.UserID, d.ID)
			storetest.WantCode(t, err, blog.Forbidden, "")
			if err := w.DeletePost(ctx, ada.UserID, d.ID); err != nil {
				t.Fatal(err)
			}
			_, err = w.PublishPost(ctx, ada.UserID, d.ID)
			storetest.WantCode(t, err, blog.NotFound, "")
		})
	}
}

func TestCreateDraft_Limit(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.AddUser("ada"), w.AddUser("eve")
	create := func(key string) (*blog.Post, error) {
		return w.CreateDraft(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Key: key})
	}
	first, err := create("key")
	if err != nil {
		t.Fatal(err)
	}
	for range 199 {
		w.addDraft(ada, "t", "c")
	}
	_, err = create("")
	storetest.WantCode(t, err, blog.LimitReached, "")
	if again, err := create("key"); err != nil || again.ID != first.ID {
		t.Errorf("the retry of one of them: %v %v", again, err)
	}
	w.addDraft(eve, "t", "c")
	if _, err := w.PublishPost(t.Context(), ada.UserID, first.ID); err != nil {
		t.Fatal(err)
	}
	w.addDraft(ada, "t", "c")
}

// A retry with the same key returns the draft, and once it is published the post. Posts have keys of their own.
func TestCreateDraft_Key(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.AddUser("ada"), w.AddUser("eve")
	input := store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Key: "key"}
	first, err := w.CreateDraft(t.Context(), input)
	if err != nil {
		t.Fatal(err)
	}
	same := func(isDraft bool) {
		t.Helper()
		if again, err := w.CreateDraft(t.Context(), input); err != nil || again.ID != first.ID ||
			again.IsDraft != isDraft ||
			again.Username != "ada" || again.Content != "c" {
			t.Fatalf("%+v %v", again, err)
		}
		other := input
		other.Content = longText(10_000)
		_, err := w.CreateDraft(t.Context(), other)
		storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
		if n := len(w.allDrafts(ada)); (n == 1) != isDraft {
			t.Fatalf("%d drafts", n)
		}
	}
	same(true)
	post, err := w.CreatePost(t.Context(), input)
	if err != nil || post.ID == first.ID {
		t.Errorf("a post with the key: %+v %v", post, err)
	}
	of := input
	of.AuthorID = eve.UserID
	if other, err := w.CreateDraft(t.Context(), of); err != nil || other.ID == first.ID {
		t.Errorf("a draft of another user: %+v %v", other, err)
	}
	if _, err := w.PublishPost(t.Context(), ada.UserID, first.ID); err != nil {
		t.Fatal(err)
	}
	same(false)
	if err := w.DeletePost(t.Context(), ada.UserID, first.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.CreateDraft(t.Context(), input)
	storetest.WantCode(t, err, blog.Conflict, "idempotencyKey")
}

// createsPost reports whether a request creates a post.
func createsPost(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/posts/docs") &&
		r.Header.Get("x-ms-documentdb-isquery") == ""
}

// Between the mark and the creation of the post another request edits, publishes or deletes the draft: an edit
// finishes the publication, a deletion prevents it, and nothing that was acknowledged is lost.
func TestPublishPost_Races(t *testing.T) {
	for name, tt := range map[string]struct {
		other func(ctx context.Context, w *world, u *blog.User, id string) error
		code  blog.Code // of the publication
		title string    // afterwards; "": there is neither
	}{
		"edit -> of the post": {func(ctx context.Context, w *world, u *blog.User, id string) error {
			p, err := w.EditPost(ctx, u.UserID, id, store.PostEdit{Title: ptr("edited"), Version: ptr(int32(1))})
			return result(err, p != nil && !p.IsDraft && p.Title == "edited" && p.Version == 2, p)
		}, "", "edited"},
		"publication -> one post": {func(ctx context.Context, w *world, u *blog.User, id string) error {
			p, err := w.PublishPost(ctx, u.UserID, id)
			return result(err, p != nil && p.Title == "t", p)
		}, "", "t"},
		"deletion -> deleted": {func(ctx context.Context, w *world, u *blog.User, id string) error {
			return w.DeletePost(ctx, u.UserID, id)
		}, blog.NotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada := w.AddUser("ada")
			d := w.addDraft(ada, "t", "c")
			raced := false
			w.Wire.Intercept(func(r *http.Request) error {
				if !raced && createsPost(r) {
					raced = true
					if err := tt.other(context.Background(), w, ada, d.ID); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			_, err := w.PublishPost(t.Context(), ada.UserID, d.ID)
			if blog.CodeOf(err) != tt.code || !raced {
				t.Errorf("%v, raced: %t", err, raced)
			}
			p := w.post(d.ID)
			if (p == nil) != (tt.title == "") || p != nil && p.Title != tt.title || w.draft(ada, d.ID) != nil ||
				len(w.allDrafts(ada)) > 0 {
				t.Errorf("%+v, drafts: %+v", p, w.allDrafts(ada))
			}
		})
	}
}

// A draft whose publication has failed is deleted without having been a post.
func TestDeletePost_FailedPublication(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	d := w.addDraft(ada, "t", "secret")
	published, fails := false, true
	w.Wire.Intercept(func(r *http.Request) error {
		if createsPost(r) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if fails {
				return errors.New("no connection")
			}
			published = published || bytes.Contains(body, []byte("secret"))
		}
		return nil
	})
	if _, err := w.PublishPost(t.Context(), ada.UserID, d.ID); err == nil || len(w.allDrafts(ada)) != 1 {
		t.Fatalf("%v, drafts: %+v", err, w.allDrafts(ada))
	}
	// As long as the publication may still create the post, the draft is there, and so is the answer of a repetition.
	if err := w.DeletePost(t.Context(), ada.UserID, d.ID); blog.CodeOf(err) != blog.Unavailable ||
		len(w.allDrafts(ada)) != 1 {
		t.Fatalf("%v, drafts: %+v", err, w.allDrafts(ada))
	}
	fails = false
	if err := w.DeletePost(t.Context(), ada.UserID, d.ID); err != nil {
		t.Fatal(err)
	}
	if published || w.post(d.ID) != nil || w.draft(ada, d.ID) != nil || len(w.allDrafts(ada)) > 0 {
		t.Errorf("published: %t, post: %+v, drafts: %+v", published, w.post(d.ID), w.allDrafts(ada))
	}
	if _, err := w.PublishPost(t.Context(), ada.UserID, d.ID); blog.CodeOf(err) != blog.NotFound {
		t.Errorf("publishing it afterwards: %v", err)
	}
}

// A crash after the creation of the post leaves the draft, which does not appear any more, not even once the post is
// deleted.
func TestPublishPost_LeftDraft(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	d := w.addDraft(ada, "left", "c")
	ctx, crash := context.WithCancel(t.Context())
	w.Wire.After(func(r *http.Response) {
		if createsPost(r.Request) {
			crash()
		}
	})
	if _, err := w.PublishPost(ctx, ada.UserID, d.ID); err == nil {
		t.Fatal("no crash")
	}
	w.Wire.After(nil)
	if w.draft(ada, d.ID) == nil || w.post(d.ID) == nil || len(w.allDrafts(ada)) > 0 {
		t.Fatalf("the draft %v and the post %v, listed %v", w.draft(ada, d.ID), w.post(d.ID), w.allDrafts(ada))
	}
	if err := w.DeletePost(t.Context(), ada.UserID, d.ID); err != nil {
		t.Fatal(err)
	}
	if w.draft(ada, d.ID) != nil || len(w.allDrafts(ada)) > 0 {
		t.Error("the draft has returned")
	}
}

// A user's drafts are exported, and deleted with the user.
func TestDrafts_ExportAndDeletion(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t)
		ada, eve := w.AddUser("ada"), w.AddUser("eve")
		d := w.addDraft(ada, "unpublished thoughts", longText(10_000))
		if all, _ := export(t, w.Store, ada.UserID, ""); !strings.Contains(fmt.Sprint(all), "unpublished thoughts") ||
			!strings.Contains(fmt.Sprint(all), d.Content) {
			t.Error("the export has no draft")
		}
		if all, _ := export(t, w.Store, eve.UserID, ""); strings.Contains(fmt.Sprint(all), "unpublished") {
			t.Error("the export of another user has the draft")
		}
		if err := w.DeleteUser(t.Context(), ada.UserID, "ada"); err != nil {
			t.Fatal(err)
		}
		if w.draft(ada, d.ID) != nil || len(w.allDrafts(ada)) > 0 {
			t.Error("a deleted user has drafts")
		}
		w.settled()
		if left := mentioning(w.World, "unpublished"); len(left) > 0 {
			t.Errorf("the deletion has left %v", left)
		}
	})
}

// No projection writes anything for a draft, verify finds no difference, and a rebuild none either.
func TestDrafts_NoViews(t *testing.T) {
	cosmostest.NeedsEngine(t, "it runs on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newFaultWorld(t)
		ada := w.AddUser("ada")
		w.addDraft(ada, "unpublished thoughts", "c")
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.settled()
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		w.settled()
		if items := mentioning(w.World, "unpublished"); len(items) != 1 {
			t.Errorf("the draft is in %d items: %v", len(items), items)
		}
		if all := w.allDrafts(ada); len(all) != 1 || all[0].Username != "countess" {
			t.Errorf("listed %+v", all)
		}
	})
}

// draftModel is what a user has of one id: a draft or a post, or neither.
type draftModel struct {
	state   string // "draft", "post" or "none"
	title   string
	version int32
}

// edited returns a draft or post with another title. An edit without a change keeps the version.
func edited(d draftModel, title string) draftModel {
	if title != d.title {
		d.title, d.version = title, d.version+1
	}
	return d
}

// Random operations on the drafts of a user, any of which may end before or after any of its requests. Afterwards the
// draft is as before or after the operation, never lost, doubled or half, and the operations that follow apply to what
// it is.
func TestDrafts_Model(t *testing.T) {
	cosmostest.NeedsEngine(t, "of its many requests")
	w := newWorld(t)
	// The clients read the account's properties before requests fail: azcosmos returns a failure of that for five
	// minutes.
	w.AddPost(w.AddUser("ada"), "first")
	users := 0
	rapid.Check(t, func(rt *rapid.T) {
		users++
		ada := w.AddUser(fmt.Sprint("ada-", users))
		known, pending := map[string]draftModel{}, map[string]bool{} // pending: a publication was interrupted
		var ids []string
		observe := func(id string) draftModel {
			p, d := w.post(id), w.draft(ada, id)
			page, err := w.UserDrafts(t.Context(), ada.UserID, store.Paging{First: 3})
			if err != nil {
				rt.Fatal(err)
			}
			listed := slices.ContainsFunc(page.Items, func(l *blog.Post) bool { return l.ID == id })
			switch {
			case p != nil && !listed:
				return draftModel{"post", p.Title, p.Version}
			case p == nil && d != nil && listed:
				return draftModel{"draft", d.Title, d.Version}
			case p == nil && d == nil && !listed:
				return draftModel{state: "none"}
			}
			rt.Fatalf("%s: post %+v, draft %+v, listed %t", id, p, d, listed)
			return draftModel{}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				if len(ids) == 3 {
					rt.Skip()
				}
				title, key := rapid.StringMatching("[a-z]{3}").Draw(rt, "title"), fmt.Sprint(len(ids))
				create := func(ctx context.Context) (*blog.Post, error) {
					return w.CreateDraft(ctx, store.NewPost{AuthorID: ada.UserID, Title: title, Content: "c", Key: key})
				}
				crashed(rt, w, func(ctx context.Context) error { _, err := create(ctx); return err })
				p, err := create(t.Context())
				if err != nil {
					rt.Fatal(err)
				}
				ids = append(ids, p.ID)
				known[p.ID] = draftModel{"draft", title, 1}
			},
			"change": func(rt *rapid.T) {
				if len(ids) == 0 {
					rt.Skip()
				}
				id := rapid.SampledFrom(ids).Draw(rt, "id")
				before, title := known[id], rapid.StringMatching("[a-z]{3}").Draw(rt, "title")
				after, code := before, blog.Code("")
				if before.state == "none" {
					code = blog.NotFound
				}
				var operation func(context.Context) error
				switch rapid.SampledFrom([]string{"edit", "edit at version", "publish", "delete"}).Draw(rt,
					"operation") {
				case "edit":
					operation = func(ctx context.Context) error {
						_, err := w.EditPost(ctx, ada.UserID, id, store.PostEdit{Title: &title})
						return err
					}
					after = edited(before, title)
				case "edit at version":
					version := rapid.Int32Range(1, 3).Draw(rt, "version")
					operation = func(ctx context.Context) error {
						_, err := w.EditPost(ctx, ada.UserID, id, store.PostEdit{Title: &title, Version: &version})
						return err
					}
					if after = edited(before, title); code == "" && version != before.version {
						after, code = before, blog.Conflict
					}
				case "publish":
					operation = func(ctx context.Context) error {
						_, err := w.PublishPost(ctx, ada.UserID, id)
						return err
					}
					after.state = "post"
				case "delete":
					operation = func(ctx context.Context) error { return w.DeletePost(ctx, ada.UserID, id) }
					after = draftModel{state: "none"}
				}
				if code == blog.NotFound {
					after = before
				}
				err := crashed(rt, w, operation)
				now := observe(id)
				// the operation may finish an interrupted publication
				finished := before.state == "draft" && pending[id]
				same := func(m draftModel) bool {
					return now == m || finished && m.state == "draft" && now == draftModel{"post", m.title, m.version}
				}
				switch {
				case err == errCrashed && (same(before) || same(after)):
				case err != errCrashed && blog.CodeOf(err) == code && same(after):
				default:
					rt.Fatalf("%v, want code %q: before %+v, after %+v, now %+v", err, code, before, after, now)
				}
				if after.state == "post" && now.state == "draft" {
					pending[id] = true
				}
				known[id] = now
			},
			"": func(rt *rapid.T) {
				for id, want := range known {
					if now := observe(id); now != want {
						rt.Fatalf("%s is %+v, want %+v", id, now, want)
					}
				}
			},
		})
		for _, id := range ids { // a retry finishes what was interrupted
			if known[id].state == "draft" && pending[id] {
				if p, err := w.PublishPost(t.Context(), ada.UserID, id); err != nil || p.Title != known[id].title {
					rt.Fatalf("%+v %v, want %+v", p, err, known[id])
				}
			}
		}
	})
	w.Start()
	testkit.Until(t, w.CaughtUp)
	w.noDifferences(t)
}

// errCrashed is the error of an operation whose process has crashed.
var errCrashed = fmt.Errorf("crashed")

// crashed executes an operation that may end before or after one of its requests.
func crashed(rt *rapid.T, w *world, operation func(context.Context) error) error {
	at, after := rapid.IntRange(0, 8).Draw(rt, "crash at request"), rapid.Bool().Draw(rt, "after it")
	ctx, crash := context.WithCancel(w.T.Context())
	defer crash()
	var mu sync.Mutex // requests may be concurrent
	requests, dead := 0, false
	w.Wire.Intercept(func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests == at && !after {
			dead = true
			crash()
		}
		if dead {
			return errCrashed
		}
		return nil
	})
	w.Wire.After(func(*http.Response) {
		mu.Lock()
		defer mu.Unlock()
		if requests == at && after {
			dead = true
			crash()
		}
	})
	err := operation(ctx)
	w.Wire.Intercept(nil)
	w.Wire.After(nil)
	if dead {
		return errCrashed
	}
	return err
}
