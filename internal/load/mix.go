package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"

	"byline/graph/globalid"
)

// pattern is an access pattern of the article, as a single-page application requests it.
type pattern struct {
	name    string
	weight  float64 // in the mix
	request func(*worker) (body []byte, token string)
}

const (
	short = `id title excerpt commentCount likeCount createdAt author { id username }`
	paged = ` pageInfo { hasNextPage endCursor }`

	queryUser  = `query User($id: ID!) { user(id: $id) { id username createdAt } }`
	queryPost  = `query Post($id: ID!) { post(id: $id) { id title content commentCount likeCount createdAt author { id username } } }`
	queryPosts = `query Posts($id: ID!) { user(id: $id) { posts(first: 20) { edges { node { ` + short + ` } }` +
		paged + ` } } }`
	queryComments = `query Comments($id: ID!) { post(id: $id) { comments(first: 25) { edges { node { id content createdAt author { id username } } }` + paged + ` } } }`
	queryLikes    = `query Likes($id: ID!) { post(id: $id) { likes(first: 100) { edges { node { id createdAt user { id username } } }` + paged + ` } } }`
	queryFeed     = `query Feed { feed(first: 100) { edges { node { ` + short + ` } }` + paged + ` } }`
	comment       = `mutation Comment($id: ID!, $text: String!) { createComment(input: {postId: $id, content: $text}) { comment { id } post { commentCount } } }`
	like          = `mutation Like($id: ID!) { likePost(input: {postId: $id}) { like { id } post { likeCount } } }`
)

// mixOf returns the patterns of readers, with a share of writes.
func mixOf(writes float64) []pattern {
	mix := []pattern{
		{"Q6", 0.30, func(w *worker) ([]byte, string) { return request(queryFeed, nil), "" }},
		{"Q2", 0.35, onPost(queryPost)},
		{"Q4", 0.15, onPost(queryComments)},
		{"Q3", 0.08, onAuthor(queryPosts)},
		{"Q5", 0.07, onPost(queryLikes)},
		{"Q1", 0.05, onAuthor(queryUser)},
	}
	for i := range mix {
		mix[i].weight *= 1 - writes
	}
	return append(mix,
		pattern{"C4", writes * 0.7, func(w *worker) ([]byte, string) {
			return request(like, map[string]any{"id": w.post()}), w.writer()
		}},
		pattern{"C3", writes * 0.3, func(w *worker) ([]byte, string) {
			return request(comment, map[string]any{"id": w.post(), "text": strings.Repeat("And another thing. ", 10)}),
				w.writer()
		}})
}

func onPost(query string) func(*worker) ([]byte, string) {
	return func(w *worker) ([]byte, string) { return request(query, map[string]any{"id": w.post()}), "" }
}

func onAuthor(query string) func(*worker) ([]byte, string) {
	return func(w *worker) ([]byte, string) {
		user, _ := w.popularPost()
		return request(query,
			map[string]any{"id": globalid.ID{Kind: globalid.User, Key: w.run.Blog.User(user).UserID}.String()}), ""
	}
}

func request(query string, variables map[string]any) []byte {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		panic(err) // only strings
	}
	return body
}

// pick draws a pattern.
func (w *worker) pick() pattern {
	at := w.random.Float64()
	for _, p := range w.run.mix {
		if at -= p.weight; at < 0 {
			return p
		}
	}
	return w.run.mix[0]
}

// popularPost draws a post by Zipf's law. Popularity is independent of the author and of the
// date.
func (w *worker) popularPost() (user, number int) {
	posts := w.run.posts
	n := int(w.popular.Uint64() * w.run.stride % uint64(w.run.total))
	user = sort.SearchInts(posts, n+1) - 1 // the last user with this offset: the others have no posts
	return user, n - posts[user]
}

func (w *worker) post() string {
	return globalid.ID{Kind: globalid.Post, Key: w.run.Blog.PostID(w.popularPost())}.String()
}

// writer returns the token of a user who writes.
func (w *worker) writer() string {
	return w.run.Token(w.run.Blog.User(w.random.IntN(w.run.Blog.Users)).Username)
}

// send sends a request and reads the response, which must have no errors.
func (w *worker) send(ctx context.Context, body []byte, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.run.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Byline-Cost", "none")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	response, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	missing := bytes.HasPrefix(response, []byte(`{"data":{"post":null`)) ||
		bytes.HasPrefix(response, []byte(`{"data":{"user":null`))
	if res.StatusCode != http.StatusOK || missing || bytes.HasPrefix(response, []byte(`{"errors"`)) {
		return fmt.Errorf("%s: %.200s", res.Status, response)
	}
	return nil
}
