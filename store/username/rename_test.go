package username_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/storetest"
	"byline/store/stored"
	"byline/store/username"
)

// item reads a user.
func (w *world) item(id string) *blog.UserItem {
	w.T.Helper()
	raw, err := stored.Read(w.T.Context(), "test", w.users, stored.Key(id, id))
	if err != nil {
		w.T.Fatal(err)
	}
	u, err := blog.DecodeUserOrTombstone("test", raw)
	if err != nil || u == nil {
		w.T.Fatal(u, err)
	}
	return u
}

// rename changes ada's username.
func (w *world) rename(name string) (*blog.User, error) {
	w.T.Helper()
	return w.renameWith(name, func() {})
}

// renameWith is rename, and calls before when the user is about to change.
func (w *world) renameWith(name string, before func()) (*blog.User, error) {
	w.T.Helper()
	u := w.item(w.ada.UserID)
	return w.Rename(w.T.Context(), "test", u, name,
		func(former []string) (*blog.User, error) {
			before()
			return w.write(u.Revision, name, former)
		},
		func(renamed *blog.User) error {
			_, err := w.write(renamed.Revision, u.Username, u.FormerUsernames)
			return err
		})
}

// write sets the names of ada at a revision. It returns nil if she has another.
func (w *world) write(revision int64, name string, former []string) (*blog.User, error) {
	p := cosmos.Patch{Condition: fmt.Sprintf("from c where c.revision = %d", revision), ReturnItem: true}
	p.Set("/username", name)
	p.Set("/formerUsernames", append([]string{}, former...))
	p.Increment("/revision", 1)
	r, err := w.users.Patch(w.T.Context(), stored.Key(w.ada.UserID, w.ada.UserID), p)
	if cosmos.HasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, stored.Error("test", err)
	}
	return blog.DecodeUser("test", r.Value)
}

func (w *world) mustRename(name string) {
	w.T.Helper()
	if u, err := w.rename(name); err != nil || u == nil || u.Username != name {
		w.T.Fatalf("renamed to %s: %+v, %v", name, u, err)
	}
}

func TestRename(t *testing.T) {
	w := newWorld(t)
	called := false
	u, err := w.renameWith("lovelace", func() {
		called = true
		w.want("lovelace", state{Owner: w.ada.UserID}) // reserved before the user is changed
		w.want("ada", state{w.ada.UserID, true, false})
	})
	if err != nil || !called || u.Username != "lovelace" {
		t.Fatal(u, err, called)
	}
	w.want("ada", state{w.ada.UserID, true, true})
	w.want("lovelace", state{Owner: w.ada.UserID})
	if d := cmp.Diff([]string{"ada"}, w.item(w.ada.UserID).FormerUsernames); d != "" {
		t.Errorf("former names: %q", d)
	}
	r, _, err := w.Read(t.Context(), "test", "ada")
	if err != nil || r.TTL != 30*24*60*60 {
		t.Errorf("the released name: %+v, %v, want a TTL of 30 days", r, err)
	}
}

// Five former names are kept, the newest; the oldest is freed.
func TestRename_FormerNames(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		w.mustRename(name)
	}
	w.want("ada", state{w.ada.UserID, true, true})
	w.mustRename("six")
	w.want("ada", state{})
	if d := cmp.Diff([]string{"one", "two", "three", "four", "five"}, w.item(w.ada.UserID).FormerUsernames); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	w.mustRename("Two") // a name of theirs again
	w.want("two", state{w.ada.UserID, true, false})
	if d := cmp.Diff([]string{"one", "three", "four", "five", "six"}, w.item(w.ada.UserID).FormerUsernames); d != "" {
		t.Errorf("back to a former name: -want +got\n%s", d)
	}
}

// The oldest former name is not freed when it is another user's, or no longer released.
func TestRename_FormerNameOfAnother(t *testing.T) {
	for name, r := range map[string]*username.Reservation{
		"another's": {OwnerID: bob, Envelope: blog.Envelope{TTL: 60}},
		"taken":     {OwnerID: "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if r.OwnerID == "ada" {
				r.OwnerID = w.ada.UserID
			}
			for _, name := range []string{"one", "two", "three", "four", "five"} {
				w.mustRename(name)
			}
			w.reserve("ada", *r)
			w.mustRename("six")
			w.want("ada", state{r.OwnerID, false, r.TTL > 0})
		})
	}
}

// A write of unknown outcome is followed by a read, which decides.
func TestRename_AmbiguousWrites(t *testing.T) {
	old := username.Key("ada")
	for name, tt := range map[string]struct {
		fail     func(w *world)
		code     blog.Code // "" : renamed
		again    bool      // nil, nil: to be tried again
		released bool      // the old name
	}{
		"user not changed": {fail: func(w *world) { w.on(1, http.MethodPatch, w.ada.UserID, down) },
			code: blog.Unavailable},
		"old name marked, response lost": {fail: func(w *world) { w.lose(http.MethodPatch, old) }, again: true},
		"old name not marked":            {fail: func(w *world) { w.on(1, http.MethodPatch, old, down) }, again: true},
		"old name not released":          {fail: func(w *world) { w.on(2, http.MethodPatch, old, down) }},
		"old name not read": {fail: func(w *world) { w.fail(http.MethodGet, old) },
			code: blog.Unavailable},
		"old name released, response lost": {fail: func(w *world) {
			w.on(2, http.MethodPatch, old, func() error { w.lose(http.MethodPatch, old); return nil })
		}, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.fail(w)
			u, err := w.rename("wanted")
			switch {
			case tt.code != "":
				storetest.WantCode(t, err, tt.code, "")
			case err != nil:
				t.Fatal(err)
			case tt.again != (u == nil):
				t.Fatalf("got %+v, want nil: %t", u, tt.again)
			case u != nil && (u.Username != "wanted" || u.Revision != w.ada.Revision+1):
				t.Errorf("got %+v", u)
			}
			w.Wire.Intercept(nil)
			if r := w.reserved("ada"); r.Owner != w.ada.UserID || r.Released != tt.released {
				t.Errorf("the old name: %+v, want released: %t", r, tt.released)
			}
			w.want("wanted", state{Owner: w.ada.UserID})
			if u != nil {
				return
			}
			if tt.again { // succeeds when it is tried again
				w.mustRename("wanted")
				w.want("ada", state{w.ada.UserID, true, true})
			}
		})
	}
}

// Another request changes the user, or the old name, meanwhile: nothing is changed, and the caller tries again.
func TestRename_Concurrent(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"user": func(w *world) {
			w.on(1, http.MethodPatch, w.ada.UserID, func() error {
				w.Corrupt("users", w.ada.UserID, w.ada.UserID, "/revision", w.ada.Revision+1)
				return nil
			})
		},
		"user deleted": func(w *world) {
			w.on(1, http.MethodPatch, w.ada.UserID, func() error {
				w.Remove("users", w.ada.UserID, w.ada.UserID)
				return nil
			})
		},
		"old name": func(w *world) {
			w.on(1, http.MethodPatch, username.Key("ada"), func() error {
				w.reserve("ada", username.Reservation{OwnerID: w.ada.UserID})
				return nil
			})
		},
		"old name deleted": func(w *world) {
			w.on(1, http.MethodPatch, username.Key("ada"), func() error {
				w.Remove("users", username.Key("ada"), username.Key("ada"))
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			if u, err := w.rename("wanted"); u != nil || err != nil {
				t.Errorf("got %+v, %v, want to be asked again", u, err)
			}
		})
	}
}

// Who has a name whose reservation is missing, or another's, changes it without touching that.
func TestRename_OldNameNotTheirs(t *testing.T) {
	t.Run("another's", func(t *testing.T) {
		w := newWorld(t)
		w.reserve("ada", username.Reservation{OwnerID: bob})
		w.mustRename("wanted")
		w.want("ada", state{Owner: bob})
	})
	t.Run("missing", func(t *testing.T) {
		w := newWorld(t)
		w.Remove("users", username.Key("ada"), username.Key("ada"))
		w.mustRename("wanted")
		w.want("ada", state{})
	})
}

// The new name is taken before anything is changed.
func TestRename_NameTaken(t *testing.T) {
	w := newWorld(t)
	w.AddUser("grace")
	_, err := w.rename("Grace")
	storetest.WantCode(t, err, blog.Conflict, "username")
	w.want("ada", state{Owner: w.ada.UserID})
	if u := w.item(w.ada.UserID); u.Revision != w.ada.Revision {
		t.Errorf("the user was changed: %+v", u)
	}
}

// The new name is lost to another user after the user was changed: the user gets back the old one.
func TestRename_Reverted(t *testing.T) {
	w := newWorld(t)
	w.mustRename("countess")
	lose := func(name string) func() {
		return func() { w.reserve(name, username.Reservation{OwnerID: bob}) }
	}
	_, err := w.renameWith("wanted", lose("wanted"))
	storetest.WantCode(t, err, blog.Conflict, "username")
	if after := w.item(w.ada.UserID); after.Username != "countess" || !slices.Equal(after.FormerUsernames, []string{"ada"}) {
		t.Errorf("got %+v", after)
	}
	w.want("wanted", state{Owner: bob})

	t.Run("not restored", func(t *testing.T) {
		_, err := w.renameWith("other", func() {
			lose("other")()
			w.on(2, http.MethodPatch, w.ada.UserID, down)
		})
		storetest.WantCode(t, err, blog.Unavailable, "")
	})
	t.Run("the reservation cannot be read", func(t *testing.T) {
		_, err := w.renameWith("third", func() {
			w.fail(http.MethodPost, username.Key("third")) // a batch reads from the primary replica
		})
		storetest.WantCode(t, err, blog.Unavailable, "")
	})
}
