package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// A name stays reserved for a user whose item is malformed.
func TestReservation_MalformedOwner(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		w.Corrupt("users", ada.UserID, ada.UserID, "/creationDate", "yesterday")
		w.Clock.Millis.Add(time.Hour.Milliseconds())
		w.Start()
		testkit.Until(t, func() error {
			status, err := w.Views().Status(t.Context())
			for _, r := range status {
				if r.Processor == "usernames" && r.Lag == 0 {
					return err
				}
			}
			return errors.Join(err, errors.New("the sweep has not run"))
		})
		if got := w.Reservations()["ada"]; got != ada.UserID {
			t.Errorf("the name is reserved for %q, want %q", got, ada.UserID)
		}
	})
}

// A create that conflicts with its own repetition returns the user of the repetition.
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

// A recent reservation holds its name, as the owner may be about to take it.
func TestReservation_GracePeriod(t *testing.T) {
	w := newWorld(t)
	w.Upsert("users", "username:wanted",
		fmt.Sprintf(
			`{"id":"username:wanted","userId":"username:wanted","type":"username","ownerId":"other","creationDate":%q}`, blog.NewDate(w.Clock.Now())))
	in := store.NewUser{ID: blog.UserID("test", "ada"), Username: "Wanted"}
	_, err := w.CreateUser(t.Context(), in)
	storetest.WantCode(t, err, blog.Conflict, "username")
	w.Clock.Millis.Add(time.Minute.Milliseconds())
	if _, err := w.CreateUser(t.Context(), in); err != nil {
		t.Error(err)
	}
}

// newWorldWithOneClock is newWorld with the store's clock for the engine, so that items expire.
func newWorldWithOneClock(t *testing.T) *world {
	t.Helper()
	c := &storetest.Clock{}
	c.Stopped.Store(true)
	return &world{storetest.OpenWith(t, "", c, c.Now)}
}

func TestReleasedUsername(t *testing.T) {
	const kept = 30 * 24 * time.Hour
	setup := func(t *testing.T) (w *world, ada, grace *blog.User) {
		w = newWorldWithOneClock(t)
		ada, grace = w.AddUser("ada"), w.AddUser("grace")
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		return w, ada, grace
	}
	find := func(w *world, name, id, username string) {
		w.T.Helper()
		switch u, err := w.UserByUsername(w.T.Context(), name); {
		case err != nil:
			w.T.Fatal(err)
		case u == nil && id != "", u != nil && (u.UserID != id || u.Username != username):
			w.T.Errorf("user %s: got %+v, want %q %q", name, u, id, username)
		}
	}
	for _, after := range []time.Duration{0, kept - time.Second} {
		t.Run(fmt.Sprint("kept for its user after ", after), func(t *testing.T) {
			w, ada, grace := setup(t)
			w.Clock.Millis.Add(after.Milliseconds())
			_, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("ADA")})
			storetest.WantCode(t, err, blog.Conflict, "username")
			_, err = w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "thief"), Username: "ada"})
			storetest.WantCode(t, err, blog.Conflict, "username")
			find(w, "Ada", ada.UserID, "countess")
			find(w, "countess", ada.UserID, "countess")

			if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Ada")}); err != nil {
				t.Fatal(err)
			}
			find(w, "ada", ada.UserID, "Ada")
			find(w, "countess", ada.UserID, "Ada")
			want := map[string]string{"ada": ada.UserID, "countess": ada.UserID + storetest.Released,
				"grace": grace.UserID}
			if diff := cmp.Diff(want, w.Reservations()); diff != "" {
				t.Error(diff)
			}
			w.Clock.Millis.Add(2 * kept.Milliseconds())
			find(w, "ada", ada.UserID, "Ada")
			find(w, "countess", "", "")
		})
	}
	t.Run("free after 30 days", func(t *testing.T) {
		w, ada, grace := setup(t)
		w.Clock.Millis.Add(kept.Milliseconds())
		if diff := cmp.Diff(map[string]string{"countess": ada.UserID, "grace": grace.UserID},
			w.Reservations()); diff != "" {
			t.Error(diff)
		}
		find(w, "ada", "", "")
		if _, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("ada")}); err != nil {
			t.Fatal(err)
		}
		find(w, "ada", grace.UserID, "ada")
	})
	t.Run("free after 30 days without TTL", func(t *testing.T) {
		w := newWorld(t) // its engine's clock is fixed
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		w.Clock.Millis.Add(kept.Milliseconds())
		find(w, "ada", "", "")
		if _, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("ada")}); err != nil {
			t.Fatal(err)
		}
		find(w, "ada", grace.UserID, "ada")
	})
	t.Run("interrupted rename back -> still kept", func(t *testing.T) {
		w, ada, grace := setup(t)
		w.Wire.Intercept(func(r *http.Request) error {
			if changesUser(r) {
				return context.DeadlineExceeded
			}
			return nil
		})
		_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("ada")})
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		find(w, "ada", ada.UserID, "countess")
		w.Clock.Millis.Add(61_000)
		w.Start()
		testkit.Until(t, func() error {
			want := map[string]string{"ada": ada.UserID + storetest.Released, "countess": ada.UserID,
				"grace": grace.UserID}
			return errorOf(cmp.Diff(want, w.Reservations()))
		})
		_, err = w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("ada")})
		storetest.WantCode(t, err, blog.Conflict, "username")
	})
	t.Run("sixth released name -> first is free", func(t *testing.T) {
		w, ada, grace := setup(t)
		for i := range 5 {
			if _, err := w.UpdateUser(t.Context(), ada.UserID,
				store.UserEdit{Username: new(fmt.Sprint("name-", i))}); err != nil {
				t.Fatal(err)
			}
			w.Clock.Millis.Add((24 * time.Hour).Milliseconds())
		}
		want := map[string]string{"countess": ada.UserID + storetest.Released,
			"name-0": ada.UserID + storetest.Released, "name-1": ada.UserID + storetest.Released,
			"name-2": ada.UserID + storetest.Released,
			"name-3": ada.UserID + storetest.Released, "name-4": ada.UserID, "grace": grace.UserID}
		if diff := cmp.Diff(want, w.Reservations()); diff != "" {
			t.Error(diff)
		}
		if _, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("ada")}); err != nil {
			t.Error(err)
		}
		_, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("countess")})
		storetest.WantCode(t, err, blog.Conflict, "username")

		// A name that is taken back is no longer among the released ones, and frees no other.
		if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")}); err != nil {
			t.Fatal(err)
		}
		delete(want, "countess")
		maps.Copy(want,
			map[string]string{"countess": ada.UserID, "name-4": ada.UserID + storetest.Released, "ada": grace.UserID,
				"grace": grace.UserID + storetest.Released})
		if diff := cmp.Diff(want, w.Reservations()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("verify -> no difference", func(t *testing.T) {
		w, _, _ := setup(t)
		w.Clock.Millis.Add(time.Hour.Milliseconds())
		if found := w.Differences(0); found != nil {
			t.Errorf("got differences %v, want none", found)
		}
	})
}

func errorOf(diff string) error {
	if diff == "" {
		return nil
	}
	return errors.New(diff)
}

// Verify and Repair clear the TTL of a name in use, and set that of a name left by a crash.
func TestReleasedUsername_VerifyAndRepair(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	item := func(name, owner, more string) {
		id := "username:" + name
		w.Upsert("users", id,
			fmt.Sprintf(`{"id":%q,"userId":%q,"type":"username","ownerId":%q,"creationDate":%q%s}`, id, id, owner,
				blog.NewDate(storetest.Epoch()), more))
	}
	item("ada", ada.UserID, `,"leaving":true,"ttl":1000`)
	item("crashed", grace.UserID, `,"leaving":true`)
	item("former", grace.UserID, `,"leaving":true,"ttl":1000`)
	w.Clock.Millis.Add(time.Hour.Milliseconds())
	var got []string
	found := w.Differences(0)
	for _, d := range found {
		got = append(got, fmt.Sprintf("%s: %s instead of %s", d.Partition, d.Have, d.Want))
	}
	if diff := cmp.Diff([]string{
		fmt.Sprintf("username:ada: %s, released instead of %[1]s", ada.UserID),
		fmt.Sprintf("username:crashed: %s instead of %[1]s, released", grace.UserID),
	}, got); diff != "" {
		t.Error(diff)
	}
	for _, d := range found {
		if err := w.Views().Repair(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	want := map[string]string{"ada": ada.UserID, "grace": grace.UserID, "crashed": grace.UserID + storetest.Released,
		"former": grace.UserID + storetest.Released}
	if diff := cmp.Diff(want, w.Reservations()); diff != "" {
		t.Error(diff)
	}
	if found := w.Differences(0); found != nil {
		t.Errorf("after Repair: got differences %v, want none", found)
	}
}
