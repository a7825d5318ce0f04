package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"byline/internal/longtest"
)

// A request whose time is up is UNAVAILABLE, whichever of its requests to Cosmos DB
// were on the wire at that moment.
func TestDeadline_PassingIsUnavailable(t *testing.T) {
	longtest.Heavy(t)
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
			for answered := range 10 {
				b := smallBlog(t, Options{})
				ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
				var mu sync.Mutex
				sent := 0
				b.wire.fail = func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					defer mu.Unlock()
					if sent++; sent <= answered {
						return nil, nil
					}
					ctx.expire()
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				a := postUntil(ctx, t, b, token, b.fill(query))
				if ctx.Err() == nil {
					if answered == 0 || a.code() != "" {
						t.Errorf("%d requests: %s", answered, a.body)
					}
					return // that was all it takes
				}
				for _, e := range a.Errors {
					if code := e.Extensions["code"]; code != "UNAVAILABLE" {
						t.Errorf("after %d requests: %s", answered, a.body)
					}
				}
				// What is written is no error, though copies be late or an old name be kept for a while.
				if len(a.Errors) == 0 && !strings.Contains(query, "Post(") && name != "a rename" {
					t.Errorf("after %d requests: %s", answered, a.body)
				}
			}
			t.Error("there is no end to it")
		})
	}
}

// A deadline may also pass before anything is sent.
func TestDeadline_AlreadyPassedIsUnavailable(t *testing.T) {
	ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
	ctx.expire()
	for name, query := range map[string]string{
		"a query":             `{ feed { edges { cursor } } }`,
		"a mutation":          `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`,
		"what needs no store": `{ __typename }`,
		"an unknown field":    `{ nothing }`,
	} {
		t.Run(name, func(t *testing.T) {
			if a := postUntil(ctx, t, deaf(t, Options{}), "demo:ada", query); a.code() == "INTERNAL" || a.code() == "" {
				t.Error(a.body)
			}
		})
	}
}

// postUntil is post with a request that ends with ctx.
func postUntil(ctx context.Context, t testing.TB, h http.Handler, token, query string) answer {
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

// expiring is a context whose deadline passes when it is told to.
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
