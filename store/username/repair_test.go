package username_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"byline/store/blog"
	"byline/store/internal/storetest"
	"byline/store/username"
)

// cases of a reservation of the name wanted beside the user ada, whose name is named.
type pairCase struct {
	named string                // ada's name; "": the user does not exist; "deleted": is being deleted
	have  *username.Reservation // of wanted; nil: none
	after time.Duration         // since it was written

	owner, want string // what Compare returns; "ada" for the id
	repaired    state  // after Repair
	taken       bool   // Repair returns Conflict
}

func pairs() map[string]pairCase {
	const old = 2 * username.Grace
	ada := func(leaving bool, ttl int) *username.Reservation {
		return &username.Reservation{Envelope: blog.Envelope{TTL: ttl}, OwnerID: "ada", Leaving: leaving}
	}
	of := func(owner string) *username.Reservation { return &username.Reservation{OwnerID: owner} }
	return map[string]pairCase{
		"theirs":              {"wanted", ada(false, 0), 0, "ada", "ada", state{Owner: "ada"}, false},
		"theirs, marked":      {"wanted", ada(true, 0), old, "ada", "ada", state{"ada", true, false}, false},
		"missing":             {"wanted", nil, 0, "nobody", "ada", state{Owner: "ada"}, false},
		"theirs, expires":     {"wanted", ada(true, 60), 0, "ada, released", "ada", state{Owner: "ada"}, false},
		"another's, old":      {"wanted", of(bob), old, bob, "ada", state{Owner: "ada"}, false},
		"another's, young":    {"wanted", of(bob), 0, bob, "ada", state{Owner: bob}, true},
		"free":                {"other", nil, 0, "nobody", "nobody", state{}, false},
		"left over, young":    {"other", ada(false, 0), 0, "", "", state{Owner: "ada"}, false},
		"left over":           {"other", ada(false, 0), old, "ada", "nobody", state{}, false},
		"left over, marked":   {"other", ada(true, 0), old, "ada", "ada, released", state{"ada", true, true}, false},
		"released":            {"other", ada(true, 60*60), old, "", "", state{"ada", true, true}, false},
		"of another user":     {"other", of(bob), old, "", "", state{Owner: bob}, false},
		"owner gone":          {"", ada(false, 0), old, "ada", "nobody", state{}, false},
		"owner gone, young":   {"", ada(false, 0), 0, "", "", state{Owner: "ada"}, false},
		"owner gone, expires": {"", ada(true, 60*60), old, "ada, released", "nobody", state{}, false},
	}
}

func (w *world) arrange(t *testing.T, c pairCase) (id string, c2 pairCase) {
	t.Helper()
	id = w.ada.UserID
	switch c.named {
	case "":
		w.Remove("users", id, id)
	default:
		w.Corrupt("users", id, id, "/username", c.named)
	}
	name := func(s string) string { return strings.Replace(s, "ada", id, 1) }
	if c.have != nil {
		c.have.OwnerID = name(c.have.OwnerID)
		w.reserve("wanted", *c.have)
	}
	w.pass(c.after)
	c.owner, c.want, c.repaired.Owner = name(c.owner), name(c.want), name(c.repaired.Owner)
	return id, c
}

func TestCompare(t *testing.T) {
	for name, c := range pairs() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id, c := w.arrange(t, c)
			have, want, err := w.Compare(t.Context(), username.Key("wanted"), id)
			if err != nil || have != c.owner || want != c.want {
				t.Errorf("got %q, %q, %v, want %q, %q", have, want, err, c.owner, c.want)
			}
		})
	}
}

func TestRepair(t *testing.T) {
	for name, c := range pairs() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id, c := w.arrange(t, c)
			err := w.Repair(t.Context(), username.Key("wanted"), id)
			if c.taken {
				storetest.WantCode(t, err, blog.Conflict, "username")
			} else if err != nil {
				t.Error(err)
			}
			w.want("wanted", c.repaired)
			have, want, err := w.Compare(t.Context(), username.Key("wanted"), id)
			if !c.taken && (err != nil || have != want) {
				t.Errorf("after the repair: %q, want %q, %v", have, want, err)
			}
		})
	}
}

// Every reservation of a user who is being deleted is correct: the deletion ends it.
func TestCompare_BeingDeleted(t *testing.T) {
	w := newWorld(t)
	w.pass(time.Hour)
	if err := w.DeleteUser(t.Context(), w.ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	w.reserve("wanted", username.Reservation{OwnerID: w.ada.UserID})
	w.pass(time.Hour)
	if have, want, err := w.Compare(t.Context(), username.Key("wanted"), w.ada.UserID); have != want || err != nil {
		t.Errorf("got %q, want %q, %v", have, want, err)
	}
}

// A malformed reservation is reported, and deleted, to be compared again.
func TestRepair_Malformed(t *testing.T) {
	w := newWorld(t)
	k := username.Key("ada")
	w.Corrupt("users", k, k, "/creationDate", "never")
	have, want, err := w.Compare(t.Context(), k, w.ada.UserID)
	if have != "malformed" || want != w.ada.UserID || err != nil {
		t.Errorf("got %q, %q, %v", have, want, err)
	}
	for range 2 {
		if err := w.Repair(t.Context(), k, w.ada.UserID); err != nil {
			t.Fatal(err)
		}
	}
	w.want("ada", state{Owner: w.ada.UserID})
}

// duplicate gives a second user ada's name.
func (w *world) duplicate() *blog.User {
	w.T.Helper()
	grace := w.AddUser("grace")
	w.Corrupt("users", grace.UserID, grace.UserID, "/username", "Ada")
	return grace
}

// Of two users with one name the one without the reservation gets another, which no one else has.
func TestRenameDuplicate(t *testing.T) {
	w := newWorld(t)
	grace := w.duplicate()
	conflict := username.ErrTaken("test")
	k := username.Key("ada")
	if err := w.RenameDuplicate(t.Context(), k, w.ada.UserID, conflict); err != conflict {
		t.Errorf("of the owner: %v", err)
	}
	first := "Ada-" + grace.UserID[:4]
	w.reserve(first, username.Reservation{OwnerID: bob}) // so that the next four characters are taken
	if err := w.RenameDuplicate(t.Context(), k, grace.UserID, conflict); err != nil {
		t.Fatal(err)
	}
	name := "Ada-" + grace.UserID[4:8]
	if u := w.item(grace.UserID); u.Username != name || u.Revision != grace.Revision+1 {
		t.Errorf("got %+v, want the name %s", u, name)
	}
	w.want(name, state{Owner: grace.UserID})
	w.want(first, state{Owner: bob})
	w.want("ada", state{Owner: w.ada.UserID})
	if u := w.item(w.ada.UserID); u.Username != "ada" {
		t.Errorf("the owner has the name %s", u.Username)
	}
	if err := w.RenameDuplicate(t.Context(), k, grace.UserID, conflict); err != conflict {
		t.Errorf("again: %v", err)
	}
}

// A name that was reserved by an attempt whose outcome is unknown is used by the next.
func TestRenameDuplicate_Resumes(t *testing.T) {
	w := newWorld(t)
	grace := w.duplicate()
	w.on(1, http.MethodPatch, grace.UserID, down)
	k, conflict := username.Key("ada"), username.ErrTaken("test")
	storetest.WantCode(t, w.RenameDuplicate(t.Context(), k, grace.UserID, conflict), blog.Unavailable, "")
	w.Wire.Intercept(nil)
	if err := w.RenameDuplicate(t.Context(), k, grace.UserID, conflict); err != nil {
		t.Fatal(err)
	}
	if u := w.item(grace.UserID); u.Username != "Ada-"+grace.UserID[:4] {
		t.Errorf("got the name %s", u.Username)
	}
}

// The longest name is cut, so that what is appended fits.
func TestRenameDuplicate_LongName(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("a", 30)
	w.mustRename(long)
	grace := w.AddUser("grace")
	w.Corrupt("users", grace.UserID, grace.UserID, "/username", long)
	err := w.RenameDuplicate(t.Context(), username.Key(long), grace.UserID, username.ErrTaken("test"))
	if err != nil {
		t.Fatal(err)
	}
	name := w.item(grace.UserID).Username
	if name != long[:25]+"-"+grace.UserID[:4] || username.Check("test", name) != nil {
		t.Errorf("got the name %s", name)
	}
}

// A user who is not a duplicate keeps the name, and the conflict is returned.
func TestRenameDuplicate_NotOne(t *testing.T) {
	conflict := username.ErrTaken("test")
	k := username.Key("ada")
	for name, arrange := range map[string]func(w *world, grace string){
		"no reservation":      func(w *world, _ string) { w.Remove("users", k, k) },
		"malformed":           func(w *world, _ string) { w.Corrupt("users", k, k, "/creationDate", "never") },
		"owner gone":          func(w *world, _ string) { w.Remove("users", w.ada.UserID, w.ada.UserID) },
		"owner renamed":       func(w *world, _ string) { w.named("eve") },
		"user gone":           func(w *world, grace string) { w.Remove("users", grace, grace) },
		"user renamed":        func(w *world, grace string) { w.Corrupt("users", grace, grace, "/username", "eve") },
		"user malformed":      func(w *world, grace string) { w.Corrupt("users", grace, grace, "/revision", "one") },
		"every name is taken": func(w *world, grace string) { w.takeAll(grace) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			grace := w.duplicate()
			arrange(w, grace.UserID)
			if err := w.RenameDuplicate(t.Context(), k, grace.UserID, conflict); err != conflict {
				t.Errorf("got %v, want the conflict", err)
			}
		})
	}
}

// takeAll reserves each name that a duplicate could get.
func (w *world) takeAll(id string) {
	for rest := id; len(rest) >= 4; rest = rest[4:] {
		w.reserve("Ada-"+rest[:4], username.Reservation{OwnerID: bob})
	}
}
