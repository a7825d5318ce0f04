package globalid

import (
	"encoding/base64"
	"strings"
	"testing"
)

const (
	somePost  = "p6z7k2m9xw4t0hab"
	someUUID  = "019a0f3e-7a6f-7c11-9d0e-5f6b7c8d9e0f"
	someUser  = "6d1e9f0ab34c5d6e7f8091a2b3c4d5e6"
	someOther = "post-of-another_program"
)

func encoded(first byte, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(rune(first)) + strings.Join(parts, "")))
}

func TestParse_RoundTrip(t *testing.T) {
	for id, length := range map[ID]int{
		{Kind: User, Key: someUser}:                                                           23,
		{Kind: User, Key: someOther}:                                                          32,
		{Kind: Post, Key: somePost}:                                                           15,
		{Kind: Post, Key: "q" + somePost[1:]}:                                                 15,
		{Kind: Post, Key: "pzzzzzzzzzzzzzzz"}:                                                 15,
		{Kind: Post, Key: "q000000000000000"}:                                                 15,
		{Kind: Post, Key: someUUID}:                                                           23,
		{Kind: Post, Key: strings.ToUpper(someUser)}:                                          44,
		{Kind: Post, Key: strings.ReplaceAll(someUUID, "-", "")}:                              23,
		{Kind: Comment, Parent: somePost, Key: someUUID}:                                      36,
		{Kind: Comment, Parent: someOther, Key: someUUID}:                                     55,
		{Kind: Comment, Parent: someOther, Key: someOther}:                                    64,
		{Kind: Like, Parent: somePost, Key: someUser}:                                         36,
		{Kind: Like, Parent: strings.Repeat("a", maxPart), Key: strings.Repeat("b", maxPart)}: 344,
		{Kind: Tag, Key: "café-2"}:                                                            11,
		{Kind: Tag, Key: somePost}:                                                            15,
	} {
		got, err := Parse(id.String())
		if err != nil || got != id {
			t.Errorf("%+v: parsed as %+v, %v", id, got, err)
		}
		if len(id.String()) != length {
			t.Errorf("%+v: %d characters, want %d", id, len(id.String()), length)
		}
	}
}

func TestParse_InvalidIDs(t *testing.T) {
	const user, post, comment, tag = 0x00, 0x10, 0x20, 0x40 // with texts as parts
	valid := ID{Kind: Post, Key: somePost}.String()
	for name, text := range map[string]string{
		"empty":                     "",
		"plain text":                "Post/" + somePost,
		"key without encoding":      somePost,
		"padding":                   encoded(user, "a") + "==",
		"line ends":                 valid[:4] + "\n" + valid[4:],
		"standard base64":           base64.RawStdEncoding.EncodeToString([]byte("\x10\xff\xff\xff")),
		"trailing bits":             strings.TrimSuffix(encoded(user, "a"), "E") + "F",
		"unknown kind":              encoded(0x50, someOther),
		"no parts":                  encoded(post),
		"missing part":              encoded(comment, "\x03abc"),
		"parent longer than the id": encoded(comment, "\x7fabc"),
		"part too short":            encoded(post|1, "short"),
		"part too long":             encoded(post|1, "12345678901"),
		"parent too short":          encoded(comment|1<<2, "short"),
		"parent of a post":          encoded(post|1<<2, "abc"),
		"empty parent":              encoded(comment, "\x00abc"),
		"text of a short form":      encoded(post, somePost),
		"text of another form":      encoded(user, someUser),
		"id of an internal item":    encoded(user, "username:ada"),
		"space in a key":            encoded(post, "a b"),
		"quotes in a key":           encoded(post, "a' OR '1'='1"),
		"key too long":              encoded(post, strings.Repeat("a", maxPart+1)),
		"tag not normalized":        encoded(tag, "Go"),
		"no tag":                    encoded(tag, "a b"),
		"tag too long":              encoded(tag, strings.Repeat("a", 31)),
		"one megabyte":              strings.Repeat("A", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := Parse(text); err == nil {
				t.Errorf("parsed as %+v, want an error", id)
			}
		})
	}
}

// No id looks like an integer, which is the id of no object.
func TestID_NoInteger(t *testing.T) {
	for _, kind := range kinds {
		for _, part := range []string{somePost, someUUID, someUser, someOther} {
			if first := (ID{Kind: kind, Parent: part, Key: part}).String()[0]; first < 'A' || first > 'z' {
				t.Errorf("the id of a %s begins with %q", kind, first)
			}
		}
	}
}

// Every id has exactly one valid text.
func FuzzParse(f *testing.F) {
	f.Add(ID{Kind: User, Key: "a"}.String())
	f.Add(ID{Kind: Like, Parent: somePost, Key: someUser}.String())
	f.Add(ID{Kind: Comment, Parent: someOther, Key: someUUID}.String())
	f.Add(ID{Kind: Tag, Key: "日本"}.String())
	f.Add("AGE\n")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := Parse(text)
		if err == nil && id.String() != text {
			t.Errorf("%q and %q are the same id", text, id.String())
		}
	})
}
