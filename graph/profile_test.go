package graph

import (
	"strings"
	"testing"
)

// The fields of the byline are answered from the post at hand, with and without plans; the biography is read. null
// removes what the user has set, and what is absent stays.
func TestUpdateUser_Profile(t *testing.T) {
	b := smallBlog(t, Options{})
	const query = `{ post(id: "NOTES") { author { username displayName avatarUrl } } viewer { displayName avatarUrl bio } }`
	read := strings.Replace(query, "NOTES", b.names["post:notes"], 1)
	withBio := strings.Replace(read, "avatarUrl } }", "avatarUrl bio } }", 1)
	update := func(input, want string) {
		t.Helper()
		out := post(t, b, "demo:ada",
			`mutation { updateUser(input: {`+input+`}) { user { username displayName avatarUrl bio } } }`, nil)
		if body := string(out.Data); !strings.Contains(body, want) {
			t.Errorf("%s: got %s, want %s", input, out.body, want)
		}
	}
	update(`displayName: "Ada King", avatarUrl: "/avatars/ada.svg", bio: "engines"`,
		`{"username":"ada","displayName":"Ada King","avatarUrl":"/avatars/ada.svg","bio":"engines"}`)
	for name, h := range handlers(t, b) {
		for query, want := range map[string]string{
			read:    `"displayName":"Ada King","avatarUrl":"/avatars/ada.svg"`,
			withBio: `"displayName":"Ada King","avatarUrl":"/avatars/ada.svg","bio":"engines"`,
		} {
			if out := postInSession(t, h, "demo:ada", "", query); !strings.Contains(out.body, want) ||
				strings.Contains(out.body, "errors") {
				t.Errorf("%s: %s", name, out.body)
			}
		}
	}
	update(`avatarUrl: null`, `{"username":"ada","displayName":"Ada King","avatarUrl":null,"bio":"engines"}`)
	update(`displayName: null, bio: null`, `{"username":"ada","displayName":"ada","avatarUrl":null,"bio":null}`)
	for name, h := range handlers(t, b) {
		if out := postInSession(t, h, "demo:ada", "", withBio); !strings.Contains(out.body,
			`"displayName":"ada","avatarUrl":null,"bio":null`) {
			t.Errorf("%s: %s", name, out.body)
		}
	}
	for _, input := range []string{`displayName: "a\u2028b"`, `avatarUrl: "//evil.example/a.png"`, `bio: "\u0007"`} {
		out := post(t, b, "demo:ada", `mutation { updateUser(input: {`+input+`}) { user { id } } }`, nil)
		if !strings.Contains(out.body, "BAD_USER_INPUT") {
			t.Errorf("%s: %s", input, out.body)
		}
	}
}
