package blog

import (
	"strings"
	"testing"
)

func TestSlug(t *testing.T) {
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, c := range []struct{ title, want string }{
		{"Hello, World!", "hello-world-"},
		{"Über Größe", "über-größe-"},
		{"U\u0308ber", "über-"},
		{"Привет, мир!", "привет-мир-"},
		{"你好", "你好-"},
		{"مقال جديد", "مقال-جديد-"},
		{"نرم\u200cافزار", "نرم-افزار-"},
		{"हिन्दी लेख", "हिन्दी-लेख-"},
		{"क्\u200dष", "क्ष-"},
		{"ภาษาไทย", "ภาษาไทย-"},
		{"한국어 글", "한국어-글-"},
		{"שלום עולם", "שלום-עולם-"},
		{"It's l’été", "its-lété-"},
		{"C++ & Go", "c-go-"},
		{"a_b", "a-b-"},
		{"❤\ufe0f family 👨\u200d👩\u200d👧", "family-"},
		{strings.Repeat("語", 200), strings.Repeat("語", 80) + "-"},
		{"🎉", ""},
		{"--", ""},
		{strings.Repeat("word ", 40), strings.Repeat("word-", 16)},
		{strings.Repeat("x", 200), strings.Repeat("x", 80) + "-"},
		{strings.Repeat("x", 80) + " y", strings.Repeat("x", 80) + "-"},
		{"<script>alert('1')</script>", "script-alert-1-script-"},
	} {
		have := (&Post{ID: id, Title: c.title}).Slug()
		if want := c.want + slugID(id); have != want {
			t.Errorf("%s: have %s, want %s", c.title, have, want)
		}
		if PostIDOfSlug(have) != id {
			t.Errorf("%s finds %s", have, PostIDOfSlug(have))
		}
	}
}

// TestSlug_IDs has the golden forms: links that exist must find their posts in all later versions.
func TestSlug_IDs(t *testing.T) {
	for id, want := range map[string]string{
		"01890a5d-ac96-774b-bcce-b302099a8057": "a39srkj01e44uynszf2f2njh3",
		"00000000-0000-0000-0000-000000000000": "a0",
		"ffffffff-ffff-8fff-bfff-ffffffffffff": "af5lxx1zz5n9k5j1e1vnsjp6gv",
		"p7zk3m0q9x4v2b1d":                     "p7zk3m0q9x4v2b1d",
		"q7zk3m0q9x4v2b1d":                     "q7zk3m0q9x4v2b1d",
		"p7zk3m0q9x4v2b1l":                     "c70377a6b336d3071397834763262316c", // "l" is not in the alphabet
		"post-1":                               "c706f73742d31",
		"01890A5D-AC96-774B-BCCE-B302099A8057": "c30313839304135442d414339362d373734422d424343452d423330323039394138303537",
	} {
		if have := slugID(id); have != want {
			t.Errorf("%s: have %s, want %s", id, have, want)
		}
		if have := PostIDOfSlug("any-title-" + want); have != id {
			t.Errorf("%s finds %q, want %s", want, have, id)
		}
	}
	for _, text := range []string{"", "-", "a", "b", "c", "d1", "a-1", "a+1", "a00", "aA",
		"azzzzzzzzzzzzzzzzzzzzzzzzz", "c2f", "c3", "c6A", "c" + strings.Repeat("61", 65), strings.Repeat("a", 1000)} {
		if id := PostIDOfSlug(text); id != "" {
			t.Errorf("%q finds %s", text, id)
		}
	}
}
