package username_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog"
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
	return w.change(func(u *blog.User) { u.Username = name })
}

func (w *world) change(edit func(*blog.User)) (*blog.User, error) {
	w.T.Helper()
	u := w.item(w.ada.UserID)
	to := u.User
	edit(&to)
	return w.Change(w.T.Context(), "test", u, to, func() {})
}

func (w *world) mustRename(name string) {
	w.T.Helper()
	if u, err := w.rename(name); err != nil || u == nil || u.Username != name {
		w.T.Fatalf("renamed to %s: %+v, %v", name, u, err)
	}
}

func TestChange_Rename(t *testing.T) {
	w := newWorld(t)
	called := false
	before := w.item(w.ada.UserID)
	to := before.User
	to.Username, to.Bio = "lovelace", "Weaves."
	u, err := w.Change(t.Context(), "test", before, to, func() {
		called = true
		w.want("lovelace", state{Owner: w.ada.UserID}) // reserved before the user is changed
		w.want("ada", state{w.ada.UserID, true, false})
		if u := w.item(w.ada.UserID); u.Username != "ada" {
			t.Errorf("the user has the name %s already", u.Username)
		}
	})
	if err != nil || !called {
		t.Fatal(err, called)
	}
	want := to
	want.Revision++
	if d := cmp.Diff(&want, u); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	w.want("ada", state{w.ada.UserID, true, true})
	w.want("lovelace", state{Owner: w.ada.UserID})
	have := w.item(w.ada.UserID)
	if d := cmp.Diff(want, have.User); d != "" {
		t.Errorf("stored: -want +got\n%s", d)
	}
	if d := cmp.Diff([]string{"ada"}, have.FormerUsernames); d != "" {
		t.Errorf("former names: -want +got\n%s", d)
	}
	r, _, err := w.Read(t.Context(), "test", "ada")
	if err != nil || r.TTL != 30*24*60*60 {
		t.Errorf("the released name: %+v, %v, want a TTL of 30 days", r, err)
	}
}

// A change that is not a rename reserves and releases nothing.
func TestChange_SameName(t *testing.T) {
	for name, edit := range map[string]func(*blog.User){
		"case":      func(u *blog.User) { u.Username = "ADA" },
		"biography": func(u *blog.User) { u.Bio = "Weaves." },
		"nothing":   func(*blog.User) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			writes := 0
			w.on(1, http.MethodPatch, username.Key("ada"), func() error { writes++; return nil })
			u, err := w.change(edit)
			if err != nil || u == nil || u.Revision != w.ada.Revision+1 {
				t.Fatal(u, err)
			}
			want := *w.ada
			edit(&want)
			if u.Username != want.Username || u.Bio != want.Bio || writes > 0 {
				t.Errorf("got %+v after %d writes of the reservation", u, writes)
			}
			w.want("ada", state{Owner: w.ada.UserID})
			if former := w.item(w.ada.UserID).FormerUsernames; len(former) > 0 {
				t.Errorf("former names: %q", former)
			}
		})
	}
}

// Five former names are kept, the newest; the oldest is freed.
func TestChange_FormerNames(t *testing.T) {
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
func TestChange_FormerNameOfAnother(t *testing.T) {
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
func TestChange_AmbiguousWrites(t *testing.T) {
	old := username.Key("ada")
	for name, tt := range map[string]struct {
		fail     func(w *world)
		code     blog.Code // "" : renamed
		again    bool      // nil, nil: to be tried again
		released bool      // the old name
	}{
		"user changed, response lost": {fail: func(w *world) { w.lose(http.MethodPatch, w.ada.UserID) },
			released: true},
		"user not changed": {fail: func(w *world) { w.on(1, http.MethodPatch, w.ada.UserID, down) },
			code: blog.Unavailable},
		"user changed by another request": {fail: func(w *world) {
			w.on(1, http.MethodPatch, w.ada.UserID, func() error {
				w.Corrupt("users", w.ada.UserID, w.ada.UserID, "/revision", w.ada.Revision+1)
				return errDown
			})
		}, code: blog.Unavailable},
		"user changed, and again by another request": {fail: func(w *world) {
			w.Wire.After(func(r *http.Response) {
				if r.Request.Method == http.MethodPatch && of(r.Request, w.ada.UserID) {
					w.Wire.After(nil)
					w.Corrupt("users", w.ada.UserID, w.ada.UserID, "/revision", w.ada.Revision+2)
					r.StatusCode, r.Body = http.StatusServiceUnavailable, http.NoBody
				}
			})
		}, code: blog.Unavailable},
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
func TestChange_Concurrent(t *testing.T) {
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
func TestChange_OldNameNotTheirs(t *testing.T) {
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
func TestChange_NameTaken(t *testing.T) {
	w := newWorld(t)
	w.AddUser("grace")
	_, err := w.rename("Grace")
	storetest.WantCode(t, err, blog.Conflict, "username")
	w.want("ada", state{Owner: w.ada.UserID})
	if u := w.item(w.ada.UserID); u.Revision != w.ada.Revision {
		t.Errorf("the user was changed: %+v", u)
	}
}

// The new name is lost to another user after the user was changed: the user gets back what they had, and the attempt
// leaves no trace.
func TestChange_Reverted(t *testing.T) {
	w := newWorld(t)
	w.mustRename("countess")
	before := w.item(w.ada.UserID)
	lose := func() {
		w.on(1, http.MethodPatch, w.ada.UserID, func() error {
			w.reserve("wanted", username.Reservation{OwnerID: bob})
			return nil
		})
	}
	lose()
	_, err := w.change(func(u *blog.User) { u.Username, u.Bio = "wanted", "Weaves." })
	storetest.WantCode(t, err, blog.Conflict, "username")
	after := w.item(w.ada.UserID)
	want := *before
	want.Revision += 2
	if d := cmp.Diff(&want, after); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	w.want("wanted", state{Owner: bob})

	t.Run("not restored", func(t *testing.T) {
		w.on(1, http.MethodPatch, w.ada.UserID, func() error {
			w.reserve("other", username.Reservation{OwnerID: bob})
			w.on(1, http.MethodPatch, w.ada.UserID, down)
			return nil
		})
		_, err := w.rename("other")
		storetest.WantCode(t, err, blog.Unavailable, "")
	})
	t.Run("the reservation cannot be read", func(t *testing.T) {
		w.on(1, http.MethodPatch, w.ada.UserID, func() error {
			w.fail(http.MethodPost, username.Key("third")) // a batch reads from the primary replica
			return nil
		})
		_, err := w.rename("third")
		storetest.WantCode(t, err, blog.Unavailable, "")
	})
}
