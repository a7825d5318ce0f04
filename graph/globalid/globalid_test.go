package globalid

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	someKey   = "019a0f3e-7a6f-7c11-9d0e-5f6b7c8d9e0f"
	someOther = "6d1e9f0ab34c5d6e7f8091a2b3c4d5e6"
)

func encoded(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func TestParse_RoundTrip(t *testing.T) {
	for _, id := range []ID{
		{Kind: User, Key: someOther},
		{Kind: Post, Key: someKey},
		{Kind: Comment, Parent: someKey, Key: someOther},
		{Kind: Like, Parent: someKey, Key: someOther},
		{Kind: Tag, Key: "café-2"},
	} {
		t.Run(string(id.Kind), func(t *testing.T) {
			got, err := Parse(id.String())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(id, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse_InvalidIDs(t *testing.T) {
	valid := ID{Kind: Post, Key: someKey}.String()
	for name, text := range map[string]string{
		"empty":                  "",
		"plain text":             "Post/" + someKey,
		"key without encoding":   someKey,
		"padding":                encoded("User/a") + "==",
		"line ends":              valid[:4] + "\n" + valid[4:],
		"standard base64":        base64.RawStdEncoding.EncodeToString([]byte("Post/\xff\xff")),
		"trailing bits":          strings.TrimSuffix(encoded("User/a1"), "Q") + "R",
		"unknown kind":           encoded("Blog/" + someKey),
		"lower-case kind":        encoded("post/" + someKey),
		"missing part":           encoded("Comment/" + someKey),
		"extra part":             encoded("Post/" + someKey + "/" + someOther),
		"empty part":             encoded("Post/"),
		"empty parent":           encoded("Comment//" + someKey),
		"id of an internal item": encoded("User/username:ada"),
		"space in a key":         encoded("Post/a b"),
		"quotes in a key":        encoded("Post/a' OR '1'='1"),
		"key too long":           encoded("Post/" + strings.Repeat("a", maxPart+1)),
		"tag not normalized":     encoded("Tag/Go"),
		"no tag":                 encoded("Tag/a b"),
		"tag too long":           encoded("Tag/" + strings.Repeat("a", 31)),
		"one megabyte":           strings.Repeat("A", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := Parse(text); err == nil {
				t.Errorf("parsed as %+v, want an error", id)
			}
		})
	}
}

// Every id has exactly one valid text.
func FuzzParse(f *testing.F) {
	f.Add(ID{Kind: User, Key: "a"}.String())
	f.Add(ID{Kind: Like, Parent: someKey, Key: someOther}.String())
	f.Add(ID{Kind: Tag, Key: "日本"}.String())
	f.Add("VXNlci9h\n")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err == nil && id.String() != text {
			t.Errorf("%q and %q are the same id", text, id.String())
		}
	})
}
