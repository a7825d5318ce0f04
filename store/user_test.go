package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestCreateUser(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	id := func(s string) string { return blog.UserID("test", s) }
	for _, c := range []struct {
		name  string
		in    store.NewUser
		code  blog.Code
		field string
	}{
		{"name taken", store.NewUser{ID: id("x"), Username: "ada"}, blog.Conflict, "username"},
		{"name taken in another case", store.NewUser{ID: id("x"), Username: "ADA"}, blog.Conflict, "username"},
		{"second user of a subject", store.NewUser{ID: ada.UserID, Username: "other"}, blog.Conflict, ""},
		{"name too short", store.NewUser{ID: id("x"), Username: "ab"}, blog.Invalid, "username"},
		{"name too long", store.NewUser{ID: id("x"), Username: strings.Repeat("a", 31)}, blog.Invalid, "username"},
		{"name with a look-alike", store.NewUser{ID: id("x"), Username: "аda"}, blog.Invalid, "username"},
		{"name with a quote", store.NewUser{ID: id("x"), Username: "o'neil"}, blog.Invalid, "username"},
		{"key too long", store.NewUser{ID: id("x"), Username: "fine", Key: strings.Repeat("k", 101)}, blog.Invalid,
			"idempotencyKey"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.CreateUser(t.Context(), c.in)
			storetest.WantCode(t, err, c.code, c.field)
			if c.in.ID != ada.UserID {
				if u, err := w.User(t.Context(), c.in.ID); u != nil || err != nil {
					t.Fatalf("a rejected user was written: %v, %v", u, err)
				}
			}
		})
	}
	for _, n := range []int{3, 30} {
		t.Run(fmt.Sprintf("name of %d characters -> created", n), func(t *testing.T) {
			w.AddUser(strings.Repeat("n", n))
		})
	}
	t.Run("name of a rejected user -> free", func(t *testing.T) {
		w.AddUser("other")
	})
	t.Run("same key, same input", func(t *testing.T) {
		in := store.NewUser{ID: id("grace"), Username: "Grace", Key: "k"}
		first, err := w.CreateUser(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.CreateUser(t.Context(), in)
		if err != nil || *again != *first {
			t.Fatalf("got %v, %v, want %v", again, err, first)
		}
		in.Username = "Grace2"
		_, err = w.CreateUser(t.Context(), in)
		storetest.WantCode(t, err, blog.Conflict, "")
	})
	t.Run("repeated after a crash between reservation and user -> created", func(t *testing.T) {
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.Header.Get("x-ms-documentdb-partitionkey"), id("crash")) &&
				r.Method == http.MethodPost {
				return context.DeadlineExceeded
			}
			return nil
		})
		in := store.NewUser{ID: id("crash"), Username: "crash"}
		_, err := w.CreateUser(t.Context(), in)
		storetest.WantCode(t, err, blog.Unavailable, "")
		w.Wire.Intercept(nil)
		if _, err := w.CreateUser(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("concurrent creates with one name -> one succeeds", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := 0
		for i := range 16 {
			wg.Go(func() {
				_, err := w.CreateUser(context.Background(),
					store.NewUser{ID: id("racer" + string(rune('a'+i))), Username: "wanted"})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got++
				} else if blog.CodeOf(err) != blog.Conflict {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got != 1 {
			t.Errorf("%d users have the name, want 1", got)
		}
	})
}

func TestUserByUsername(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("Ada")
	for name, want := range map[string]*blog.User{"ada": ada, "ADA": ada, "unknown": nil, "": nil,
		"no such/name": nil} {
		got, err := w.UserByUsername(t.Context(), name)
		if err != nil || (got == nil) != (want == nil) || got != nil && got.UserID != want.UserID {
			t.Errorf("%q: got %v, %v", name, got, err)
		}
	}
}

func TestRenameUser(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	_, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("Ada")})
	storetest.WantCode(t, err, blog.Conflict, "username")
	_, err = w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("a b")})
	storetest.WantCode(t, err, blog.Invalid, "username")
	_, err = w.UpdateUser(t.Context(), blog.UserID("test", "unknown"), store.UserEdit{Username: new("unknown")})
	storetest.WantCode(t, err, blog.NotFound, "")

	u, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")})
	if err != nil || u.Username != "Countess" || u.Revision != 2 {
		t.Fatalf("got %v, %v", u, err)
	}
	if u, err = w.UserByUsername(t.Context(), "countess"); err != nil || u == nil || u.UserID != ada.UserID {
		t.Fatalf("by the new name: %v, %v", u, err)
	}
	if u, err = w.UserByUsername(t.Context(), "ada"); err != nil || u == nil || u.UserID != ada.UserID ||
		u.Username != "Countess" {
		t.Fatalf("by the old name: %v, %v", u, err)
	}
	if u, err = w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("GRACE")}); err != nil ||
		u.Username != "GRACE" {
		t.Fatalf("only the case changes: %v, %v", u, err)
	}
	if u, err = w.UserByUsername(t.Context(), "Grace"); err != nil || u == nil || u.UserID != grace.UserID {
		t.Fatalf("after a change of case: %v, %v", u, err)
	}
	if same, err := w.UpdateUser(t.Context(), grace.UserID, store.UserEdit{Username: new("GRACE")}); err != nil ||
		same.Revision != u.Revision {
		t.Fatalf("the same name again: %v, %v", same, err)
	}
}

// A user has three renames in a period. A change of case counts, a repetition does not. A rename no longer
// counts once it is older than the period.
func TestRenameUser_RefusedAfterThreeRenames(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	for _, name := range []string{"Ada", "ADA", "countess"} {
		for range 2 {
			if _, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new(name)}); err != nil {
				t.Fatal(err)
			}
		}
		w.Clock.Millis.Add(time.Hour.Milliseconds())
	}
	reserved := w.Reservations()
	for range 5 {
		_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("lovelace")})
		storetest.WantCode(t, err, blog.LimitReached, "username")
		var refused *blog.Error
		if errors.As(err, &refused); refused == nil ||
			refused.Until.Time().Sub(w.Clock.Now()).Round(time.Second) != 21*time.Hour {
			t.Errorf("got %v, want until in 21 h", err)
		}
	}
	if diff := cmp.Diff(reserved, w.Reservations()); diff != "" {
		t.Errorf("a refused rename has reserved a name: %s", diff)
	}
	if u, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil ||
		u.Revision != 4 {
		t.Errorf("a repetition: %+v, %v", u, err)
	}
	w.Clock.Millis.Add((21 * time.Hour).Milliseconds())
	if u, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("Countess")}); err != nil ||
		u.Revision != 5 {
		t.Errorf("after a day: %+v, %v", u, err)
	}
	_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")})
	storetest.WantCode(t, err, blog.LimitReached, "username")
}

func TestUsers(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	ids := []string{grace.UserID, "absent", ada.UserID, grace.UserID, "not/an id"}
	got, err := w.Users(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	want := []*blog.User{grace, nil, ada, grace, nil}
	for i := range ids {
		if (got[i] == nil) != (want[i] == nil) || got[i] != nil && *got[i] != *want[i] {
			t.Errorf("%d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestEmpty(t *testing.T) {
	w := newWorld(t)
	if empty, err := w.Empty(t.Context()); err != nil || !empty {
		t.Fatalf("got %v, %v", empty, err)
	}
	w.Wire.Intercept(func(r *http.Request) error { // a crash between reservation and user
		if strings.Contains(r.Header.Get("x-ms-documentdb-partitionkey"), blog.UserID("test", "ada")) &&
			r.Method == http.MethodPost {
			return context.DeadlineExceeded
		}
		return nil
	})
	_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
	storetest.WantCode(t, err, blog.Unavailable, "")
	w.Wire.Intercept(nil)
	if empty, err := w.Empty(t.Context()); err != nil || !empty {
		t.Fatalf("with only a reservation: got %v, %v, want true", empty, err)
	}
	w.AddUser("ada")
	if empty, err := w.Empty(t.Context()); err != nil || empty {
		t.Fatalf("got %v, %v", empty, err)
	}
}

// Issuer and subject determine the user id. It must never change, as stored items contain it.
func TestUserID(t *testing.T) {
	if got, want := blog.UserID("https://id.example", "ada"), "f80541fe6716f8e2d6f6df1bbf526d13"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	seen := map[string]string{}
	for _, v := range [][2]string{
		{"https://id.example", "ada"}, {"https://id.example/", "ada"}, {"https://id.example", "Ada"},
		{"https://id.example", "ada "},
		{"https://id.exampleada", ""}, {"https://id.example", "\x00ada"}, {"", "https://id.exampleada"},
		{"https://id.example3:", "ada"},
		{"https://id.example", "аda"}, {"https://id.example", "ada\u0301"},
	} {
		id := blog.UserID(v[0], v[1])
		if other := seen[id]; other != "" {
			t.Errorf("%q has the id of %s", v, other)
		}
		seen[id] = fmt.Sprintf("%q", v)
	}
}
