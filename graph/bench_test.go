package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The ten access patterns of the article, through the HTTP handler, on the embedded
// engine in memory. RU/op is what Cosmos DB would charge, by the engine's estimate.
//
//	go test -run '^$' -bench AccessPattern ./graph
func BenchmarkAccessPattern(b *testing.B) {
	blog := newBlog(b, Options{})
	const users = 100
	name := func(i int) string { return fmt.Sprintf("user%04d", i%users) }
	for i := range users {
		blog.user(b, name(i))
	}
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	busy := ""
	for i := range 120 {
		id := blog.post(b, name(i/20), fmt.Sprint("post ", i), text)
		if i == 0 {
			busy = id
		}
	}
	for i := range 100 {
		blog.like(b, name(i), busy)
		if i < 25 {
			blog.comment(b, name(i), busy, fmt.Sprint(i, " ", text[:200]))
		}
	}
	id := postGlobalID(busy)
	const short = `id title excerpt commentCount likeCount createdAt author { id username }`

	for _, q := range []struct{ name, query string }{
		{"Q1", `{ user(id: "` + blog.names["user:user0000"] + `") { id username createdAt } }`},
		{"Q2", `{ post(id: "` + id + `") { id title content commentCount likeCount createdAt author { id username } } }`},
		{"Q3", `{ user(id: "` + blog.names["user:user0001"] + `") { posts(first: 20) { edges { cursor node { ` + short + ` } } pageInfo { hasNextPage } } } }`},
		{"Q4", `{ post(id: "` + id + `") { comments(first: 25) { edges { cursor node { id content createdAt author { id username } } } pageInfo { hasNextPage } } } }`},
		{"Q5", `{ post(id: "` + id + `") { likes(first: 100) { edges { cursor node { id createdAt user { id username } } } pageInfo { hasNextPage } } } }`},
		{"Q6", `{ feed(first: 100) { edges { cursor node { ` + short + ` } } pageInfo { hasNextPage } } }`},
	} {
		b.Run(q.name, func(b *testing.B) {
			measure(b, blog, func(int) *http.Request { return benchRequest("", q.query) })
		})
	}
	// Writes that may happen once for each user and post get a new one when all are used up.
	fresh := 0
	for _, c := range []struct {
		name  string
		query func(b *testing.B, i int) (subject, query string)
	}{
		{"C1", func(*testing.B, int) (string, string) {
			fresh++
			return fmt.Sprint("fresh", fresh), fmt.Sprintf(`mutation { createUser(input: {username: "fresh%d"}) { user { id username } } }`, fresh)
		}},
		{"C2", func(_ *testing.B, i int) (string, string) {
			return name(i), `mutation { createPost(input: {title: "t", content: "` + text + `"}) { post { id title author { username } } } }`
		}},
		{"C3", func(_ *testing.B, i int) (string, string) {
			return name(i), `mutation { createComment(input: {postId: "` + id + `", content: "` + text[:200] + `"}) { comment { id } post { commentCount } } }`
		}},
		{"C4", func(b *testing.B, i int) (string, string) {
			if i%users == 0 {
				b.StopTimer()
				defer b.StartTimer()
				fresh++
				blog.post(b, name(0), "to like", fmt.Sprint(text, fresh))
			}
			return name(i), `mutation { likePost(input: {postId: "` + blog.names["post:to like"] + `"}) { like { id } post { likeCount } } }`
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			measure(b, blog, func(i int) *http.Request { return benchRequest(c.query(b, i)) })
		})
	}
}

// measure times the handler, and counts the RU of what it asked for.
func measure(b *testing.B, blog *blog, request func(i int) *http.Request) {
	b.ReportAllocs()
	charge, n := 0.0, 0
	for b.Loop() {
		r, w := request(n), httptest.NewRecorder()
		blog.wire.reset()
		blog.ServeHTTP(w, r)
		charge += blog.wire.charged()
		n++
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"errors"`) {
			b.Fatalf("status %d: %.300s", w.Code, w.Body)
		}
	}
	b.ReportMetric(charge/float64(n), "RU/op")
}

func benchRequest(subject, query string) *http.Request {
	body := `{"query":"` + strings.ReplaceAll(query, `"`, `\"`) + `"}`
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if subject != "" {
		r.Header.Set("Authorization", "Bearer demo:"+subject)
	}
	return r
}
