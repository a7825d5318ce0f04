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

	"byline/internal/longtest"
	"byline/internal/waittest"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// isRelease returns a function that recognizes the request that releases a user's old
// name: the first replace after the user has changed.
func isRelease() func(*http.Request) bool {
	var changed atomic.Bool
	return func(r *http.Request) bool {
		if r.Method == http.MethodPatch {
			changed.Store(true)
		}
		return changed.Load() && r.Method == http.MethodPut
	}
}

// A rename is held up just before it releases the old name, and meanwhile the user
// takes the old name back.
func TestRenameUser_BackToTheOldName(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	taken, releases := false, isRelease()
	w.Wire.Intercept(func(r *http.Request) error {
		if !releases(r) || taken {
			return nil
		}
		taken = true
		w.Wire.Intercept(nil)
		if _, err := w.RenameUser(t.Context(), ada.ID, "ada"); err != nil {
			t.Error(err)
		}
		return nil
	})
	if _, err := w.RenameUser(t.Context(), ada.ID, "countess"); err != nil {
		t.Fatal(err)
	}
	if u, err := w.UserByUsername(t.Context(), "ada"); !taken || err != nil || u == nil {
		t.Fatalf("no user is found by a current name: %v, %v", u, err)
	}
	if diff := cmp.Diff(map[string]string{"ada": ada.ID, "countess": ada.ID + storetest.Released}, w.Reservations()); diff != "" {
		t.Error(diff)
	}
	_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "thief"), Username: "ADA"})
	storetest.WantCode(t, err, blog.Conflict, "username")
}

// A name that became free and was reserved by another user in the middle of a rename is theirs.
func TestRenameUser_OldNameTakenMeanwhile(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), blog.UserID("test", "grace")
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method != http.MethodPut {
			return nil
		}
		w.Wire.Intercept(nil)
		if _, err := w.RenameUser(t.Context(), ada.ID, "other"); err != nil {
			t.Error(err)
		}
		w.Clock.Millis.Add((30 * 24 * time.Hour).Milliseconds())
		if _, err := w.CreateUser(t.Context(), store.NewUser{ID: grace, Username: "ada"}); err != nil {
			t.Error(err)
		}
		return nil
	})
	if _, err := w.RenameUser(t.Context(), ada.ID, "countess"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"countess": ada.ID, "ada": grace, "other": ada.ID + storetest.Released}, w.Reservations()); diff != "" {
		t.Error(diff)
	}
}

// A rename releases no name that is reserved for another user.
func TestRenameUser_ReservationOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	w.Corrupt("users", grace.ID, grace.ID, "/username", "ada")
	w.Corrupt("users", "username:ada", "username:ada", "/ownerId", grace.ID)
	if _, err := w.RenameUser(t.Context(), ada.ID, "countess"); err != nil {
		t.Fatal(err)
	}
	if got := w.Reservations()["ada"]; got != grace.ID {
		t.Errorf("the name is reserved for %q", got)
	}
}

// Who takes a name, or gives one up, does so within half the grace, and says when it began.
func TestRenameUser_WithinTheGracePeriod(t *testing.T) {
	w := newWorld(t)
	users, err := w.Client.NewContainer(w.Database, "users")
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	var began blog.Date
	w.Wire.Intercept(func(r *http.Request) error {
		if !strings.Contains(r.URL.Path, "/docs") {
			return nil // of the client's own concerns
		}
		requests++
		if end, ok := r.Context().Deadline(); !ok || time.Until(end) > 30*time.Second {
			t.Errorf("%s %s may take longer", r.Method, r.URL.Path)
		}
		if r.Method == http.MethodPatch { // the user is about to be changed
			var old struct {
				Leaving      bool
				CreationDate blog.Date
			}
			item, err := users.ReadItem(r.Context(), azcosmos.NewPartitionKeyString("username:ada"), "username:ada", nil)
			if err == nil {
				err = json.Unmarshal(item.Value, &old)
			}
			if err != nil || !old.Leaving || old.CreationDate < began {
				t.Errorf("the old name: %+v %v", old, err)
			}
		}
		return nil
	})
	ada := w.AddUser("ada")
	w.Clock.Millis.Add(time.Hour.Milliseconds())
	began = blog.NewDate(w.Clock.Now())
	if _, err := w.RenameUser(t.Context(), ada.ID, "countess"); err != nil || requests < 5 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

// Whatever request of a rename or a creation is the last before a crash, whether
// its answer still arrives or not: the user is found under the old or the new name, and
// under a name released; the sweep leaves nothing else over; and the user can do it again.
func TestRenameUser_CrashAtEveryStep(t *testing.T) {
	longtest.Heavy(t)
	for _, what := range []string{"create", "rename"} {
		for _, answered := range []bool{true, false} {
			for k := range 20 {
				finished := false
				t.Run(fmt.Sprintf("%s, %d requests, last answered %v", what, k, answered), func(t *testing.T) {
					cosmostest.Run(t, func(t *testing.T) { finished = crashInANameChange(t, what, k, answered) })
				})
				if finished {
					break
				}
				if k == 19 {
					t.Error("it does not end")
				}
			}
		}
	}
}

// crashInANameChange reports whether k requests were enough.
func crashInANameChange(t *testing.T, what string, k int, answered bool) bool {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Clock.Millis.Add(61_000)
	stop := w.Start()
	waittest.Until(t, w.Swept)
	stop()
	owner, change := ada.ID, func() error {
		_, err := w.RenameUser(t.Context(), ada.ID, "wanted")
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
			return nil // of the client's own concerns
		}
		if requests++; requests <= k {
			return nil
		}
		if requests == k+1 && !answered {
			if resp, err := w.Transport.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
		return context.DeadlineExceeded
	})
	err := change()
	w.Wire.Intercept(nil)
	w.SeeNewest("users", owner, "username:ada", "username:wanted") // what was not answered, too
	if requests <= k && err != nil {
		t.Fatal(err)
	}
	finished := requests <= k

	found := map[string]string{"ada": ada.ID} // who is to be found by name, and nobody else
	reserved := map[string]string{"ada": ada.ID}
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
			t.Fatalf("the user carries %q, not one of %q", have, want)
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
			if u == nil && found[name] != "" || u != nil && u.ID != found[name] {
				t.Fatalf("under %s: %v, want %q", name, u, found[name])
			}
		}
	}
	before := map[string]string{"create": "", "rename": "ada"}[what]
	switch {
	case finished:
		check("wanted")
	case k == 0 && answered:
		check(before)
	default:
		check(before, "wanted")
	}

	swept := func() {
		t.Helper()
		w.Clock.Millis.Add(61_000) // before the sweep runs, so that it does not wait
		stop := w.Start()
		waittest.Until(t, func() error {
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
		t.Fatal(err) // a user cannot be created again
	}
	check("wanted")
	swept()
	return finished
}

// Whatever step of a rename or a creation is the last before a crash: the user is
// found under the name carried, and the other name becomes free.
func TestRenameUser_CrashBetweenSteps(t *testing.T) {
	for step := range 3 { // writes that get through
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
				owner := ada.ID
				if what == "rename" {
					_, _ = w.RenameUser(t.Context(), owner, "wanted")
				} else {
					owner = blog.UserID("test", "new")
					_, _ = w.CreateUser(t.Context(), store.NewUser{ID: owner, Username: "wanted"})
				}
				w.Wire.Intercept(nil)
				carried := ""
				if u, err := w.User(t.Context(), owner); err != nil {
					t.Fatal(err)
				} else if u != nil {
					carried = u.Username
					if found, err := w.UserByUsername(t.Context(), carried); err != nil || found == nil || found.ID != owner {
						t.Fatalf("under %s: %v, %v", carried, found, err)
					}
				}
				w.Clock.Millis.Add(61_000) // the grace passes
				for i, name := range []string{"ada", "wanted"} {
					_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", fmt.Sprint("next", i)), Username: name})
					held := name == carried || what == "create" && name == "ada"
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
