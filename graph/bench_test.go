package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// accessPattern is one of the ten access patterns of the article.
type accessPattern struct {
	name  string
	query func(i int) (subject, query string) // the i-th of the requests; subject is "" if anonymous
}

// accessPatterns returns the ten access patterns, and a blog with enough items to fill their pages.
func accessPatterns(t testing.TB) (*testBlog, []accessPattern) {
	t.Helper()
	blog := newBlog(t, Options{})
	const users = 100
	name := func(i int) string { return fmt.Sprintf("user%04d", i%users) }
	for i := range users {
		blog.user(t, name(i))
	}
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	busy := ""
	for i := range 120 {
		id := blog.post(t, name(i/20), fmt.Sprint("post ", i), text)
		if i == 0 {
			busy = id
		}
	}
	for i := range 100 {
		blog.like(t, name(i), busy)
		if i < 25 {
			blog.comment(t, name(i), busy, fmt.Sprint(i, " ", text[:200]))
		}
	}
	id := postGlobalID(busy)
	read := func(query string) func(int) (string, string) {
		return func(int) (string, string) { return "", query }
	}
	const short = `id title excerpt commentCount likeCount createdAt author { id username }`
	fresh := 0
	return blog, []accessPattern{
		{"Q1", read(`{ user(id: "` + blog.names["user:user0000"] + `") { id username createdAt } }`)},
		{"Q2", read(`{ post(id: "` + id +
			`") { id title content commentCount likeCount createdAt author { id username } } }`)},
		{"Q3", read(`{ user(id: "` + blog.names["user:user0001"] + `") { posts(first: 20) { edges { cursor node { ` +
			short + ` } } pageInfo { hasNextPage } } } }`)},
		{"Q4", read(`{ post(id: "` + id +
			`") { comments(first: 25) { edges { cursor node { id content createdAt author { id username } } } pageInfo { hasNextPage } } } }`)},
		{"Q5", read(`{ post(id: "` + id +
			`") { likes(first: 100) { edges { cursor node { id createdAt user { id username } } } pageInfo { hasNextPage } } } }`)},
		{"Q6", read(`{ feed(first: 100) { edges { cursor node { ` + short + ` } } pageInfo { hasNextPage } } }`)},
		{"C1", func(int) (string, string) {
			fresh++
			return fmt.Sprint("fresh", fresh),
				fmt.Sprintf(`mutation { createUser(input: {username: "fresh%d"}) { user { id username } } }`, fresh)
		}},
		{"C2", func(i int) (string, string) {
			return name(i),
				`mutation { createPost(input: {title: "t", content: "` + text +
					`"}) { post { id title author { username } } } }`
		}},
		{"C3", func(i int) (string, string) {
			return name(i),
				`mutation { createComment(input: {postId: "` + id + `", content: "` + text[:200] +
					`"}) { comment { id } post { commentCount } } }`
		}},
		// A user can like a post only once, so there is a new post when all users have liked the last one.
		{"C4", func(i int) (string, string) {
			if i%users == 0 {
				fresh++
				blog.post(t, name(0), "to like", fmt.Sprint(text, fresh))
			}
			return name(i),
				`mutation { likePost(input: {postId: "` + blog.names["post:to like"] +
					`"}) { like { id } post { likeCount } } }`
		}},
	}
}

// BenchmarkAccessPattern sends the ten access patterns of the article through the HTTP handler to the embedded engine
// in memory. RU/op is the request charge of Cosmos DB as the engine estimates it.
//
//	go test -run '^$' -bench AccessPattern ./graph
func BenchmarkAccessPattern(b *testing.B) {
	blog, patterns := accessPatterns(b)
	for _, p := range patterns {
		b.Run(p.name, func(b *testing.B) { measure(b, blog, p) })
	}
}

// measure times the handler, and reports the RU and CPU time per operation.
func measure(b *testing.B, blog *testBlog, p accessPattern) {
	b.ReportAllocs()
	charge, n, cpu := 0.0, 0, cpuTime(b)
	var requests [100]*http.Request
	for b.Loop() {
		if n%len(requests) == 0 {
			b.StopTimer()
			for i := range requests {
				requests[i] = benchRequest(p.query(n + i))
			}
			b.StartTimer()
		}
		r, w := requests[n%len(requests)], httptest.NewRecorder()
		blog.wire.reset()
		blog.ServeHTTP(w, r)
		charge += blog.wire.charged()
		n++
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"errors"`) {
			b.Fatalf("status %d: %.300s", w.Code, w.Body)
		}
	}
	b.ReportMetric(charge/float64(n), "RU/op")
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(n), "cpu-ns/op")
}

// cpuTime returns the CPU time of the process, which a busy machine distorts less than elapsed time.
func cpuTime(b testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
