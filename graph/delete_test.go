package graph

import (
	"strings"
	"testing"
)

// A deleted post is absent at once, by id and in lists, and so are its comments.
func TestDeletedPost_IsAbsent(t *testing.T) {
	b := smallBlog(t, Options{})
	if a := post(t, b, "demo:ada", b.fill(`mutation { deletePost(input: {id: "<post:engines>"}) { deletedPostId } }`),
		nil); a.code() != "" {
		t.Fatal(a.body)
	}
	for query, want := range map[string]string{
		`{ post(id: "<post:engines>") { title } }`:                                     `{"data":{"post":null}}`,
		`{ post(id: "<post:engines>") { comments { edges { cursor } } } }`:             `{"data":{"post":null}}`,
		`{ post(id: "<post:engines>") { id likes { edges { cursor } } } }`:             `{"data":{"post":null}}`,
		`{ node(id: "<post:engines>") { id } }`:                                        `{"data":{"node":null}}`,
		`{ nodes(ids: ["<post:engines>", "<comment:All of them.>"]) { id } }`:          `{"data":{"nodes":[null,null]}}`,
		`{ feed(first: 2) { edges { node { title } } } }`:                              `{"data":{"feed":{"edges":[{"node":{"title":"notes"}},{"node":{"title":"moths"}}]}}}`,
		`{ user(id: "<user:ada>") { posts { edges { node { title } } } } }`:            `{"data":{"user":{"posts":{"edges":[{"node":{"title":"notes"}}]}}}}`,
		`{ user(id: "<user:grace>") { username posts { edges { node { title } } } } }`: `{"data":{"user":{"username":"grace","posts":{"edges":[{"node":{"title":"moths"}},{"node":{"title":"nanoseconds"}}]}}}}`,
	} {
		if a := post(t, b, "", b.fill(query), nil); strings.TrimSpace(a.body) != want {
			t.Errorf("%s\ngot  %s\nwant %s", query, a.body, want)
		}
	}
}
