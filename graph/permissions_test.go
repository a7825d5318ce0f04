package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"byline/internal/testkit"
)

// viewerCanUpdate and viewerCanDelete are true for the viewers whose mutation is executed. Responses with them are of
// one viewer, and they read nothing.
func TestPermissions(t *testing.T) {
	testkit.Heavy(t)
	const query = `{ viewerIsModerator post(id: "<post:engines>") { viewerCanUpdate viewerCanDelete }
		node(id: "<comment:How many wheels?>") { ... on Comment { viewerCanUpdate viewerCanDelete } } }`
	mutations := map[string]string{
		"post.update": `mutation { updatePost(input: {id: "<post:engines>", title: "x"}) { post { id } } }`,
		"post.delete": `mutation { deletePost(input: {id: "<post:engines>"}) { deletedPostId } }`,
		"node.update": `mutation { updateComment(input: {id: "<comment:How many wheels?>", content: "x"}) { comment { id } } }`,
		"node.delete": `mutation { deleteComment(input: {id: "<comment:How many wheels?>"}) { deletedCommentId } }`,
	}
	type permissions struct{ ViewerCanUpdate, ViewerCanDelete bool }
	allowed := 0
	for token, moderator := range map[string]bool{"": false, "demo:ada": false, "demo:grace": false,
		"demo:nobody":        false,
		"demo-moderator:ada": true, "demo-moderator:nobody": true} {
		b := smallBlog(t, Options{})
		var out struct {
			ViewerIsModerator bool
			Post, Node        permissions
		}
		for edge, h := range map[string]http.Handler{"with plans": b, "without plans": unplannedHandler{b}} {
			a := post(t, h, token, b.fill(query), nil)
			if err := json.Unmarshal(a.Data, &out); err != nil || a.code() != "" {
				t.Fatalf("%q, %s: %v %s", token, edge, err, a.body)
			}
			if out.ViewerIsModerator != moderator {
				t.Errorf("%q, %s: viewerIsModerator is %t", token, edge, out.ViewerIsModerator)
			}
			can := map[string]bool{"post.update": out.Post.ViewerCanUpdate, "post.delete": out.Post.ViewerCanDelete,
				"node.update": out.Node.ViewerCanUpdate, "node.delete": out.Node.ViewerCanDelete}
			for name, mutation := range mutations {
				fresh := smallBlog(t, Options{})
				executed := post(t, fresh, token, fresh.fill(mutation), nil).code() == ""
				if can[name] != executed {
					t.Errorf("%q, %s: %s is %t, but the mutation is executed: %t", token, edge, name, can[name],
						executed)
				}
				if executed {
					allowed++
				}
			}
		}
	}
	if allowed == 0 {
		t.Error("no mutation is executed")
	}
}

// The permissions are of one viewer: responses with them are not shared. They read nothing.
func TestPermissions_CostNothingAndAreNotShared(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	for _, field := range []string{"viewerCanUpdate", "viewerCanDelete"} {
		for where, query := range map[string]string{
			"post":    `{ post(id: "<post:engines>") { title %s } }`,
			"comment": `{ post(id: "<post:engines>") { title comments { edges { node { content %s } } } } }`,
			"feed":    `query($yes: Boolean = true) { feed { edges { node { title %s @include(if: $yes) } } } }`,
		} {
			get := func(field string) (requests int, shared bool) {
				filled := b.fill(fmt.Sprintf(query, field))
				b.wire.reset()
				if a := post(t, b, "demo:ada", filled, nil); a.code() != "" {
					t.Fatal(a.body)
				}
				requests = len(b.wire.seen())
				post(t, i, "demo:ada", filled, nil)
				return requests, !i.executes(t, func() { post(t, i, "demo:grace", filled, nil) })
			}
			want := 0
			testkit.Until(t, func() error { // the instance has just started
				requests, shared := get("id")
				if want = requests; !shared || want == 0 {
					return fmt.Errorf("%s: without the field, %d requests; shared: %t", where, requests, shared)
				}
				return nil
			})
			if got, shared := get(field); got != want || shared {
				t.Errorf("%s of %s: %d requests, want %d; shared: %t", field, where, got, want, shared)
			}
		}
	}
}

// A viewer whose next token has another role does not get the permissions of the former role from the response cache.
func TestPermissions_AreCachedByRole(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	query := b.fill(`{ viewerIsModerator post(id: "<post:engines>") { viewerCanDelete } }`)
	for range 2 {
		for token, want := range map[string]string{
			"demo:nobody":           `{"viewerIsModerator":false,"post":{"viewerCanDelete":false}}`,
			"demo-moderator:nobody": `{"viewerIsModerator":true,"post":{"viewerCanDelete":true}}`,
		} {
			testkit.WaitFor(t, func() bool { // until the response is cached
				return !i.executes(t, func() {
					if got := post(t, i, token, query, nil); string(got.Data) != want {
						t.Fatalf("%s: got %s, want %s", token, got.body, want)
					}
				})
			})
		}
	}
}
