package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
	"byline/store/stored"
)

func optional(text string) store.Optional { return store.Optional{Set: true, Value: text} }

func TestUserEdit_Validate(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  store.UserEdit
		field string
	}{
		"nothing -> valid":       {store.UserEdit{}, ""},
		"60 characters -> valid": {store.UserEdit{DisplayName: optional(strings.Repeat("é", 60))}, ""},
		"61 characters -> invalid": {store.UserEdit{DisplayName: optional(strings.Repeat("é", 61))},
			"displayName"},
		"empty name -> valid":          {store.UserEdit{DisplayName: optional("")}, ""},
		"spaces -> valid":              {store.UserEdit{DisplayName: optional(" \u3000\n"), Bio: optional("\r\n")}, ""},
		"invisible name -> invalid":    {store.UserEdit{DisplayName: optional("\u200d")}, "displayName"},
		"empty username -> invalid":    {store.UserEdit{Username: new("")}, "username"},
		"two lines of name -> invalid": {store.UserEdit{DisplayName: optional("a\nb")}, "displayName"},
		"https -> valid": {store.UserEdit{
			AvatarURL: optional("https://pictures.example/ada.png?size=64")}, ""},
		"path -> valid": {store.UserEdit{AvatarURL: optional("/avatars/ada.svg")}, ""},
		"path with a query -> invalid": {store.UserEdit{
			AvatarURL: optional("/graphql?query={feed{edges{cursor}}}")}, "avatarUrl"},
		"query of this server -> invalid": {store.UserEdit{AvatarURL: optional("/graphql?documentId=a")}, "avatarUrl"},
		"http -> invalid": {store.UserEdit{AvatarURL: optional("http://pictures.example/ada.png")},
			"avatarUrl"},
		"script -> invalid": {store.UserEdit{AvatarURL: optional("javascript:alert(1)")}, "avatarUrl"},
		"data -> invalid": {store.UserEdit{AvatarURL: optional("data:image/png;base64,AA==")},
			"avatarUrl"},
		"another server -> invalid":      {store.UserEdit{AvatarURL: optional("//evil.example/a.png")}, "avatarUrl"},
		"backslash -> invalid":           {store.UserEdit{AvatarURL: optional(`/\evil.example/a.png`)}, "avatarUrl"},
		"tab between slashes -> invalid": {store.UserEdit{AvatarURL: optional("/\t/evil.example/a.png")}, "avatarUrl"},
		"relative path -> invalid":       {store.UserEdit{AvatarURL: optional("ada.png")}, "avatarUrl"},
		"no host -> invalid":             {store.UserEdit{AvatarURL: optional("https:///ada.png")}, "avatarUrl"},
		"port alone -> invalid":          {store.UserEdit{AvatarURL: optional("https://:443/ada.png")}, "avatarUrl"},
		"username in a URL -> invalid":   {store.UserEdit{AvatarURL: optional("https://a:b@c.example/ada.png")}, "avatarUrl"},
		"empty URL -> valid":             {store.UserEdit{AvatarURL: optional("")}, ""},
		"500 characters -> valid":        {store.UserEdit{AvatarURL: optional("/" + strings.Repeat("a", 499))}, ""},
		"501 characters -> invalid": {store.UserEdit{AvatarURL: optional("/" + strings.Repeat("a", 500))},
			"avatarUrl"},
		"biography of 500 -> valid":   {store.UserEdit{Bio: optional("a\n" + strings.Repeat("é", 498))}, ""},
		"biography of 500 with CR LF": {store.UserEdit{Bio: optional("a\r\n" + strings.Repeat("é", 498))}, ""},
		"biography of 501 -> invalid": {store.UserEdit{Bio: optional(strings.Repeat("é", 501))}, "bio"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.edit.Validate()
			if tt.field == "" && err != nil {
				t.Error(err)
			} else if tt.field != "" {
				storetest.WantCode(t, err, blog.Invalid, tt.field)
			}
		})
	}
}

// What is written after a change of the byline has it. Absent and empty texts remove it.
func TestUpdateUser_Profile(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	update := func(e store.UserEdit) {
		t.Helper()
		u, err := w.UpdateUser(t.Context(), ada.UserID, e)
		if err != nil {
			t.Fatal(err)
		}
		ada = u
	}
	for _, e := range []store.UserEdit{
		{DisplayName: optional(" Ada King "), Bio: optional("first")}, {AvatarURL: optional("/avatars/ada.svg")},
		{Username: new(" countess")}, {Bio: optional("one\r\ntwo\rthree\u0085")}, {DisplayName: optional("Ada King")},
	} {
		update(e)
	}
	want := blog.Byline{UserID: ada.UserID, Username: "countess", DisplayName: "Ada King",
		AvatarURL: "/avatars/ada.svg"}
	p := w.AddPost(ada, "one")
	c := w.AddComment(ada, p, "first")
	if ada.Bio != "one\ntwo\nthree\n" || ada.Byline != want || p.Byline != want || c.Byline != want {
		t.Errorf("got %+v, %+v, %+v", ada, p.Byline, c.Byline)
	}
	update(store.UserEdit{DisplayName: optional(""), AvatarURL: optional(" "), Bio: optional("\r\n")})
	want.DisplayName, want.AvatarURL = "", ""
	if ada.Bio != "" || ada.Byline != want || ada.Shown() != "countess" {
		t.Errorf("got %+v", ada)
	}
}

// The username has a quota, the display name and the avatar have another, and the biography has none. What changes
// nothing is free.
func TestUpdateUser_Quotas(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	update := func(e store.UserEdit) error {
		_, err := w.UpdateUser(t.Context(), ada.UserID, e)
		return err
	}
	refused := func(err error, field, until, message string) {
		t.Helper()
		storetest.WantCode(t, err, blog.LimitReached, field)
		var e *blog.Error
		if !errors.As(err, &e) || e.Reason != blog.ReasonLimit || e.Until.Time().Format("15:04") != until ||
			e.RetryAfter != 0 || !strings.HasPrefix(e.Message, message) {
			t.Errorf("%+v, want until %s, and %q", e, until, message)
		}
	}
	w.Clock.Millis.Store((9 * time.Hour).Milliseconds())
	for i := range 20 {
		e := store.UserEdit{DisplayName: optional(fmt.Sprint("Ada ", i))}
		if i%2 > 0 {
			e = store.UserEdit{AvatarURL: optional(fmt.Sprint("/", i))}
		}
		for range 2 {
			if err := update(e); err != nil {
				t.Fatal(err)
			}
		}
		w.Clock.Millis.Add(time.Minute.Milliseconds())
	}
	const pictures = "can be changed 20 times in 24 hours, and again at "
	refused(update(store.UserEdit{DisplayName: optional("Ada")}), "displayName", "09:00", pictures)
	refused(update(store.UserEdit{AvatarURL: optional("")}), "avatarUrl", "09:00", pictures)
	for i, name := range []string{"Ada", "ADA", "countess"} {
		if err := update(store.UserEdit{Username: new(name), DisplayName: optional("Ada 18"),
			Bio: optional(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	refused(update(store.UserEdit{Username: new("lovelace")}), "username", "09:20",
		"can be changed 3 times in 24 hours, and again at 09:21 on 2 March 2026 (UTC)")
	if err := update(store.UserEdit{Username: new("countess"), Bio: optional("more")}); err != nil {
		t.Error(err)
	}
	w.Clock.Millis.Store((33*time.Hour + time.Second).Milliseconds())
	if err := update(store.UserEdit{DisplayName: optional("Ada")}); err != nil {
		t.Error(err)
	}
	refused(update(store.UserEdit{AvatarURL: optional("")}), "avatarUrl", "09:01", pictures)
}

// If the response to the write of the user is lost, a read decides whether the change was made.
func TestUpdateUser_LostResponse(t *testing.T) {
	for name, later := range map[string]int64{"changed": 0, "changed again by another request": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada := w.AddUser("ada")
			w.Wire.After(func(r *http.Response) {
				if r.Request.Method != http.MethodPatch || !strings.HasSuffix(r.Request.URL.Path, "/docs/"+ada.UserID) {
					return
				}
				w.Wire.After(nil)
				w.Corrupt("users", ada.UserID, ada.UserID, "/revision", ada.Revision+1+later)
				r.StatusCode, r.Body = http.StatusServiceUnavailable, http.NoBody
			})
			u, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Bio: optional("Weaves.")})
			if later > 0 {
				storetest.WantCode(t, err, blog.Unavailable, "")
			} else if err != nil || u.Bio != "Weaves." || u.Revision != ada.Revision+1 {
				t.Errorf("got %+v, %v", u, err)
			}
		})
	}
}

// If the write of the user fails, and another request has changed the user, the change was not made.
func TestUpdateUser_ChangedByAnotherRequest(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/docs/"+ada.UserID) {
			return nil
		}
		w.Wire.Intercept(nil)
		w.Corrupt("users", ada.UserID, ada.UserID, "/revision", ada.Revision+1)
		return errors.New("connection reset")
	})
	_, err := w.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Bio: optional("Weaves.")})
	storetest.WantCode(t, err, blog.Unavailable, "")
}

// If another user takes the new name while the user is changed, the user is as before, and the attempt does not count.
func TestUpdateUser_Reverted(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	edit := store.UserEdit{Username: new("countess"), DisplayName: optional("Ada King"), Bio: optional("first")}
	if _, err := w.UpdateUser(t.Context(), ada.UserID, edit); err != nil {
		t.Fatal(err)
	}
	before := readUserItem(t, w, ada.UserID)
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/docs/"+ada.UserID) {
			w.Wire.Intercept(nil)
			w.Corrupt("users", "username:wanted", "username:wanted", "/ownerId", blog.UserID("test", "bob"))
		}
		return nil
	})
	edit = store.UserEdit{Username: new("wanted"), DisplayName: optional("Ada"), Bio: optional("second")}
	_, err := w.UpdateUser(t.Context(), ada.UserID, edit)
	storetest.WantCode(t, err, blog.Conflict, "username")
	want := *before
	want.Revision += 2
	if diff := cmp.Diff(&want, readUserItem(t, w, ada.UserID)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func readUserItem(t *testing.T, w *world, id string) *blog.UserItem {
	t.Helper()
	users, err := w.Account.Container(w.Database, blog.UsersContainer)
	if err != nil {
		t.Fatal(err)
	}
	u, err := stored.ReadUserItem(t.Context(), "test", users, id)
	if u == nil || err != nil {
		t.Fatal(u, err)
	}
	return u
}
