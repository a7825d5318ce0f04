package graph

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"byline/internal/testkit"
	"byline/store/blog"
)

// longest is the longest text of a post: 391 KB.
var longest = strings.Repeat("𝄞", 100_000)

// contents are texts of posts, by their length.
var contents = []struct{ name, text string }{
	{"1 KB", strings.Repeat("x", 1<<10)}, {"the longest on a post", strings.Repeat("x", blog.InlineText)},
	{"100 KB", strings.Repeat("x", 100_000)}, {"391 KB", longest},
}

func TestLike_CostsTheSameAtAnyLength(t *testing.T) {
	checkSameCost(t,
		`mutation { likePost(input: {postId: "<post:p>"}) { like { id post { title } } post { likeCount excerpt } } }`)
}

func TestComment_CostsTheSameAtAnyLength(t *testing.T) {
	checkSameCost(t,
		`mutation { createComment(input: {postId: "<post:p>", content: "`+strings.Repeat("comment ", 25)+
			`"}) { comment { id post { title } } post { commentCount } } }`)
}

func TestUnlike_CostsTheSameAtAnyLength(t *testing.T) {
	checkSameCost(t, `mutation { unlikePost(input: {postId: "<post:p>"}) { post { likeCount } } }`)
}

// checkSameCost checks that the charges of a mutation on posts of all lengths are within a fifth of its prediction, and
// within 30% of each other.
func checkSameCost(t *testing.T, query string) {
	t.Helper()
	least, most := math.Inf(1), 0.0
	for _, c := range contents {
		b := newBlog(t, Options{})
		b.user(t, "ada")
		id := b.post(t, "ada", "p", c.text)
		if strings.Contains(query, "unlikePost") {
			b.like(t, "ada", id)
		}
		filled := b.fill(query)
		b.wire.reset()
		if a := post(t, b, "demo:ada", filled, nil); a.code() != "" {
			t.Fatal(a.body)
		}
		charged, want := b.wire.charged(), predicted(t, readSchema(t), filled, nil, true).RU
		t.Logf("%s: charged %.2f RU, predicted %.2f: %v", c.name, charged, want, b.wire.seen())
		if math.Abs(charged-want) > want/5 {
			t.Errorf("%s: charged %.2f RU, predicted %.2f", c.name, charged, want)
		}
		least, most = min(least, charged), max(most, charged)
	}
	if most > 1.3*least {
		t.Errorf("charges differ from %.2f to %.2f RU", least, most)
	}
}

// The predicted cost of C2 depends on the length of the text.
func TestPredictedCost_LongText(t *testing.T) {
	testkit.Heavy(t)
	for _, c := range append(contents, struct{ name, text string }{"3 KB", strings.Repeat("x", 3000)}) {
		t.Run(c.name, func(t *testing.T) {
			b := newBlog(t, Options{})
			b.user(t, "ada")
			b.post(t, "ada", "p", "short")
			for _, query := range []string{
				`mutation($content: String!) { createPost(input: {title: "t", content: $content}) { post { title content } } }`,
				b.fill(`mutation($content: String!) { updatePost(input: {id: "<post:p>", title: "t", content: $content}) { post { title content } } }`),
			} {
				variables := map[string]any{"content": c.text}
				b.wire.reset()
				a := post(t, b, "demo:ada", query, variables)
				if a.code() != "" || !strings.Contains(a.body, c.text) {
					t.Fatalf("%.300s", a.body)
				}
				charged, want := b.wire.charged(), predicted(t, readSchema(t), query, variables, true).RU
				t.Logf("charged %.2f RU, predicted %.2f", charged, want)
				if math.Abs(charged-want) > charged/5 {
					t.Errorf("%.30s: charged %.2f RU, predicted %.2f", query, charged, want)
				}
			}
		})
	}
}

// The text of a long post is in every response that selects it, and is read for no other.
func TestContent_LongText(t *testing.T) {
	b := newBlog(t, Options{})
	b.user(t, "ada")
	text := strings.Repeat("long ", 2000)
	id := b.post(t, "ada", "p", text)
	b.comment(t, "ada", id, "c")
	for query, reads := range map[string]int{
		`{ post(id: "<post:p>") { title content } }`:                                                                  2,
		`{ feed { edges { node { title excerpt } } } }`:                                                               0,
		`mutation { likePost(input: {postId: "<post:p>"}) { like { post { title } } post { likeCount } } }`:           0,
		`mutation { likePost(input: {postId: "<post:p>"}) { like { post { content } } post { content } } }`:           2,
		`mutation { updatePost(input: {id: "<post:p>", title: "t"}) { post { title } } }`:                             1,
		`mutation { updatePost(input: {id: "<post:p>", title: "u"}) { post { content } } }`:                           3,
		`{ node(id: "<comment:c>") { ... on Comment { post { content } } } }`:                                         3,
		`{ feed { edges { node { content } } } }`:                                                                     2,
		`mutation { createComment(input: {postId: "<post:p>", content: "x"}) { comment { post { commentCount } } } }`: 0,
	} {
		filled := b.fill(query)
		b.wire.reset()
		a := post(t, b, "demo:ada", filled, nil)
		if a.code() != "" ||
			strings.Contains(filled, "{ content }") != strings.Contains(a.body, text) &&
				!strings.Contains(filled, "title content") {
			t.Fatalf("%s: %.300s", filled, a.body)
		}
		n := 0
		for _, what := range b.wire.seen() {
			if what == "read posts" {
				n++
			}
		}
		if n != reads {
			t.Errorf("%s: %v", query, b.wire.seen())
		}
	}
}

// Events of a long post have its whole text, which is read only if a subscription selects it.
func TestSubscription_LongText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := liveInBubble(t, Options{})
		text := strings.Repeat("long ", 2000)
		id := b.post(t, "ada", "long", text)
		query := b.fill(`subscription { postChanged(id: "<post:long>") { likeCount content } }`)
		whole := openEvents(t, server, "POST", mediaEvents, "", query)
		bare := openEvents(t, server, "POST", mediaEvents, "", strings.Replace(query, " content", "", 1))
		synctest.Wait()
		var texts atomic.Int32
		b.wire.setFail(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/docs/"+blog.TextID) {
				texts.Add(1)
			}
			return nil, nil
		})
		b.like(t, "ada", id)
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := whole.next(); !strings.Contains(got, `"likeCount":1,"content":`+string(want)) {
			t.Errorf("%.300s", got)
		}
		if got := bare.next(); !strings.Contains(got, `"likeCount":1}`) {
			t.Errorf("%.300s", got)
		}
		if n := texts.Load(); n != 1 {
			t.Errorf("the text was read %d times, want once", n)
		}
	})
}
