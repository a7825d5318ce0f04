package username_test

import (
	"strings"
	"testing"

	"byline/store/blog"
	"byline/store/username"
)

func TestCheck(t *testing.T) {
	for name, ok := range map[string]bool{
		"ada": true, "Ada_Lovelace-1815": true, "___": true, strings.Repeat("a", 30): true,
		"": false, "ad": false, strings.Repeat("a", 31): false, "ada lovelace": false, "ada\n": false, "ädä": false,
		"ada.l": false, "ada/": false, "アダ": false,
	} {
		if err := username.Check("test", name); (err == nil) != ok || err != nil && blog.CodeOf(err) != blog.Invalid {
			t.Errorf("%q: %v, want allowed: %t", name, err, ok)
		}
	}
}

func TestReserved(t *testing.T) {
	reserved := username.NewReserved([]string{"Ours-1"})
	for name, ok := range map[string]bool{
		"ada": true, "admins": true, "adm": true,
		"admin": false, "Admin_": false, "a-d-m-i-n": false, "NULL": false, "ours1": false, "OURS_1": false,
		"---": false, "_-_": false,
	} {
		if err := reserved.Check("test", name); (err == nil) != ok || err != nil && blog.CodeOf(err) != blog.Invalid {
			t.Errorf("%q: %v, want allowed: %t", name, err, ok)
		}
	}
	if err := username.NewReserved(nil).Check("test", "ours1"); err != nil {
		t.Errorf("a name that only another blog reserves: %v", err)
	}
}

func TestAvatarPath(t *testing.T) {
	if got := username.AvatarPath("Ada"); got != "/avatars/Ada.svg" {
		t.Errorf("got %s", got)
	}
}
