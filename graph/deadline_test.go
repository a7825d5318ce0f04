package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"byline/internal/testkit"
)

// A request whose deadline passes is UNAVAILABLE, whichever of its requests to Cosmos DB are in progress.
func TestDeadline_PassingIsUnavailable(t *testing.T) {
	testkit.Heavy(t)
	for name, query := range map[string]string{
		"a post":            `{ post(id: "<post:engines>") { title author { createdAt } viewerHasLiked } }`,
		"a user by name":    `{ userByUsername(username: "ada") { username posts { edges { node { title } } } } }`,
		"a page":            `{ post(id: "<post:engines>") { comments { edges { node { content author { createdAt } post { title } } } } } }`,
		"the feed":          `{ feed { edges { node { content viewerHasLiked author { createdAt } } } } }`,
		"nodes":             `{ nodes(ids: ["<post:engines>", "<user:ada>", "<post:moths>", "<user:grace>", "<comment:Poor thing.>", "<like:ada>"]) { id } }`,
		"a new user":        `mutation { createUser(input: {username: "late"}) { user { id } } }`,
		"a rename":          `mutation { updateUser(input: {username: "later"}) { user { id } } }`,
		"a new post":        `mutation { createPost(input: {title: "t", content: "c"}) { post { id viewerHasLiked author { createdAt } } } }`,
		"an edit":           `mutation { updatePost(input: {id: "<post:notes>", title: "t"}) { post { id } } }`,
		"a comment":         `mutation { createComment(input: {postId: "<post:notes>", content: "c"}) { comment { id } } }`,
		"a like":            `mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`,
		"an edited comment": `mutation { updateComment(input: {id: "<comment:Poor thing.>", content: "c"}) { comment { id } } }`,
		"a deleted comment": `mutation { deleteComment(input: {id: "<comment:Poor thing.>"}) { post { id } } }`,
		"a deleted post":    `mutation { deletePost(input: {id: "<post:notes>"}) { deletedPostId } }`,
		"a like taken back": `mutation { unlikePost(input: {postId: "<post:notes>"}) { post { id } } }`,
	} {
		t.Run(name, func(t *testing.T) {
			token := "demo:ada"
			if name == "a new user" {
				token = "demo:late"
			}
			for completed := range 10 {
				b := smallBlog(t, Options{})
				ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
				var mu sync.Mutex
				sent := 0
				b.wire.setFail(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					if sent++; sent <= completed {
						return nil, nil
					}
					ctx.expire()
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				a := postUntil(ctx, t, b, token, b.fill(query))
				if ctx.Err() == nil {
					if completed == 0 || a.code() != "" {
						t.Errorf("with %d requests: %s", completed, a.body)
					}
					return // it needs no further request
				}
				for _, e := range a.Errors {
					if code := e.Extensions["code"]; code != "UNAVAILABLE" {
						t.Errorf("after %d requests: %s", completed, a.body)
					}
				}
				// A completed write is a success, even if the projections or the release of the old name are still to
				// come.
				if len(a.Errors) == 0 && !strings.Contains(query, "Post(") && name != "a rename" {
					t.Errorf("after %d requests: %s", completed, a.body)
				}
			}
			t.Error("the operation sends more than 10 requests")
		})
	}
}

// A deadline may also pass before anything is sent.
func TestDeadline_AlreadyPassedIsUnavailable(t *testing.T) {
	ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
	ctx.expire()
	for name, query := range map[string]string{
		"a query":               `{ feed { edges { cursor } } }`,
		"a mutation":            `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`,
		"a query without reads": `{ __typename }`,
		"an unknown field":      `{ nothing }`,
	} {
		t.Run(name, func(t *testing.T) {
			if a := postUntil(ctx, t, newTestHandler(t, Options{}), "demo:ada", query); a.code() == "INTERNAL" ||
				a.code() == "" {
				t.Error(a.body)
			}
		})
	}
}

// postUntil is post with ctx as the context of the request.
func postUntil(ctx context.Context, t testing.TB, h http.Handler, token, query string) testResponse {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/graphql", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	return send(t, h, r)
}

// expiring is a context whose deadline passes when expire is called.
type expiring struct {
	context.Context
	once sync.Once
	done chan struct{}
}

func (e *expiring) expire()               { e.once.Do(func() { close(e.done) }) }
func (e *expiring) Done() <-chan struct{} { return e.done }
func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
