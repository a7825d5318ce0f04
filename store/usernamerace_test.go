package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/stored"
	"byline/store/username"
)

// The age of a reservation counts by Cosmos DB's clock, not by that of the instance that wrote it.
func TestReservation_AgeByAccountClock(t *testing.T) {
	for name, off := range map[string]time.Duration{"writer's clock behind": -10 * time.Minute,
		"writer's clock ahead": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWithOneClock(t)
			ada := w.AddUser("ada")
			wrong, err := store.New(w.Account, store.Options{Database: w.Database, Clock: func() time.Time {
				return w.Clock.Now().Add(off)
			}})
			if err != nil {
				t.Fatal(err)
			}
			w.Wire.Intercept(func(r *http.Request) error {
				if changesUser(r) { // a crash between reservation and user
					return context.DeadlineExceeded
				}
				return nil
			})
			_, err = wrong.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("wanted")})
			storetest.WantCode(t, err, blog.Unavailable, "")
			w.Wire.Intercept(nil)
			in := store.NewUser{ID: blog.UserID("test", "grace"), Username: "wanted"}
			_, err = w.CreateUser(t.Context(), in)
			storetest.WantCode(t, err, blog.Conflict, "username")
			w.Clock.Millis.Add(61_000)
			if _, err := w.CreateUser(t.Context(), in); err != nil {
				t.Errorf("after the grace period: %v", err)
			}
		})
	}
}

// A process pauses during a rename or create for longer than the grace period, and another user takes the
// name.
func TestUsername_LostWhilePaused(t *testing.T) {
	for _, what := range []string{"rename", "create"} {
		t.Run(what, func(t *testing.T) {
			w := newWorldWithOneClock(t)
			ada, grace, id := w.AddUser("ada"), w.AddUser("grace"), blog.UserID("test", "new")
			writes := 0
			w.Wire.Intercept(func(r *http.Request) error {
				if !changes(r) {
					return nil
				}
				if writes++; !changesUser(r) && (what == "rename" || writes < 2) {
					return nil
				}
				w.Wire.Intercept(nil)
				w.Clock.Millis.Add(61_000)
				if _, err := w.UpdateUser(t.Context(), grace.UserID,
					store.UserEdit{Username: new("wanted")}); err != nil {
					t.Error(err)
				}
				return nil
			})
			w.Wire.After(func(r *http.Response) { // another request reads the user before the name is found to be lost
				if r.Request.Method == http.MethodPost && r.StatusCode == http.StatusCreated {
					if _, err := w.User(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
			})
			var err error
			if what == "rename" {
				_, err = w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Wanted")})
			} else {
				_, err = w.CreateUser(t.Context(), store.NewUser{ID: id, Username: "Wanted"})
			}
			storetest.WantCode(t, err, blog.Conflict, "username")
			for id, want := range map[string]string{ada.UserID: "ada", grace.UserID: "wanted", id: ""} {
				have := ""
				if u, err := w.User(t.Context(), id); err != nil {
					t.Fatal(err)
				} else if u != nil {
					have = u.Username
				}
				if have != want {
					t.Errorf("got username %q, want %q", have, want)
				}
			}
			if u, err := w.UserByUsername(t.Context(), "wanted"); err != nil || u == nil || u.UserID != grace.UserID {
				t.Errorf("by name: %v, %v", u, err)
			}
			if u, err := w.UserByUsername(t.Context(), "ada"); err != nil || u == nil || u.UserID != ada.UserID {
				t.Errorf("by the previous name: %v, %v", u, err)
			}
			_, _, err = w.LikePost(t.Context(), id, "post")
			storetest.WantCode(t, err, blog.Forbidden, "")
			if what == "rename" { // the attempt does not count as a rename
				for _, name := range []string{"one", "two", "three"} {
					if _, err := w.UpdateUser(t.Context(), ada.UserID,
						store.UserEdit{Username: new(name)}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// actorKey is the key of the actor in the context of a request.
type actorKey struct{}

// race runs operations one request at a time, in a random order, with some pauses longer than the grace
// period.
func race(w *world, random *rand.Rand, operations ...func(context.Context) error) []error {
	type actor struct {
		arrived chan bool // true at a request, false at the end
		next    chan struct{}
	}
	actors := make([]actor, len(operations))
	errs := make([]error, len(operations))
	w.Wire.Intercept(func(r *http.Request) error {
		if a, ok := r.Context().Value(actorKey{}).(actor); ok {
			a.arrived <- true
			<-a.next
		}
		return nil
	})
	defer w.Wire.Intercept(nil)
	var running []int
	for i, op := range operations {
		a := actor{make(chan bool), make(chan struct{})}
		actors[i] = a
		go func() {
			errs[i] = op(context.WithValue(context.Background(), actorKey{}, a))
			a.arrived <- false
		}()
		if <-a.arrived {
			running = append(running, i)
		}
	}
	for len(running) > 0 {
		k := random.IntN(len(running))
		if random.IntN(4) == 0 {
			w.Clock.Millis.Add(61_000)
		}
		a := actors[running[k]]
		a.next <- struct{}{}
		if !<-a.arrived {
			running = append(running[:k], running[k+1:]...)
		}
	}
	return errs
}

// newRacers returns a world with one clock whose engine has the options o, and the stores of two processes.
func newRacers(t *testing.T, o emulator.Options) (*world, [2]*store.Store) {
	t.Helper()
	clock := &storetest.Clock{}
	clock.Stopped.Store(true)
	o.Clock, o.Logger = clock.Now, testkit.Logger()
	engine, err := emulator.Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{storetest.On(t, engine)}
	w.Clock = clock
	var stores [2]*store.Store
	for i := range stores {
		w.Use(w.NewAccount(cosmos.Options{}))
		if stores[i], err = store.New(w.Account, store.Options{Database: w.Database, Clock: clock.Now}); err != nil {
			t.Fatal(err)
		}
		if err := stores[i].Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return w, stores
}

// Of two users who race for a name while reservations expire at most one gets it, even if replicas lag. A user
// whose operation succeeds has the name.
func TestUsername_Race(t *testing.T) {
	cosmostest.NeedsEngine(t, "its clock and its replicas")
	for name, o := range map[string]emulator.Options{
		"one partition":                  {},
		"lagging replicas, 4 partitions": {ReplicaLag: time.Hour, Partitions: 4},
	} {
		t.Run(name, func(t *testing.T) { cosmostest.Run(t, func(t *testing.T) { raceForName(t, o) }) })
	}
}

func raceForName(t *testing.T, o emulator.Options) {
	won := 0
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 0))
		w, stores := newRacers(t, o)
		var ids []string
		var operations []func(context.Context) error
		for i, s := range stores {
			id := blog.UserID("test", fmt.Sprint(i))
			operation := func(ctx context.Context) error {
				_, err := s.CreateUser(ctx, store.NewUser{ID: id, Username: "wanted"})
				return err
			}
			if random.IntN(2) == 0 {
				if _, err := s.CreateUser(t.Context(),
					store.NewUser{ID: id, Username: fmt.Sprint("user", i)}); err != nil {
					t.Fatal(err)
				}
				operation = func(ctx context.Context) error {
					_, err := s.UpdateUser(ctx, id, store.UserEdit{Username: new("Wanted")})
					return err
				}
			}
			ids, operations = append(ids, id), append(operations, operation)
		}
		errs := race(w, random, operations...)
		w.SeeNewest(blog.UsersContainer, ids[0], ids[1], username.Key("wanted"))
		var winners []string
		for i, id := range ids {
			c, err := w.Account.Container(w.Database, blog.UsersContainer)
			if err != nil {
				t.Fatal(err)
			}
			u, err := stored.ReadUser(t.Context(), "test", c, id)
			if err != nil {
				t.Fatal(err)
			}
			has := u != nil && username.Key(u.Username) == username.Key("wanted")
			if has {
				winners = append(winners, id)
			}
			if has != (errs[i] == nil) {
				t.Errorf("seed %d: user %d has the name: %v, but the error is %v", seed, i, has, errs[i])
			}
			if errs[i] != nil && blog.CodeOf(errs[i]) != blog.Conflict {
				t.Errorf("seed %d: %v", seed, errs[i])
			}
		}
		if won += len(winners); len(winners) > 1 {
			t.Errorf("seed %d: both users have the name: %v", seed, errs)
		}
		if owner := w.Reservations()["wanted"]; len(winners) == 1 && owner != winners[0] {
			t.Errorf("seed %d: the name is reserved for %q", seed, owner)
		}
	}
	t.Logf("150 races, %d won", won)
	if won < 100 {
		t.Errorf("%d of 150 races were won, want at least 100", won)
	}
}
