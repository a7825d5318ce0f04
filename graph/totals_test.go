package graph

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
)

// A list's totalCount is the post's count, without a read of its own.
func TestTotalCounts(t *testing.T) {
	b := smallBlog(t, Options{})
	const counts = `{"post":{"commentCount":2,"comments":{"totalCount":2,"edges":[{"node":{"content":"All of them."}}]},"likes":{"totalCount":1}}}`
	for _, format := range []string{`{ %s }`, `query($yes: Boolean = true) { %s }`} {
		query := fmt.Sprintf(format,
			`post(id: "<post:engines>") { commentCount comments(first: 1) { totalCount edges { node { content } } } likes { totalCount } }`)
		if strings.Contains(format, "$yes") {
			query = strings.Replace(query, "commentCount ", "commentCount @include(if: $yes) ", 1)
		}
		if a := post(t, b, "", b.fill(query), nil); string(a.Data) != counts {
			t.Errorf("got %s, want data %s", a.body, counts)
		}
	}
	for query, want := range map[string]int{
		`{ post(id: "<post:moths>") { comments { edges { cursor } } } }`: 1,
		// the post, too
		`{ post(id: "<post:moths>") { comments { totalCount edges { cursor } } } }`:                            2,
		`{ post(id: "<post:moths>") { title comments { totalCount edges { cursor } } likes { totalCount } } }`: 3,
		`{ feed(first: 2) { edges { node { comments(first: 1) { totalCount edges { cursor } } } } } }`:         3,
	} {
		b.wire.reset()
		if a := post(t, b, "", b.fill(query), nil); a.code() != "" || len(b.wire.seen()) != want {
			t.Errorf("%s: %v, want %d requests", query, b.wire.seen(), want)
		}
	}
}

// The totalCount of a list of posts is read only if it is selected, with plans and without.
func TestTotalCounts_Posts(t *testing.T) {
	b := smallBlog(t, Options{})
	b.settle(t)
	if a := post(t, b, "demo:ada", `mutation { createPost(input: {title: "d", content: "c", draft: true}) { post { id } } }`,
		nil); a.code() != "" {
		t.Fatal(a.body)
	}
	for query, tt := range map[string]struct {
		want     string
		requests int
	}{
		`feed(first: 1) { edges { cursor } }`:                             {"", 1},
		`feed(first: 1) { totalCount }`:                                   {`{"feed":{"totalCount":4}}`, 3},
		`archive(month: "2026-03") { totalCount }`:                        {`{"archive":{"totalCount":4}}`, 3},
		`archive(month: "2026-04") { totalCount }`:                        {`{"archive":{"totalCount":0}}`, 2},
		`tag(name: "machines") { posts(first: 1) { totalCount } }`:        {`{"tag":{"posts":{"totalCount":2}}}`, 3},
		`tag(name: "nothing") { posts { totalCount } }`:                   {`{"tag":{"posts":{"totalCount":0}}}`, 1},
		`user(id: "<user:ada>") { posts(first: 1) { edges { cursor } } }`: {"", 1},
		`user(id: "<user:ada>") { posts(first: 1) { totalCount } }`:       {`{"user":{"posts":{"totalCount":2}}}`, 3},
		`viewer { home(first: 1) { totalCount } }`:                        {`{"viewer":{"home":{"totalCount":null}}}`, 2},
		`viewer { drafts(first: 1) { totalCount } }`:                      {`{"viewer":{"drafts":{"totalCount":1}}}`, 3},
	} {
		for _, format := range []string{`{ %s }`, `query($yes: Boolean = true) { %s viewerIsModerator @include(if: $yes) }`} {
			b.wire.reset()
			a := post(t, b, "demo:ada", b.fill(fmt.Sprintf(format, query)), nil)
			got := strings.Replace(string(a.Data), `,"viewerIsModerator":false`, "", 1)
			if a.code() != "" || tt.want != "" && got != tt.want || len(b.wire.seen()) != tt.requests {
				t.Errorf("%s: %s with %v, want %s with %d requests", query, a.body, b.wire.seen(), tt.want, tt.requests)
			}
		}
	}
}

// postCount is one query for each user that is in the response, and is cached until the user publishes or deletes.
func TestPostCount(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstanceOn(t, b, b.wire, "one", 5*time.Millisecond)
	testkit.WaitFor(t, func() bool { return b.caughtUp(t) }) // views of likes are in the partitions of the users
	lists := b.fill(`{ viewer { posts { edges { cursor } } } user(id: "<user:grace>") { posts { edges { cursor } } } }`)
	testkit.WaitFor(t, func() bool { return !i.executes(t, func() { post(t, i, "demo:ada", lists, nil) }) })
	check := func(what, query, want string, queries int) {
		t.Helper()
		b.wire.reset()
		a := post(t, i, "demo:ada", b.fill(query), nil)
		got := 0
		for _, request := range b.wire.seen() {
			if request == "query users" {
				got++
			}
		}
		if string(a.Data) != want || got != queries {
			t.Errorf("%s: %s with %d queries, want %s with %d", what, a.body, got, want, queries)
		}
	}
	check("first", `{ viewer { postCount } }`, `{"viewer":{"postCount":2}}`, 1)
	check("cached", `query Other { viewer { postCount } }`, `{"viewer":{"postCount":2}}`, 0)
	check("of two fields",
		`{ post(id: "<post:nanoseconds>") { author { postCount } } user(id: "<user:grace>") { postCount } }`,
		`{"post":{"author":{"postCount":2}},"user":{"postCount":2}}`, 1)
	check("unknown user", `{ user(id: "`+userGlobalID("nobody")+`") { postCount } }`, `{"user":null}`, 0)
	check("a post", `mutation { createPost(input: {title: "third", content: "x"}) { post { author { postCount } } } }`,
		`{"createPost":{"post":{"author":{"postCount":3}}}}`, 1)
	// the tail has seen the post
	testkit.WaitFor(t, func() bool {
		return !i.executes(t, func() { post(t, i, "demo:ada", `{ viewer { postCount } }`, nil) })
	})
	check("after a post", `query Other { viewer { postCount } }`, `{"viewer":{"postCount":3}}`, 0)
	if a := post(t, i, "demo:ada", b.fill(`mutation { deletePost(input: {id: "<post:notes>"}) { deletedPostId } }`),
		nil); a.code() != "" {
		t.Fatal(a.body)
	}
	check("after a deletion", `{ viewer { postCount } }`, `{"viewer":{"postCount":2}}`, 1)
}
