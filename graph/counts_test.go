package graph

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"byline/internal/enginetest"
	"byline/internal/testkit"
)

// While the views lag, lists show the counts that were written through their instance and, in the session of the
// writer, those that were written through another. Cached responses are neither stale nor of one viewer, and the lists
// are not read again.
func TestCounts_InLists(t *testing.T) {
	b := smallBlog(t, Options{})
	b.settle(t)
	views := &enginetest.HeldViews{}
	one := newInstanceOn(t, b, views.Transport(b.wire.engine), "one", 5*time.Millisecond)
	two := newInstanceOn(t, b, views.Transport(b.wire.engine), "two", 5*time.Millisecond)
	const fields = `edges { node { title commentCount likeCount } }`
	lists := map[string]string{
		"feed, by plan":            `{ feed { ` + fields + ` } }`,
		"feed, by executor":        `query { feed @include(if: true) { ` + fields + ` } }`,
		"posts of a user, by plan": b.fill(`{ user(id: "<user:ada>") { id posts { ` + fields + ` } } }`),
		"posts of a user, by executor": b.fill(`query { user(id: "<user:ada>") @include(if: true) { id posts { ` +
			fields + ` } } }`),
		"personal": `{ viewer { id } feed { edges { node { title commentCount likeCount viewerHasLiked } } } }`,
	}
	show := func(what string, i *instance, token, session, want string) {
		t.Helper()
		for name, query := range lists {
			for range 2 { // the second is served from the cache
				if got := b.counts(t, i, token, session, query); got != want {
					t.Errorf("%s: %s: got %s, want %s", what, name, got, want)
				}
			}
		}
	}
	shared := func(what string, i *instance) {
		t.Helper()
		for _, token := range []string{"", "demo:ada", "demo:grace"} {
			if i.executes(t, func() { post(t, i, token, lists["feed, by plan"], nil) }) {
				t.Errorf("%s: the response is not shared with %q", what, token)
			}
		}
	}
	write := func(i *instance, session, mutation string) string {
		t.Helper()
		a := postInSession(t, i, "demo:grace", session, b.fill(mutation))
		if a.code() != "" || a.header.Get(sessionHeader) == "" {
			t.Fatal(a.body)
		}
		return a.header.Get(sessionHeader)
	}
	for _, i := range []*instance{one, two} {
		for _, token := range []string{"", "demo:ada", "demo:grace"} {
			show("before", i, token, "", "0/0")
		}
	}
	read := [2]int64{one.views.Load(), two.views.Load()}

	session := write(one, "", `mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`)
	show("like, on the instance that wrote", one, "demo:grace", session, "0/1")
	show("like, there without the session", one, "demo:grace", "", "0/1")
	show("like, there to others", one, "", "", "0/1")
	shared("like, there", one)
	show("like, on another without the session", two, "demo:grace", "", "0/0")
	show("like, on another", two, "demo:grace", session, "0/1")
	show("like, on another to others afterwards", two, "", "", "0/1")
	shared("like, on another", two)

	session = write(two, session,
		`mutation { createComment(input: {postId: "<post:notes>", content: "x", idempotencyKey: "k"}) { post { id } } }`)
	session = write(two, session, `mutation { unlikePost(input: {postId: "<post:notes>"}) { post { id } } }`)
	show("unlike, on the instance that wrote", two, "demo:grace", "", "1/0")
	show("unlike, on the other without the session", one, "demo:ada", "", "0/1")
	show("unlike, on the other", one, "demo:grace", session, "1/0")
	show("unlike, with an older session", one, "demo:grace",
		write(one, "", `mutation { likePost(input: {postId: "<post:moths>"}) { post { id } } }`), "1/0")

	for i, have := range []int64{one.views.Load(), two.views.Load()} {
		if have != read[i] {
			t.Errorf("instance %d has read views %d times for the counts", i+1, have-read[i])
		}
	}
	views.Released.Store(true)
	third := newInstance(t, b, "three", 5*time.Millisecond)
	testkit.WaitFor(t, func() bool { return b.counts(t, third, "", "", lists["feed, by plan"]) == "1/0" })
	show("once the views have caught up", one, "", "", "1/0")
}

// counts returns the counts of the post "notes" in a list, as comments/likes.
func (b *testBlog) counts(t testing.TB, i *instance, token, session, query string) string {
	t.Helper()
	var a testResponse
	if session == "" {
		a = post(t, i, token, query, nil)
	} else {
		a = postInSession(t, i, token, session, query)
	}
	_, rest, ok := strings.Cut(a.body, `"title":"notes"`)
	var comments, likes int
	if _, err := fmt.Sscanf(rest, `,"commentCount":%d,"likeCount":%d`, &comments, &likes); !ok || err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return fmt.Sprintf("%d/%d", comments, likes)
}
