package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// The sweep keeps abandoned reservations in the grace period, and Verify does not report them.
func TestSweep_KeepsYoungReservations(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.Wire.Intercept(func(r *http.Request) error { // a crash between reservation and user
			if strings.Contains(r.Header.Get("x-ms-documentdb-partitionkey"), blog.UserID("test", "new")) &&
				r.Method == http.MethodPost {
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "new"), Username: "wanted"})
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		if found := w.Differences(0); found != nil {
			t.Errorf("got differences %v, want none", found)
		}
		defer w.Start()()
		w.AddUser("poke")
		testkit.Until(t, w.CaughtUp)
		storetest.Pass(50 * time.Millisecond)
		if w.Reservations()["wanted"] == "" {
			t.Fatal("the sweep has not waited")
		}
		w.Clock.Millis.Add(61_000)
		testkit.Until(t, func() error {
			if w.Reservations()["wanted"] != "" {
				return errors.New("still reserved")
			}
			return nil
		})
	})
}

// The owner resumes a rename while the sweep is about to remove the abandoned reservation.
func TestSweep_NameInUse(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Wire.Intercept(func(r *http.Request) error {
			if changesUser(r) { // a crash before the user is changed
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("wanted")})
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		w.Clock.Millis.Add(61_000)
		var taken atomic.Bool
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "wanted") &&
				taken.CompareAndSwap(false, true) {
				if _, err := w.UpdateUser(t.Context(), ada.UserID,
					store.UserEdit{Username: new("wanted")}); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		defer w.Start()()
		testkit.Until(t, func() error {
			if !taken.Load() {
				return errors.New("not swept")
			}
			return nil
		})
		w.Clock.Millis.Add(61_000)
		testkit.Until(t, func() error {
			if diff := cmp.Diff(map[string]string{"ada": ada.UserID + storetest.Released, "wanted": ada.UserID},
				w.Reservations()); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		if u, err := w.UserByUsername(t.Context(), "wanted"); err != nil || u == nil {
			t.Fatalf("the user is not found by the current name: %v, %v", u, err)
		}
		_, err = w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "thief"), Username: "WANTED"})
		storetest.WantCode(t, err, blog.Conflict, "username")
	})
}

// The sweep runs during a rename or create, just before the write of the user, and handles the reservation
// correctly afterwards.
func TestSweep_DuringRename(t *testing.T) {
	for what, want := range map[string]map[string]string{
		"create": {"ada": "ada", "wanted": "new"},
		"rename": {"ada": "ada" + storetest.Released, "wanted": "ada"}, // the last step fails
	} {
		t.Run(what, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorldWithOneClock(t)
				ada := w.AddUser("ada")
				w.Clock.Millis.Add(61_000)
				defer w.Start()()
				testkit.Until(t, w.Swept)
				newID, releases := blog.UserID("test", "new"), isRelease()
				w.Wire.Intercept(func(r *http.Request) error {
					last := what == "rename" && releases(r)
					switch {
					case changesUser(r),
						r.Method == http.MethodPost &&
							strings.Contains(r.Header.Get("x-ms-documentdb-partitionkey"), newID):
						storetest.Pass(time.Second) // ten polls of the sweep
					case last:
						return context.DeadlineExceeded
					}
					return nil
				})
				var err error
				if what == "create" {
					_, err = w.CreateUser(t.Context(), store.NewUser{ID: newID, Username: "wanted"})
				} else {
					_, err = w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("wanted")})
				}
				if err != nil {
					t.Fatal(err)
				}
				w.Wire.Intercept(nil)
				w.Clock.Millis.Add(61_000)
				ids := map[string]string{"ada": ada.UserID, "new": newID}
				expected := map[string]string{}
				for name, owner := range want {
					owner, suffix, _ := strings.Cut(owner, ",")
					expected[name] = ids[owner]
					if suffix != "" {
						expected[name] += storetest.Released
					}
				}
				poke := w.AddUser("poke") // once the sweep has removed this name, it has handled the others
				w.Remove("users", poke.UserID, poke.UserID)
				w.Clock.Millis.Add(61_000)
				testkit.Until(t, func() error {
					if diff := cmp.Diff(expected, w.Reservations()); diff != "" {
						return errors.New(diff)
					}
					return nil
				})
			})
		})
	}
}

// A rename reserves the new name again if the sweep removed it during a pause. The sweep restores the
// reservation if it was removed after the rename.
func TestRenameUser_SweptNameIsReservedAgain(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Wire.Intercept(func(r *http.Request) error {
			if changesUser(r) {
				w.Wire.Intercept(nil)
				w.Remove("users", "username:wanted", "username:wanted")
			}
			return nil
		})
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("wanted")}); err != nil {
			t.Fatal(err)
		}
		if owner := w.Reservations()["wanted"]; owner != ada.UserID {
			t.Fatalf("the name is reserved for %q, want %q", owner, ada.UserID)
		}
		w.Remove("users", "username:wanted", "username:wanted")
		defer w.Start()()
		testkit.Until(t, func() error {
			if diff := cmp.Diff(map[string]string{"ada": ada.UserID + storetest.Released, "wanted": ada.UserID},
				w.Reservations()); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	})
}

// The owner gets the name between the sweep's check of the reservation and its delete: the sweep checks again,
// and restores the reservation.
func TestSweep_NameTakenBeforeTheDelete(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Wire.Intercept(func(r *http.Request) error {
			if changesUser(r) { // a crash before the user is changed
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("wanted")})
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Clock.Millis.Add(61_000)
		var held, swept atomic.Bool
		w.Wire.After(func(r *http.Response) {
			if r.Request.Method == http.MethodDelete && strings.Contains(r.Request.URL.Path, "wanted") {
				swept.Store(true)
			}
		})
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "wanted") &&
				held.CompareAndSwap(false, true) {
				w.Corrupt("users", ada.UserID, ada.UserID, "/username", "wanted") // the delayed write of the rename
				// the projections handle it while the name is reserved
				storetest.Pass(time.Second)
			}
			return nil
		})
		defer w.Start()()
		testkit.Until(t, func() error {
			if !swept.Load() || w.CaughtUp() != nil {
				return errors.New("not swept")
			}
			if got := w.Reservations()["wanted"]; got != ada.UserID {
				return fmt.Errorf("the name is reserved for %q", got)
			}
			return nil
		})
	})
}
