package graph

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/google/go-cmp/cmp"
)

// Every text of the schema takes every writing system: it is created, shown, cut, tagged, and found by its slug.
func TestWritingSystems(t *testing.T) {
	b := smallBlog(t, Options{})
	for i, c := range []struct{ script, text, tag, key, slug string }{
		{"Arabic", "السلام عليكم ورحمة الله", "كتب ورحلات", "كتب-ورحلات", "السلام-عليكم-ورحمة-الله-p"},
		{"Persian with joiners", "می\u200cخواهم نرم\u200cافزار بنویسم", "نرم\u200cافزار", "نرم\u200cافزار", "می-خواهم-نرم-افزار-بنویسم-p"},
		{"Hebrew", "שָׁלוֹם עולם", "סִפְרוּת", "סִפְרוּת", "שָׁלוֹם-עולם-p"},
		{"Hindi", "नमस्ते दुनिया, क्\u200dया हाल है", "हिन्दी", "हिन्दी", "नमस्ते-दुनिया-क्या-हाल-है-p"},
		{"Thai", "สวัสดีชาวโลกที่น้ำใจงาม", "ท่องเที่ยว", "ท่องเที่ยว", "สวัสดีชาวโลกที่น้ำใจงาม-p"},
		{"Japanese", "こんにちは世界、ガギグ", "プログラミング", "プログラミング", "こんにちは世界-ガギグ-p"},
		{"Korean", "안녕하세요 세계 여러분", "한국어", "한국어", "안녕하세요-세계-여러분-p"},
		{"Emoji with joiners", "👩\u200d👩\u200d👧\u200d👦🏳️\u200d🌈👍🏽🇩🇪 x", "emoji", "emoji", "x-p"},
	} {
		t.Run(c.script, func(t *testing.T) {
			token := "demo:writer" + string(rune('a'+i))
			do := func(query string, variables map[string]any, into any) {
				t.Helper()
				a := post(t, b, token, query, variables)
				if a.code() != "" {
					t.Fatalf("%s: %s", query, a.body)
				}
				if err := json.Unmarshal(a.Data, into); err != nil {
					t.Fatal(err)
				}
			}
			body := strings.Repeat(strings.ReplaceAll(c.text, " ", ""), 40) // no space to cut at
			content := "# " + c.text + "\n\n" + body + "\n"
			var ignored any
			do(`mutation($n: String!, $k: String!) {
				createUser(input: {username: $n, idempotencyKey: $k}) { user { id } } }`, map[string]any{"n": "writer" + string(rune('a'+i)), "k": c.text}, &ignored)
			do(`mutation($t: String!) { updateUser(input: {displayName: $t, bio: $t}) { user { id } } }`,
				map[string]any{"t": c.text}, &ignored)

			type shown struct {
				ID, Title, Content, Excerpt, ContentHTML, Slug string
				Tags                                           []string
				Author                                         struct{ DisplayName, Bio string }
				Comments                                       struct {
					Edges []struct {
						Node struct{ Content, ContentHTML string }
					}
				}
			}
			const fields = `id title content excerpt contentHtml slug tags author { displayName bio }`
			const comments = ` comments { edges { node { content contentHtml } } }`
			var created struct{ CreatePost struct{ Post shown } }
			do(`mutation($t: String!, $c: String!, $tag: String!) { createPost(input:
				{title: $t, content: $c, tags: [$tag], idempotencyKey: $t}) { post { `+fields+` } } }`,
				map[string]any{"t": c.text, "c": content, "tag": c.tag}, &created)
			id, slug := created.CreatePost.Post.ID, created.CreatePost.Post.Slug
			if !strings.HasPrefix(slug, c.slug) {
				t.Errorf("slug %s", slug)
			}
			do(`mutation($id: ID!, $t: String!) { createComment(input: {postId: $id, content: $t, idempotencyKey: $t})
				{ comment { id } } }`, map[string]any{"id": id, "t": c.text}, &ignored)
			b.settle(t)

			check := func(where string, p shown) {
				t.Helper()
				if !strings.HasPrefix(body, p.Excerpt) || utf8.RuneCountInString(p.Excerpt) > 280 ||
					utf8.RuneCountInString(p.Excerpt) < 250 || !slices.Contains(boundaries(body), len(p.Excerpt)) {
					t.Errorf("%s: the excerpt is %q", where, p.Excerpt)
				}
				if !strings.Contains(p.ContentHTML, ">"+c.text+"</h2>\n<p>"+body+"</p>") {
					t.Errorf("%s: %s", where, p.ContentHTML)
				}
				want := shown{ID: id, Title: c.text, Content: content, Slug: slug, Tags: []string{c.tag},
					Excerpt: p.Excerpt, ContentHTML: p.ContentHTML, Author: p.Author, Comments: p.Comments}
				want.Author.DisplayName, want.Author.Bio = c.text, c.text
				if d := cmp.Diff(want, p); d != "" {
					t.Errorf("%s: %s", where, d)
				}
				for _, e := range p.Comments.Edges {
					if e.Node.Content != c.text || !strings.Contains(e.Node.ContentHTML, c.text) {
						t.Errorf("%s: comment %+v", where, e.Node)
					}
				}
			}
			var found struct {
				PostBySlug shown
				Tag        struct {
					Name  string
					Posts struct{ Edges []struct{ Node shown } }
				}
				Viewer struct {
					Posts struct{ Edges []struct{ Node shown } }
				}
				Feed struct{ Edges []struct{ Node shown } }
			}
			do(`query($slug: String!, $tag: String!) {
				postBySlug(slug: $slug) { `+fields+comments+` }
				tag(name: $tag) { name posts(first: 2) { edges { node { `+fields+` } } } }
				viewer { posts(first: 2) { edges { node { `+fields+` } } } }
				feed(first: 1) { edges { node { `+fields+` } } }
			}`, map[string]any{"slug": slug, "tag": c.tag}, &found)
			check("the new post", created.CreatePost.Post)
			check("by slug", found.PostBySlug)
			if len(found.PostBySlug.Comments.Edges) != 1 {
				t.Errorf("%d comments", len(found.PostBySlug.Comments.Edges))
			}
			if found.Tag.Name != c.key || len(found.Tag.Posts.Edges) != 1 || len(found.Viewer.Posts.Edges) != 1 {
				t.Fatalf("tag %s of %d posts, %d by the user", found.Tag.Name, len(found.Tag.Posts.Edges),
					len(found.Viewer.Posts.Edges))
			}
			check("by tag", found.Tag.Posts.Edges[0].Node)
			check("of the user", found.Viewer.Posts.Edges[0].Node)
			check("in the feed", found.Feed.Edges[0].Node)
		})
	}
}

// boundaries returns where the grapheme clusters of a text end.
func boundaries(text string) (ends []int) {
	for clusters := graphemes.FromString(text); clusters.Next(); {
		ends = append(ends, clusters.End())
	}
	return ends
}
