package store_test

import (
	"testing"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestReservedUsernames(t *testing.T) {
	w := storetest.NewWith(t, store.Options{ReservedUsernames: []string{"Babbage", "not a username"}})
	ada := w.AddUser("ada")
	for name, want := range map[string]blog.Code{
		"admin": blog.Invalid, "Moderator": blog.Invalid, "_support_": blog.Invalid, "a-d-m-i-n": blog.Invalid,
		"babbage": blog.Invalid, "---": blog.Invalid, "_-_": blog.Invalid,
		"admin1": "", "administer": "", "babbages": "", "-a-": "",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "of "+name), Username: name})
			storetest.WantCode(t, err, want, "username")
			if want != "" { // the same for a rename
				_, err = w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new(name)})
				storetest.WantCode(t, err, want, "username")
			}
		})
	}
}

// TestReservedUsernames_KeptByTheirUsers: a user who has a name that is reserved later is found by it, and keeps it.
func TestReservedUsernames_KeptByTheirUsers(t *testing.T) {
	w := storetest.New(t)
	ada := w.AddUser("babbage")
	reserving, err := store.New(w.Account, store.Options{Database: w.Database, ReservedUsernames: []string{"babbage"}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := reserving.UserByUsername(t.Context(), "babbage")
	if err != nil || found == nil || found.UserID != ada.UserID {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := reserving.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("babbage")}); err != nil {
		t.Error(err)
	}
}
