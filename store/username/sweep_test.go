package username_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog"
	"byline/store/internal/storetest"
	"byline/store/username"
)

// sweep sweeps reservations as they are now.
func (w *world) sweep(names ...string) ([]username.Swept, error) {
	w.T.Helper()
	var all []username.Swept
	for _, name := range names {
		r, etag, err := w.Names.Read(w.T.Context(), "test", name)
		if err != nil || r == nil {
			w.T.Fatal(name, r, err)
		}
		all = append(all, username.Swept{Reservation: *r, ETag: etag})
	}
	return w.Sweep(w.T.Context(), all, blog.DecodeUser)
}

func TestSweep(t *testing.T) {
	for name, tt := range map[string]struct {
		have  username.Reservation // of wanted
		owner func(w *world)       // changes ada
		want  state
	}{
		"in use": {username.Reservation{OwnerID: "ada"}, func(w *world) { w.named("wanted") }, state{Owner: "ada"}},
		"in use, marked": {username.Reservation{OwnerID: "ada", Leaving: true}, func(w *world) { w.named("wanted") },
			state{"ada", true, false}},
		"reserved and not used": {username.Reservation{OwnerID: "ada"}, nil, state{}},
		"left":                  {username.Reservation{OwnerID: "ada", Leaving: true}, nil, state{"ada", true, true}},
		"owner gone":            {username.Reservation{OwnerID: bob}, nil, state{}},
		"left, owner gone":      {username.Reservation{OwnerID: bob, Leaving: true}, nil, state{}},
		"owner malformed": {username.Reservation{OwnerID: "ada"}, func(w *world) {
			w.named("")
		}, state{Owner: "ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tt.have.OwnerID == "ada" {
				tt.have.OwnerID = w.ada.UserID
			}
			if tt.want.Owner == "ada" {
				tt.want.Owner = w.ada.UserID
			}
			w.reserve("wanted", tt.have)
			if tt.owner != nil {
				tt.owner(w)
			}
			w.pass(2 * username.Grace)
			swept, err := w.sweep("wanted")
			if err != nil {
				t.Fatal(err)
			}
			w.want("wanted", tt.want)
			if changed := tt.want != (state{tt.have.OwnerID, tt.have.Leaving, false}); changed != (len(swept) == 1) {
				t.Errorf("%d were released, want any: %t", len(swept), changed)
			}
		})
	}
}

// named gives ada a name without reserving it.
func (w *world) named(name string) { w.Corrupt("users", w.ada.UserID, w.ada.UserID, "/username", name) }

// A deletion keeps the last name of its user, and ends the others.
func TestSweep_BeingDeleted(t *testing.T) {
	w := newWorld(t)
	w.mustRename("lovelace")
	if err := w.DeleteUser(t.Context(), w.ada.UserID, "lovelace"); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * username.Grace)
	if _, err := w.sweep("lovelace", "ada"); err != nil {
		t.Fatal(err)
	}
	w.want("lovelace", state{Owner: w.ada.UserID})
	w.want("ada", state{})
}

// A reservation that is written again after it was found unused stays.
func TestSweep_WrittenAgain(t *testing.T) {
	for name, leaving := range map[string]bool{"deleted": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := username.Reservation{OwnerID: w.ada.UserID, Leaving: leaving}
			w.reserve("wanted", r)
			w.pass(2 * username.Grace)
			method := map[bool]string{false: http.MethodDelete, true: http.MethodPatch}[leaving]
			w.on(1, method, username.Key("wanted"), func() error { w.reserve("wanted", r); return nil })
			swept, err := w.sweep("wanted")
			if err != nil || len(swept) > 0 {
				t.Errorf("released %v, %v", swept, err)
			}
			w.want("wanted", state{w.ada.UserID, leaving, false})
		})
	}
}

// Of those that cannot be released the error is returned, and what was released before.
func TestSweep_Fails(t *testing.T) {
	w := newWorld(t)
	w.reserve("one", username.Reservation{OwnerID: w.ada.UserID})
	w.reserve("two", username.Reservation{OwnerID: w.ada.UserID})
	w.pass(2 * username.Grace)
	w.on(1, http.MethodDelete, username.Key("two"), down)
	swept, err := w.sweep("one", "two")
	storetest.WantCode(t, err, blog.Unavailable, "")
	if len(swept) != 1 || swept[0].ID != username.Key("one") {
		t.Errorf("released %+v, want one", swept)
	}
	w.want("one", state{})
	w.want("two", state{Owner: w.ada.UserID})

	w.fail(http.MethodGet, w.ada.UserID)
	_, err = w.sweep("two")
	storetest.WantCode(t, err, blog.Unavailable, "")
}

// A reservation in its grace period is waited for; its owner may take it meanwhile.
func TestSweep_Waits(t *testing.T) {
	for name, taken := range map[string]bool{"not used": false, "taken meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldAt(t, time.Now)
				w.reserve("wanted", username.Reservation{OwnerID: w.ada.UserID})
				began := time.Now()
				if taken {
					time.AfterFunc(username.Grace/2, func() { w.named("wanted") })
				}
				swept, err := w.sweep("wanted")
				if err != nil || len(swept) == 1 == taken {
					t.Errorf("released %+v, %v", swept, err)
				}
				if took := time.Since(began); took < username.Grace || took > username.Grace+2*time.Second {
					t.Errorf("it has waited %s", took)
				}
			})
		})
	}
}

// Nothing waits when there is nothing to release, however young it is.
func TestSweep_InUseDoesNotWait(t *testing.T) {
	w := newWorld(t)
	now := w.World.Clock.Now()
	swept, err := w.sweep("ada")
	if err != nil || swept != nil || !w.World.Clock.Now().Equal(now) {
		t.Error(swept, err)
	}
}

func TestReservation_Times(t *testing.T) {
	written := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	r := username.Reservation{Written: written.Unix()}
	leaving := *r.MarkLeaving("2026-03-01T00:00:01.000Z")
	if leaving.Written != 0 || !leaving.Leaving || r.Leaving || leaving.CreatedAt != "2026-03-01T00:00:01.000Z" {
		t.Errorf("marked: %+v", leaving)
	}
	leaving.Written = r.Written
	const month = 30 * 24 * time.Hour
	for after, want := range map[time.Duration][3]bool{ // young, kept unless it is marked, kept if it is
		0:                      {true, false, true},
		time.Minute - 1:        {true, false, true},
		time.Minute:            {false, false, true},
		month - 1:              {false, false, true},
		month:                  {false, false, false},
		-time.Minute:           {true, false, true}, // a clock that is behind
		month + 24*time.Hour*1: {false, false, false},
	} {
		now := written.Add(after)
		if d := cmp.Diff(want, [3]bool{r.Young(now), r.Kept(now), leaving.Kept(now)}); d != "" {
			t.Errorf("after %s: -want +got\n%s", after, d)
		}
	}
}
