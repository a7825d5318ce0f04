package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// changesName reports whether a request changes a reservation, changesUser whether it changes a user.
func changesName(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/docs/username:")
}

func changesUser(r *http.Request) bool { return r.Method == http.MethodPatch && !changesName(r) }

// isRelease returns a function that detects the request that releases a user's old name: the first change of a
// reservation after that of the user.
func isRelease() func(*http.Request) bool {
	var changed atomic.Bool
	return func(r *http.Request) bool {
		if changesUser(r) {
			changed.Store(true)
		}
		return changed.Load() && changesName(r)
	}
}

// The user takes the old name back while a rename is about to release it.
func TestRenameUser_BackToOldName(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	taken, releases := false, isRelease()
	w.Wire.Intercept(func(r *http.Request) error {
		if !releases(r) || taken {
			return nil
		}
		taken = true
		w.Wire.Intercept(nil)
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("ada")}); err != nil {
			t.Error(err)
		}
		return nil
	})
	if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
		t.Fatal(err)
	}
	if u, err := w.UserByUsername(t.Context(), "ada"); !taken || err != nil || u == nil {
		t.Fatalf("the user is not found by the current name: %v, %v", u, err)
	}
	if diff := cmp.Diff(map[string]string{"ada": ada.UserID, "countess": ada.UserID + storetest.Released},
		w.Reservations()); diff != "" {
		t.Error(diff)
	}
	_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "thief"), Username: "ADA"})
	storetest.WantCode(t, err, blog.Conflict, "username")
}

// The deletion of the user ends during a rename.
func TestRenameUser_DeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Wire.Intercept(func(r *http.Request) error {
		if changesUser(r) {
			w.Wire.Intercept(nil)
			w.Remove("users", ada.UserID, ada.UserID)
		}
		return nil
	})
	_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")})
	storetest.WantCode(t, err, blog.NotFound, "")
}

// A name that expired and was reserved by another user during a rename stays theirs.
func TestRenameUser_OldNameTakenMeanwhile(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), blog.UserID("test", "grace")
	w.Wire.Intercept(func(r *http.Request) error {
		if !changesName(r) {
			return nil
		}
		w.Wire.Intercept(nil)
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("other")}); err != nil {
			t.Error(err)
		}
		w.Clock.Millis.Add((30 * 24 * time.Hour).Milliseconds())
		if _, err := w.CreateUser(t.Context(), store.NewUser{ID: grace, Username: "ada"}); err != nil {
			t.Error(err)
		}
		return nil
	})
	if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"countess": ada.UserID, "ada": grace,
		"other": ada.UserID + storetest.Released}, w.Reservations()); diff != "" {
		t.Error(diff)
	}
}

// A rename does not release a name that is reserved for another user.
func TestRenameUser_ReservationOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	w.Corrupt("users", grace.UserID, grace.UserID, "/username", "ada")
	w.Corrupt("users", "username:ada", "username:ada", "/ownerId", grace.UserID)
	if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
		t.Fatal(err)
	}
	if got := w.Reservations()["ada"]; got != grace.UserID {
		t.Errorf("the name is reserved for %q, want grace", got)
	}
}

// Creating and renaming a user take at most half the grace period, and a rename first marks and dates the old
// reservation.
func TestRenameUser_Deadline(t *testing.T) {
	w := newWorld(t)
	users, err := w.Client.NewContainer(w.Database, "users")
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	var began blog.Date
	w.Wire.Intercept(func(r *http.Request) error {
		if !strings.Contains(r.URL.Path, "/docs") {
			return nil // metadata
		}
		requests++
		if end, ok := r.Context().Deadline(); !ok || time.Until(end) > 30*time.Second {
			t.Errorf("%s %s has no deadline within 30 s", r.Method, r.URL.Path)
		}
		if changesUser(r) { // the reservation is marked
			var old struct {
				Leaving      bool
				CreationDate blog.Date
			}
			item, err := users.ReadItem(r.Context(), azcosmos.NewPartitionKeyString("username:ada"), "username:ada",
				nil)
			if err == nil {
				err = json.Unmarshal(item.Value, &old)
			}
			if err != nil || !old.Leaving || old.CreationDate < began {
				t.Errorf("got the old reservation %+v, %v, want it marked and dated", old, err)
			}
		}
		return nil
	})
	ada := w.AddUser("ada")
	w.Clock.Millis.Add(time.Hour.Milliseconds())
	began = blog.NewDate(w.Clock.Now())
	if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil ||
		requests < 5 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

// After a crash at any request of a rename or create, with or without its response, the user is found under
// the old or the new name, and under a released name. The sweep removes other reservations, and the operation
// can be repeated.
func TestRenameUser_CrashAtEveryStep(t *testing.T) {
	testkit.Heavy(t)
	for _, what := range []string{"create", "rename"} {
		for _, responded := range []bool{true, false} {
			for k := range 20 {
				finished := false
				t.Run(fmt.Sprintf("%s, %d requests, response of the last %v", what, k, responded), func(t *testing.T) {
					cosmostest.Run(t, func(t *testing.T) { finished = crashDuringNameChange(t, what, k, responded) })
				})
				if finished {
					break
				}
				if k == 19 {
					t.Error("the operation takes more than 19 requests")
				}
			}
		}
	}
}

// crashDuringNameChange crashes an operation after k requests, and after another without a response unless
// responded. It reports whether k requests were enough.
func crashDuringNameChange(t *testing.T, what string, k int, responded bool) bool {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Clock.Millis.Add(61_000)
	stop := w.Start()
	testkit.Until(t, w.Swept)
	stop()
	owner, change := ada.UserID, func() error {
		_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("wanted")})
		return err
	}
	if what == "create" {
		owner = blog.UserID("test", "new")
		change = func() error {
			_, err := w.CreateUser(t.Context(), store.NewUser{ID: owner, Username: "wanted"})
			return err
		}
	}
	requests := 0
	w.Wire.Intercept(func(r *http.Request) error {
		if !strings.HasSuffix(r.URL.Path, "/docs") && !strings.Contains(r.URL.Path, "/docs/") {
			return nil // metadata
		}
		if requests++; requests <= k {
			return nil
		}
		if requests == k+1 && !responded {
			if resp, err := w.Transport.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
		return context.DeadlineExceeded
	})
	err := change()
	w.Wire.Intercept(nil)
	w.SeeNewest("users", owner, "username:ada", "username:wanted") // including the write without a response
	if requests <= k && err != nil {
		t.Fatal(err)
	}
	finished := requests <= k

	found := map[string]string{"ada": ada.UserID} // ids of the users to be found, by name
	reserved := map[string]string{"ada": ada.UserID}
	check := func(want ...string) {
		t.Helper()
		u, err := w.User(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		have := ""
		if u != nil {
			have = u.Username
		}
		if !slices.Contains(want, have) {
			t.Fatalf("the user has the name %q, want one of %q", have, want)
		}
		if have != "" {
			found[have], reserved[have] = owner, owner
		}
		if what == "rename" && have == "wanted" {
			reserved["ada"] = owner + storetest.Released
		}
		for _, name := range []string{"ada", "wanted"} {
			u, err := w.UserByUsername(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if u == nil && found[name] != "" || u != nil && u.UserID != found[name] {
				t.Fatalf("user %s: got %v, want id %q", name, u, found[name])
			}
		}
	}
	before := map[string]string{"create": "", "rename": "ada"}[what]
	switch {
	case finished:
		check("wanted")
	case k == 0 && responded:
		check(before)
	default:
		check(before, "wanted")
	}

	swept := func() {
		t.Helper()
		w.Clock.Millis.Add(61_000) // before the sweep runs, so that it does not wait
		stop := w.Start()
		testkit.Until(t, func() error {
			if diff := cmp.Diff(reserved, w.Reservations()); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		stop()
	}
	swept()
	check(before, "wanted")
	err = change()
	if u, _ := w.User(t.Context(), owner); err != nil && (what != "create" || u == nil) {
		t.Fatal(err) // if it was created, the error is a Conflict
	}
	check("wanted")
	swept()
	return finished
}

// After a crash between the writes of a rename or create, the user is found under its current name, and the
// other name becomes free.
func TestRenameUser_CrashBetweenSteps(t *testing.T) {
	for step := range 3 { // writes before the crash
		for _, what := range []string{"rename", "create"} {
			t.Run(fmt.Sprintf("%s, %d writes", what, step), func(t *testing.T) {
				w := newWorld(t)
				ada := w.AddUser("ada")
				writes := 0
				w.Wire.Intercept(func(r *http.Request) error {
					if r.Method == http.MethodGet {
						return nil
					}
					if writes++; writes > step {
						return context.DeadlineExceeded
					}
					return nil
				})
				owner := ada.UserID
				if what == "rename" {
					_, _ = w.UpdateUser(t.Context(), owner, store.UserEdit{Username: new("wanted")})
				} else {
					owner = blog.UserID("test", "new")
					_, _ = w.CreateUser(t.Context(), store.NewUser{ID: owner, Username: "wanted"})
				}
				w.Wire.Intercept(nil)
				current := ""
				if u, err := w.User(t.Context(), owner); err != nil {
					t.Fatal(err)
				} else if u != nil {
					current = u.Username
					if found, err := w.UserByUsername(t.Context(), current); err != nil || found == nil ||
						found.UserID != owner {
						t.Fatalf("user %s: got %v, %v, want id %s", current, found, err, owner)
					}
				}
				w.Clock.Millis.Add(61_000) // after the grace period
				for i, name := range []string{"ada", "wanted"} {
					_, err := w.CreateUser(t.Context(),
						store.NewUser{ID: blog.UserID("test", fmt.Sprint("next", i)), Username: name})
					held := name == current || what == "create" && name == "ada"
					if held {
						storetest.WantCode(t, err, blog.Conflict, "username")
					} else if err != nil {
						t.Errorf("%s is not free: %v", name, err)
					}
				}
			})
		}
	}
}
