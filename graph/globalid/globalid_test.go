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

func TestParseReadsWhatStringMade(t *testing.T) {
	for _, id := range []ID{
		{Kind: User, Key: someOther},
		{Kind: Post, Key: someKey},
		{Kind: Comment, Parent: someKey, Key: someOther},
		{Kind: Like, Parent: someKey, Key: someOther},
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

func TestParseRefuses(t *testing.T) {
	good := ID{Kind: Post, Key: someKey}.String()
	for name, text := range map[string]string{
		"nothing":                 "",
		"plain text":              "Post/" + someKey,
		"a bare key":              someKey,
		"padding":                 encoded("User/a") + "==",
		"line ends":               good[:4] + "\n" + good[4:],
		"standard base64":         base64.RawStdEncoding.EncodeToString([]byte("Post/\xff\xff")),
		"stray bits at the end":   strings.TrimSuffix(encoded("User/a1"), "Q") + "R",
		"an unknown kind":         encoded("Blog/" + someKey),
		"another case":            encoded("post/" + someKey),
		"a part too few":          encoded("Comment/" + someKey),
		"a part too many":         encoded("Post/" + someKey + "/" + someOther),
		"an empty part":           encoded("Post/"),
		"an empty parent":         encoded("Comment//" + someKey),
		"an internal item":        encoded("User/username:ada"),
		"characters of no id":     encoded("Post/a b"),
		"a quote":                 encoded("Post/a' OR '1'='1"),
		"a part that is too long": encoded("Post/" + strings.Repeat("a", maxPart+1)),
		"a megabyte":              strings.Repeat("A", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := Parse(text); err == nil {
				t.Errorf("read as %+v", id)
			}
		})
	}
}

// Whatever is accepted has one text only.
func FuzzParse(f *testing.F) {
	f.Add(ID{Kind: User, Key: "a"}.String())
	f.Add(ID{Kind: Like, Parent: someKey, Key: someOther}.String())
	f.Add("VXNlci9h\n")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err == nil && id.String() != text {
			t.Errorf("%q is also %q", text, id.String())
		}
	})
}
