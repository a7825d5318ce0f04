package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

// Posts keep the spelling of their tags, and are found in any other.
func TestTags_Spellings(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Start()
	for spelling, others := range map[string][]string{
		"d_123":              {"D-123", "d 123"},
		"node.js":            {"Node.JS"},
		"c++":                {"C++", "ｃ＋＋"},
		"c#":                 {"C#"},
		"c":                  {"C"},
		"Web Dev":            {"web-dev", " WEB\u00a0 dev", "web_dev"},
		"نرم\u200cافزار":     {"نرم\u200cافزار"},
		"क्\u200dष":          {"क्\u200dष"},
		"col·lecció":         {"COL·LECCIÓ", "colŀlecció"[:3] + "·leccio\u0301"},
		"l’été":              {"l'été"},
		"Gro\u0308\u00dfe":   {"GRÖSSE"},
		".NET":               {".net"},
		"ジョン・レノン":            {"ジョン・レノン"},
		"Ⅷ":                  {"viii"},
		"GraphQL \U00020000": {"graphql_\U00020000"},
	} {
		p, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c",
			Tags: append([]string{spelling}, others...)})
		if err != nil || len(p.Tags) != 1 {
			t.Fatalf("%q: %+v, %v", spelling, p, err)
		}
		read, err := w.Post(t.Context(), p.ID)
		if err != nil || !slices.Equal(read.Tags, p.Tags) || strings.Trim(p.Tags[0], spelling+"ö") != "" {
			t.Errorf("%q: stored as %q, %v", spelling, read.Tags, err)
		}
		for _, other := range append(others, spelling) {
			testkit.Until(t, func() error {
				tag, err := w.Tag(t.Context(), other)
				if err != nil || tag == nil {
					t.Fatalf("%q: %v, %v", other, tag, err)
				}
				page, err := w.TagPosts(t.Context(), tag, store.Paging{First: 10})
				if err == nil && (len(page.Items) != 1 || page.Items[0].ID != p.ID) {
					err = errors.New(other + " does not find the post")
				}
				return err
			})
		}
	}
	w.noDifferences(t)
}

// A refused tag is named with its sign, beside the others that are refused.
func TestTags_Refused(t *testing.T) {
	n := store.NewPost{Title: "t", Content: "c", Tags: []string{"go", "a/b", "web\u200bdev", "go"}}
	var got []string
	for _, err := range n.Validate().(interface{ Unwrap() []error }).Unwrap() {
		for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
			var e *blog.Error
			if errors.As(err, &e) {
				got = append(got, e.Field+": "+e.Message)
			}
		}
	}
	want := []string{`tags[1]: "a/b" must not contain '/' (U+002F)`,
		`tags[2]: "web\u200bdev" must not contain the invisible character U+200B`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
