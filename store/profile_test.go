package store_test

import (
	"strings"
	"testing"
	"time"

	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func optional(text string) store.Optional { return store.Optional{Set: true, Value: &text} }

func TestUserEdit_Validate(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  store.UserEdit
		field string
	}{
		"nothing -> valid":       {store.UserEdit{}, ""},
		"60 characters -> valid": {store.UserEdit{DisplayName: optional(strings.Repeat("é", 60))}, ""},
		"61 characters -> invalid": {store.UserEdit{DisplayName: optional(strings.Repeat("é", 61))},
			"displayName"},
		"empty name -> invalid":        {store.UserEdit{DisplayName: optional("")}, "displayName"},
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
		"empty URL -> invalid":           {store.UserEdit{AvatarURL: optional("")}, "avatarUrl"},
		"500 characters -> valid":        {store.UserEdit{AvatarURL: optional("/" + strings.Repeat("a", 499))}, ""},
		"501 characters -> invalid": {store.UserEdit{AvatarURL: optional("/" + strings.Repeat("a", 500))},
			"avatarUrl"},
		"biography of 500 -> valid":   {store.UserEdit{Bio: optional("a\n" + strings.Repeat("é", 498))}, ""},
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

// Changes of the byline count for the cooldown, and those of the biography do not. What is written later has the
// byline.
func TestUpdateUser_Profile(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	update := func(e store.UserEdit) error {
		u, err := w.UpdateUser(t.Context(), ada.UserID, e)
		if err == nil {
			ada = u
		}
		return err
	}
	for _, e := range []store.UserEdit{
		{DisplayName: optional("Ada King"), Bio: optional("first")}, {AvatarURL: optional("/avatars/ada.svg")},
		{Username: new("countess")}, {Bio: optional("second")}, {DisplayName: optional("Ada King")},
	} {
		if err := update(e); err != nil {
			t.Fatal(err)
		}
	}
	storetest.WantCode(t, update(store.UserEdit{DisplayName: optional("Ada")}), blog.Throttled, "")
	want := blog.Byline{UserID: ada.UserID, Username: "countess", DisplayName: "Ada King",
		AvatarURL: "/avatars/ada.svg"}
	p := w.AddPost(ada, "one")
	c := w.AddComment(ada, p, "first")
	if ada.Bio != "second" || ada.Byline != want || p.Byline != want || c.Byline != want {
		t.Errorf("got %+v, %+v, %+v", ada, p.Byline, c.Byline)
	}
	w.Clock.Millis.Add((25 * time.Hour).Milliseconds())
	removed := store.Optional{Set: true}
	if err := update(store.UserEdit{DisplayName: removed, AvatarURL: removed, Bio: removed}); err != nil {
		t.Fatal(err)
	}
	want.DisplayName, want.AvatarURL = "", ""
	if ada.Bio != "" || ada.Byline != want || ada.Shown() != "countess" {
		t.Errorf("got %+v", ada)
	}
}
