package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// A name stays reserved for a user that cannot be read.
func TestReservation_MalformedOwner(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Corrupt("users", ada.ID, ada.ID, "/creationDate", "yesterday")
		w.Clock.Millis.Add(time.Hour.Milliseconds())
		w.Start()
		waittest.Until(t, func() error {
			status, err := w.Views().Status(t.Context())
			for _, r := range status {
				if r.Processor == "usernames" && r.Lag == 0 {
					return err
				}
			}
			return errors.Join(err, errors.New("the sweep has not run"))
		})
		if got := w.Reservations()["ada"]; got != ada.ID {
			t.Errorf("the name is reserved for %q", got)
		}
	})
}

// A create that meets its own repetition returns what that has made.
func TestCreateUser_ConcurrentRepetition(t *testing.T) {
	w := newWorld(t)
	in := store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada", Key: "k"}
	writes := 0
	w.Wire.Intercept(func(r *http.Request) error {
		if changes(r) {
			writes++
		}
		if writes == 2 { // the name is reserved
			w.Wire.Intercept(nil)
			if _, err := w.CreateUser(t.Context(), in); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if u, err := w.CreateUser(t.Context(), in); err != nil || u.Username != "ada" {
		t.Errorf("%+v, %v", u, err)
	}
}

// A name that was reserved a moment ago is its owner's, who may be about to carry it.
func TestReservation_GracePeriod(t *testing.T) {
	w := newWorld(t)
	w.Upsert("users", "username:wanted", fmt.Sprintf(`{"id":"username:wanted","userId":"username:wanted","type":"username","ownerId":"somebody","creationDate":%q}`, blog.NewDate(w.Clock.Now())))
	in := store.NewUser{ID: blog.UserID("test", "ada"), Username: "Wanted"}
	_, err := w.CreateUser(t.Context(), in)
	storetest.WantCode(t, err, blog.Conflict, "username")
	w.Clock.Millis.Add(time.Minute.Milliseconds())
	if _, err := w.CreateUser(t.Context(), in); err != nil {
		t.Error(err)
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

// In the grace period abandoned reservations stay, and so does what
// verify finds.
func TestSweep_YoungReservationsStay(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.Wire.Intercept(func(r *http.Request) error { // a crash between reservation and user
			if strings.Contains(r.Header.Get("x-ms-documentdb-partitionkey"), blog.UserID("test", "new")) && r.Method == http.MethodPost {
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "new"), Username: "wanted"})
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		if found := w.Differences(0); found != nil {
			t.Errorf("verify finds %v", found)
		}
		defer w.Start()()
		w.AddUser("poke")
		waittest.Until(t, w.CaughtUp)
		storetest.Pass(50 * time.Millisecond)
		if w.Reservations()["wanted"] == "" {
			t.Fatal("the sweep has not waited")
		}
		w.Clock.Millis.Add(61_000)
		waittest.Until(t, func() error {
			if w.Reservations()["wanted"] != "" {
				return errors.New("still reserved")
			}
			return nil
		})
	})
}

// The sweep is held up just before it removes a left-over name, and meanwhile its
// owner goes on with it.
func TestSweep_NameInUse(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch { // a crash before the user is changed
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.RenameUser(t.Context(), ada.ID, "wanted")
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		w.Clock.Millis.Add(61_000)
		var taken atomic.Bool
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "wanted") && taken.CompareAndSwap(false, true) {
				if _, err := w.RenameUser(t.Context(), ada.ID, "wanted"); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		defer w.Start()()
		waittest.Until(t, func() error {
			if !taken.Load() {
				return errors.New("not swept")
			}
			return nil
		})
		w.Clock.Millis.Add(61_000)
		waittest.Until(t, func() error {
			if diff := cmp.Diff(map[string]string{"ada": ada.ID + storetest.Released, "wanted": ada.ID}, w.Reservations()); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		if u, err := w.UserByUsername(t.Context(), "wanted"); err != nil || u == nil {
			t.Fatalf("no user is found by a current name: %v, %v", u, err)
		}
		_, err = w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "thief"), Username: "WANTED"})
		storetest.WantCode(t, err, blog.Conflict, "username")
	})
}

// The sweep runs in the middle of a rename, just before the user is changed: what
// it sees then is not how it stays.
func TestSweep_DuringARename(t *testing.T) {
	for what, want := range map[string]map[string]string{
		"create": {"ada": "ada", "wanted": "new"},
		"rename": {"ada": "ada" + storetest.Released, "wanted": "ada"}, // its last step is cut off
	} {
		t.Run(what, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorldInTime(t)
				ada := w.AddUser("ada")
				w.Clock.Millis.Add(61_000)
				defer w.Start()()
				waittest.Until(t, func() error {
					if w.Checkpoints() != 2 {
						return errors.New("not swept yet")
					}
					return nil
				})
				newID, releases := blog.UserID("test", "new"), isRelease()
				w.Wire.Intercept(func(r *http.Request) error {
					last := what == "rename" && releases(r)
					switch {
					case r.Method == http.MethodPatch,
						r.Method == http.MethodPost && strings.Contains(r.Header.Get("x-ms-documentdb-partitionkey"), newID):
						storetest.Pass(100 * time.Millisecond) // ten polls of the sweep
					case last:
						return context.DeadlineExceeded
					}
					return nil
				})
				var err error
				if what == "create" {
					_, err = w.CreateUser(t.Context(), store.NewUser{ID: newID, Username: "wanted"})
				} else {
					_, err = w.RenameUser(t.Context(), ada.ID, "wanted")
				}
				if err != nil {
					t.Fatal(err)
				}
				w.Wire.Intercept(nil)
				w.Clock.Millis.Add(61_000)
				ids := map[string]string{"ada": ada.ID, "new": newID}
				expected := map[string]string{}
				for name, owner := range want {
					owner, suffix, _ := strings.Cut(owner, ",")
					expected[name] = ids[owner]
					if suffix != "" {
						expected[name] += storetest.Released
					}
				}
				poke := w.AddUser("poke") // once the sweep has let this go, it has done the rest
				w.Remove("users", poke.ID, poke.ID)
				w.Clock.Millis.Add(61_000)
				waittest.Until(t, func() error {
					if diff := cmp.Diff(expected, w.Reservations()); diff != "" {
						return errors.New(diff)
					}
					return nil
				})
			})
		})
	}
}

// A process pauses in the middle of a rename, for so long that the sweep removes
// the new name, and then goes on; or the sweep removes it at the end.
func TestSweep_SweptNameIsReservedAgain(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch {
				w.Wire.Intercept(nil)
				w.Remove("users", "username:wanted", "username:wanted")
			}
			return nil
		})
		if _, err := w.RenameUser(t.Context(), ada.ID, "wanted"); err != nil {
			t.Fatal(err)
		}
		if owner := w.Reservations()["wanted"]; owner != ada.ID {
			t.Fatalf("reserved for %q", owner)
		}
		w.Remove("users", "username:wanted", "username:wanted")
		defer w.Start()()
		waittest.Until(t, func() error {
			if diff := cmp.Diff(map[string]string{"ada": ada.ID + storetest.Released, "wanted": ada.ID}, w.Reservations()); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	})
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

// newWorldInTime is newWorld with an engine whose clock is the store's, so that items
// expire.
func newWorldInTime(t *testing.T) *world {
	t.Helper()
	c := &storetest.Clock{}
	c.Stopped.Store(true)
	return openWorldWith(t, "", c, c.Now)
}

func TestReleasedUsername(t *testing.T) {
	const kept = 30 * 24 * time.Hour
	setup := func(t *testing.T) (w *world, ada, grace *blog.User) {
		w = newWorldInTime(t)
		ada, grace = w.AddUser("ada"), w.AddUser("grace")
		if _, err := w.RenameUser(t.Context(), ada.ID, "countess"); err != nil {
			t.Fatal(err)
		}
		return w, ada, grace
	}
	find := func(w *world, name, id, username string) {
		w.T.Helper()
		switch u, err := w.UserByUsername(w.T.Context(), name); {
		case err != nil:
			w.T.Fatal(err)
		case u == nil && id != "", u != nil && (u.ID != id || u.Username != username):
			w.T.Errorf("under %s: %+v, want %q %q", name, u, id, username)
		}
	}
	for _, after := range []time.Duration{0, kept - time.Second} {
		t.Run(fmt.Sprint("is kept for its user, after ", after), func(t *testing.T) {
			w, ada, grace := setup(t)
			w.Clock.Millis.Add(after.Milliseconds())
			_, err := w.RenameUser(t.Context(), grace.ID, "ADA")
			storetest.WantCode(t, err, blog.Conflict, "username")
			_, err = w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "thief"), Username: "ada"})
			storetest.WantCode(t, err, blog.Conflict, "username")
			find(w, "Ada", ada.ID, "countess")
			find(w, "countess", ada.ID, "countess")

			if _, err := w.RenameUser(t.Context(), ada.ID, "Ada"); err != nil {
				t.Fatal(err)
			}
			find(w, "ada", ada.ID, "Ada")
			find(w, "countess", ada.ID, "Ada")
			want := map[string]string{"ada": ada.ID, "countess": ada.ID + storetest.Released, "grace": grace.ID}
			if diff := cmp.Diff(want, w.Reservations()); diff != "" {
				t.Error(diff)
			}
			w.Clock.Millis.Add(2 * kept.Milliseconds())
			find(w, "ada", ada.ID, "Ada")
			find(w, "countess", "", "")
		})
	}
	t.Run("is free after 30 days", func(t *testing.T) {
		w, ada, grace := setup(t)
		w.Clock.Millis.Add(kept.Milliseconds())
		if diff := cmp.Diff(map[string]string{"countess": ada.ID, "grace": grace.ID}, w.Reservations()); diff != "" {
			t.Error(diff)
		}
		find(w, "ada", "", "")
		if _, err := w.RenameUser(t.Context(), grace.ID, "ada"); err != nil {
			t.Fatal(err)
		}
		find(w, "ada", grace.ID, "ada")
	})
	t.Run("is free after 30 days where nothing expires", func(t *testing.T) {
		w := newWorld(t) // its engine's clock is fixed
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		if _, err := w.RenameUser(t.Context(), ada.ID, "countess"); err != nil {
			t.Fatal(err)
		}
		w.Clock.Millis.Add(kept.Milliseconds())
		find(w, "ada", "", "")
		if _, err := w.RenameUser(t.Context(), grace.ID, "ada"); err != nil {
			t.Fatal(err)
		}
		find(w, "ada", grace.ID, "ada")
	})
	t.Run("stays kept when a rename back is interrupted", func(t *testing.T) {
		w, ada, grace := setup(t)
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch {
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.RenameUser(t.Context(), ada.ID, "ada")
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		find(w, "ada", ada.ID, "countess")
		w.Clock.Millis.Add(61_000)
		w.Start()
		waittest.Until(t, func() error {
			want := map[string]string{"ada": ada.ID + storetest.Released, "countess": ada.ID, "grace": grace.ID}
			return errorOf(cmp.Diff(want, w.Reservations()))
		})
		_, err = w.RenameUser(t.Context(), grace.ID, "ada")
		storetest.WantCode(t, err, blog.Conflict, "username")
	})
	t.Run("the sixth frees the first", func(t *testing.T) {
		w, ada, grace := setup(t)
		for i := range 5 {
			if _, err := w.RenameUser(t.Context(), ada.ID, fmt.Sprint("name-", i)); err != nil {
				t.Fatal(err)
			}
			w.Clock.Millis.Add((24 * time.Hour).Milliseconds())
		}
		want := map[string]string{"countess": ada.ID + storetest.Released, "name-0": ada.ID + storetest.Released, "name-1": ada.ID + storetest.Released, "name-2": ada.ID + storetest.Released,
			"name-3": ada.ID + storetest.Released, "name-4": ada.ID, "grace": grace.ID}
		if diff := cmp.Diff(want, w.Reservations()); diff != "" {
			t.Error(diff)
		}
		if _, err := w.RenameUser(t.Context(), grace.ID, "ada"); err != nil {
			t.Error(err)
		}
		_, err := w.RenameUser(t.Context(), grace.ID, "countess")
		storetest.WantCode(t, err, blog.Conflict, "username")

		// A name that is taken back is not kept any more, and frees no other.
		if _, err := w.RenameUser(t.Context(), ada.ID, "Countess"); err != nil {
			t.Fatal(err)
		}
		delete(want, "countess")
		maps.Copy(want, map[string]string{"countess": ada.ID, "name-4": ada.ID + storetest.Released, "ada": grace.ID, "grace": grace.ID + storetest.Released})
		if diff := cmp.Diff(want, w.Reservations()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("is no difference", func(t *testing.T) {
		w, _, _ := setup(t)
		w.Clock.Millis.Add(time.Hour.Milliseconds())
		if found := w.Differences(0); found != nil {
			t.Errorf("verify finds %v", found)
		}
	})
}

func errorOf(diff string) error {
	if diff == "" {
		return nil
	}
	return errors.New(diff)
}

// A name that is carried must not expire, and one that a crash left must.
func TestReleasedUsername_VerifyAndRepair(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	item := func(name, owner, more string) {
		id := "username:" + name
		w.Upsert("users", id, fmt.Sprintf(`{"id":%q,"userId":%q,"type":"username","ownerId":%q,"creationDate":%q%s}`, id, id, owner, blog.NewDate(storetest.Epoch()), more))
	}
	item("ada", ada.ID, `,"leaving":true,"ttl":1000`)
	item("crashed", grace.ID, `,"leaving":true`)
	item("former", grace.ID, `,"leaving":true,"ttl":1000`)
	w.Clock.Millis.Add(time.Hour.Milliseconds())
	var got []string
	found := w.Differences(0)
	for _, d := range found {
		got = append(got, fmt.Sprintf("%s: %s instead of %s", d.Partition, d.Have, d.Want))
	}
	if diff := cmp.Diff([]string{
		fmt.Sprintf("username:ada: %s, released instead of %[1]s", ada.ID),
		fmt.Sprintf("username:crashed: %s instead of %[1]s, released", grace.ID),
	}, got); diff != "" {
		t.Error(diff)
	}
	for _, d := range found {
		if err := w.Views().Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	want := map[string]string{"ada": ada.ID, "grace": grace.ID, "crashed": grace.ID + storetest.Released, "former": grace.ID + storetest.Released}
	if diff := cmp.Diff(want, w.Reservations()); diff != "" {
		t.Error(diff)
	}
	if found := w.Differences(0); found != nil {
		t.Errorf("verify still finds %v", found)
	}
}

// The sweep has seen a reservation unused, and is held up; meanwhile the owner gets the name, and
// the sweep deletes the reservation. It looks again, and makes another.
func TestSweep_NameTakenBeforeTheDelete(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch { // a crash before the user is changed
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.RenameUser(t.Context(), ada.ID, "wanted")
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Clock.Millis.Add(61_000)
		var held, swept atomic.Bool
		w.Wire.After(func(r *http.Response) {
			if r.Request.Method == http.MethodDelete && strings.Contains(r.Request.URL.Path, "wanted") {
				swept.Store(true)
			}
		})
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "wanted") && held.CompareAndSwap(false, true) {
				w.Corrupt("users", ada.ID, ada.ID, "/username", "wanted") // the change that was on its way
				storetest.Pass(time.Second)                               // projected, while the name is reserved
			}
			return nil
		})
		defer w.Start()()
		waittest.Until(t, func() error {
			if !swept.Load() || w.CaughtUp() != nil {
				return errors.New("not swept")
			}
			if got := w.Reservations()["wanted"]; got != ada.ID {
				return fmt.Errorf("the name is reserved for %q", got)
			}
			return nil
		})
	})
}
