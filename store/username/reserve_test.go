package username_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/storetest"
	"byline/store/username"
)

// world is a blog with the user ada, whose names tests use without a Store. Its clocks do not advance by themselves.
type world struct {
	*storetest.World
	*username.Names
	users *cosmos.Container
	ada   *blog.User
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, nil)
}

// newWorldAt is newWorld with the clock now, unless it is nil.
func newWorldAt(t *testing.T, now func() time.Time) *world {
	t.Helper()
	clock := &storetest.Clock{}
	clock.Stopped.Store(true)
	if now == nil {
		now = clock.Now
	}
	w := &world{World: storetest.OpenWith(t, "", clock, now)}
	users, err := w.Account.Container(w.Database, blog.UsersContainer)
	if err != nil {
		t.Fatal(err)
	}
	w.users = users
	w.Names = &username.Names{Users: users, Clock: now, Logger: testkit.Logger()}
	w.ada = w.AddUser("ada")
	return w
}

// pass advances the clocks.
func (w *world) pass(d time.Duration) { w.World.Clock.Millis.Add(d.Milliseconds()) }

// reserve writes the reservation of a name, with a date unless it has one.
func (w *world) reserve(name string, r username.Reservation) {
	w.T.Helper()
	k := username.Key(name)
	r.Envelope.Type, r.ID, r.Partition = blog.TypeUsername, k, k
	r.CreatedAt = cmp.Or(r.CreatedAt, "2026-01-01T00:00:00.000Z")
	w.Upsert("users", k, string(blog.Encode(&r)))
}

// state is what the tests compare of a reservation.
type state struct {
	Owner    string
	Leaving  bool
	Released bool
}

// reserved returns the state of the reservation of a name; zero if the name is free.
func (w *world) reserved(name string) state {
	w.T.Helper()
	r, _, err := w.Names.Read(w.T.Context(), "test", name)
	if err != nil {
		w.T.Fatal(err)
	}
	if r == nil {
		return state{}
	}
	return state{r.OwnerID, r.Leaving, r.TTL > 0}
}

func (w *world) want(name string, want state) {
	w.T.Helper()
	if d := gocmp.Diff(want, w.reserved(name)); d != "" {
		w.T.Errorf("reservation of %s: -want +got\n%s", name, d)
	}
}

// on calls f with the n-th request with a method of an item in the partition of a key. If f returns an error, the
// request is not sent, and its response is 503.
func (w *world) on(n int, method, key string, f func() error) {
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method != method || !of(r, key) {
			return nil
		}
		if n--; n != 0 {
			return nil
		}
		return f()
	})
	w.T.Cleanup(func() { w.Wire.Intercept(nil) })
}

// fail makes every request with a method of an item in the partition of a key fail, as the client repeats reads.
func (w *world) fail(method, key string) {
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method == method && of(r, key) {
			return errDown
		}
		return nil
	})
	w.T.Cleanup(func() { w.Wire.Intercept(nil) })
}

// lose loses the response to the first request with a method of an item in the partition of a key, which is executed.
func (w *world) lose(method, key string) {
	w.Wire.After(func(r *http.Response) {
		if r.Request.Method == method && of(r.Request, key) {
			w.Wire.After(nil)
			r.StatusCode, r.Status, r.Body = http.StatusServiceUnavailable, "503", http.NoBody
		}
	})
	w.T.Cleanup(func() { w.Wire.After(nil) })
}

func of(r *http.Request, key string) bool {
	partition := r.Header.Get("X-Ms-Documentdb-Partitionkey")
	return strings.Contains(r.URL.Path, "/docs") && partition == fmt.Sprintf("[%q]", key)
}

// by returns a reservation.
func by(owner string) *username.Reservation { return &username.Reservation{OwnerID: owner} }

// released returns the reservation of a released name.
func released(owner string) *username.Reservation {
	return &username.Reservation{Envelope: blog.Envelope{TTL: 60 * 60}, OwnerID: owner, Leaving: true}
}

var errDown = errors.New("down")

func down() error { return errDown }

const bob = "bob-id" // who need not exist

func TestReserve(t *testing.T) {
	const old = 2 * username.Grace
	for name, tt := range map[string]struct {
		have  *username.Reservation // of the name, before
		after time.Duration         // since it was written
		owner string                // who reserves the name: ada's, unless it is set
		taken bool
		want  state
	}{
		"free":      {want: state{Owner: "ada"}},
		"their own": {have: &username.Reservation{OwnerID: "ada"}, want: state{Owner: "ada"}},
		"their own, marked": {have: &username.Reservation{OwnerID: "ada", Leaving: true},
			want: state{"ada", true, false}},
		"their own, released": {have: released("ada"), want: state{"ada", true, false}},
		"another's who may be about to": {have: by(bob), after: username.Grace - time.Second, taken: true,
			want: state{Owner: bob}},
		"another's who does not exist": {have: by(bob), after: old, want: state{Owner: "ada"}},
		"another's with another name":  {have: by("grace"), after: old, want: state{Owner: "ada"}},
		"another's, marked": {have: &username.Reservation{OwnerID: "grace", Leaving: true}, after: old, taken: true,
			want: state{"grace", true, false}},
		"another's, released": {have: released("grace"), after: old, taken: true, want: state{"grace", true, true}},
		"another's, released long ago": {have: &username.Reservation{OwnerID: "grace", Leaving: true},
			after: 30 * 24 * time.Hour, want: state{Owner: "ada"}},
		"of an owner whose id is malformed": {have: by("no id/"), after: old, want: state{Owner: "ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			grace := w.AddUser("grace")
			ids := map[string]string{"ada": w.ada.UserID, "grace": grace.UserID, bob: bob, "no id/": "no id/", "": ""}
			if tt.have != nil {
				tt.have.OwnerID = ids[tt.have.OwnerID]
				w.reserve("wanted", *tt.have)
			}
			w.pass(tt.after)
			err := w.Reserve(t.Context(), "test", w.ada.UserID, "Wanted")
			if (err != nil) != tt.taken || tt.taken && blog.CodeOf(err) != blog.Conflict {
				t.Errorf("got %v, want taken: %t", err, tt.taken)
			}
			tt.want.Owner = ids[tt.want.Owner]
			w.want("wanted", tt.want)
			if err == nil {
				r, _, err := w.Read(t.Context(), "test", "wanted")
				if err != nil || r.CreatedAt != blog.NewDate(w.World.Clock.Now()) {
					t.Errorf("got %+v, %v, want the date of now", r, err)
				}
			}
		})
	}
}

// A name that its owner has is theirs, however old the reservation is.
func TestReserve_NameInUse(t *testing.T) {
	w := newWorld(t)
	grace := w.AddUser("grace")
	w.pass(100 * 24 * time.Hour)
	storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "GRACE"), blog.Conflict, "username")
	w.want("grace", state{Owner: grace.UserID})
}

// The response to the create is lost, or the request: the reservation shows which.
func TestReserve_AmbiguousCreate(t *testing.T) {
	key := username.Key("wanted")
	t.Run("executed", func(t *testing.T) {
		w := newWorld(t)
		w.lose(http.MethodPost, key)
		if err := w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"); err != nil {
			t.Error(err)
		}
		w.want("wanted", state{Owner: w.ada.UserID})
	})
	t.Run("not executed", func(t *testing.T) {
		w := newWorld(t)
		w.on(1, http.MethodPost, key, down)
		storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"), blog.Unavailable, "")
		w.want("wanted", state{})
	})
	t.Run("not executed, reserved before", func(t *testing.T) {
		w := newWorld(t)
		w.reserve("wanted", username.Reservation{OwnerID: w.ada.UserID})
		w.on(1, http.MethodPost, key, down)
		storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"), blog.Unavailable, "")
	})
	t.Run("not executed, another's", func(t *testing.T) {
		w := newWorld(t)
		w.reserve("wanted", username.Reservation{OwnerID: bob, CreatedAt: blog.NewDate(w.World.Clock.Now())})
		w.on(1, http.MethodPost, key, down)
		storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"), blog.Unavailable, "")
		w.want("wanted", state{Owner: bob})
	})
}

// An abandoned reservation that cannot be replaced stays its former owner's, and the error is that of the request.
func TestReserve_ReplaceFails(t *testing.T) {
	w := newWorld(t)
	w.reserve("wanted", username.Reservation{OwnerID: bob})
	w.pass(2 * username.Grace)
	w.on(1, http.MethodPatch, username.Key("wanted"), down)
	storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"), blog.Unavailable, "")
	w.want("wanted", state{Owner: bob})
}

// The reservation changes between its read and its replacement: it is read again.
func TestReserve_ChangedMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world) // by others
		taken  bool
		want   string // owner
	}{
		"written by its owner": {func(w *world) {
			w.reserve("wanted", username.Reservation{OwnerID: bob})
		}, true, bob},
		"deleted": {func(w *world) { w.Remove("users", username.Key("wanted"), username.Key("wanted")) }, false, "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reserve("wanted", username.Reservation{OwnerID: bob})
			w.pass(2 * username.Grace)
			w.on(1, http.MethodPatch, username.Key("wanted"), func() error { tt.change(w); return nil })
			err := w.Reserve(t.Context(), "test", w.ada.UserID, "wanted")
			if (blog.CodeOf(err) == blog.Conflict) != tt.taken || !tt.taken && err != nil {
				t.Errorf("got %v, want taken: %t", err, tt.taken)
			}
			if tt.want == "ada" {
				tt.want = w.ada.UserID
			}
			w.want("wanted", state{Owner: tt.want})
		})
	}
}

// A process that paused gives its user the name just before another user takes the abandoned reservation: that one
// returns it.
func TestReserve_GivesBack(t *testing.T) {
	w := newWorld(t)
	grace := w.AddUser("grace")
	w.reserve("wanted", username.Reservation{OwnerID: grace.UserID})
	w.pass(2 * username.Grace)
	w.on(1, http.MethodPatch, username.Key("wanted"), func() error {
		w.Corrupt("users", grace.UserID, grace.UserID, "/username", "Wanted")
		return nil
	})
	storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"), blog.Conflict, "username")
	w.want("wanted", state{Owner: grace.UserID})
}

// The former owner cannot be read, or the reservation not be given back: the error is that of the request.
func TestReserve_GiveBackFails(t *testing.T) {
	for name, method := range map[string]string{"owner not read": http.MethodPost, "not given back": http.MethodPatch} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			grace := w.AddUser("grace")
			w.reserve("wanted", username.Reservation{OwnerID: grace.UserID})
			w.pass(2 * username.Grace)
			w.on(1, http.MethodPatch, username.Key("wanted"), func() error {
				w.Corrupt("users", grace.UserID, grace.UserID, "/username", "wanted")
				key := username.Key("wanted")
				if method == http.MethodPost { // a batch reads from the primary replica
					key = grace.UserID
				}
				w.fail(method, key)
				return nil
			})
			storetest.WantCode(t, w.Reserve(t.Context(), "test", w.ada.UserID, "wanted"), blog.Unavailable, "")
		})
	}
}

func TestLost(t *testing.T) {
	for name, tt := range map[string]struct {
		have *username.Reservation
		lost bool
		want state
	}{
		"theirs":           {&username.Reservation{OwnerID: "ada"}, false, state{Owner: "ada"}},
		"swept":            {nil, false, state{Owner: "ada"}},
		"released":         {released("ada"), false, state{"ada", true, false}},
		"another's, young": {&username.Reservation{OwnerID: bob}, true, state{Owner: bob}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tt.have != nil {
				if tt.have.OwnerID == "ada" {
					tt.have.OwnerID = w.ada.UserID
				}
				w.reserve("wanted", *tt.have)
			}
			lost, err := w.Lost(t.Context(), "test", w.ada.UserID, "wanted")
			if err != nil || lost != tt.lost {
				t.Errorf("got %t, %v, want %t", lost, err, tt.lost)
			}
			if tt.want.Owner == "ada" {
				tt.want.Owner = w.ada.UserID
			}
			w.want("wanted", tt.want)
		})
	}
	t.Run("not read", func(t *testing.T) {
		w := newWorld(t)
		w.fail(http.MethodPost, username.Key("wanted")) // a batch reads from the primary replica
		_, err := w.Lost(t.Context(), "test", w.ada.UserID, "wanted")
		storetest.WantCode(t, err, blog.Unavailable, "")
	})
}

// Properties that a later version adds to a reservation stay when it is replaced.
func TestReplace_KeepsUnknownProperties(t *testing.T) {
	w := newWorld(t)
	w.Corrupt("users", username.Key("ada"), username.Key("ada"), "/later", "kept")
	if err := w.Reserve(t.Context(), "test", w.ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	r, err := w.users.Read(t.Context(), cosmos.Key{Partition: username.Key("ada"), ID: username.Key("ada")})
	if err != nil || !strings.Contains(string(r.Value), `"later":"kept"`) {
		t.Errorf("got %s, %v", r.Value, err)
	}
}

// A request that has ended is not an unknown outcome: nothing is read again.
func TestReserve_Canceled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.on(1, http.MethodPost, username.Key("wanted"), func() error { cancel(); return errDown })
	if err := w.Reserve(ctx, "test", w.ada.UserID, "wanted"); err == nil {
		t.Error("reserved")
	}
	w.want("wanted", state{})
}
