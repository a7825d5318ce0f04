package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStop_WhileProvisioning: a signal during provisioning stops the server with exit status 0.
func TestStop_WhileProvisioning(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	account := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		w.WriteHeader(http.StatusNotFound)
	}))
	defer account.Close()
	var log output
	status := run(ctx, []string{"--listen", "localhost:0", "--cosmos-endpoint", account.URL}, io.Discard, &log, nil)
	if status != 0 || strings.Contains(log.String(), "byline: ") {
		t.Errorf("status %d: %s", status, log.String())
	}
}

// TestTrustedDocuments: with a manifest only its documents are executed, and there is no playground.
func TestTrustedDocuments(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "manifest.json")
	if err := os.WriteFile(manifest, []byte(`{"feed":"query Feed { feed { edges { node { title } } } }"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BYLINE_TRUSTED_DOCUMENTS", manifest)
	i := start(t, "--data", t.TempDir(), "--no-demo")
	for target, want := range map[string]int{
		"/graphql?documentId=feed":        http.StatusOK,
		"/graphql?documentId=posts":       http.StatusBadRequest,
		"/graphql?query={__typename}":     http.StatusForbidden,
		"/graphql?query={__schema{types}": http.StatusForbidden,
		"/":                               http.StatusNotFound,
		"/healthz":                        http.StatusOK,
	} {
		r, err := http.NewRequest(http.MethodGet, i.Root+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/graphql-response+json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", target, response.StatusCode, want)
		}
	}
	if log := i.Log.String(); strings.Contains(log, "open the playground") ||
		!strings.Contains(log, "so there is no playground") {
		t.Error(log)
	}
}

const (
	createUser    = `mutation($name: String!) { createUser(input: {username: $name}) { user { id username createdAt } } }`
	updateUser    = `mutation($name: String!) { updateUser(input: {username: $name}) { user { id username } } }`
	createPost    = `mutation($title: String!, $content: String!) { createPost(input: {title: $title, content: $content}) { post { id version author { username } } } }`
	updatePost    = `mutation($id: ID!, $title: String!) { updatePost(input: {id: $id, title: $title}) { post { id title version updatedAt } } }`
	createComment = `mutation($post: ID!, $content: String!) { createComment(input: {postId: $post, content: $content}) { comment { id content } post { commentCount } } }`
	likePost      = `mutation($post: ID!) { likePost(input: {postId: $post}) { like { id user { username } } post { likeCount viewerHasLiked } } }`
	unlikePost    = `mutation($post: ID!) { unlikePost(input: {postId: $post}) { post { likeCount viewerHasLiked } } }`

	q1 = `query($id: ID!) { user(id: $id) { id username createdAt } }`
	q2 = `query($id: ID!) { post(id: $id) { id title excerpt content author { username } commentCount likeCount createdAt version } }`
	q3 = `query($id: ID!) { user(id: $id) { posts { edges { node { id title author { username } likeCount commentCount } } pageInfo { hasNextPage } } } }`
	q4 = `query($id: ID!) { post(id: $id) { comments(order: OLDEST_FIRST) { edges { node { content author { username } } } } } }`
	q5 = `query($id: ID!) { post(id: $id) { likes { edges { node { user { username } } } } } }`
	q6 = `{ feed(first: 100) { edges { node { id title author { username } likeCount commentCount } } pageInfo { hasNextPage } } }`
)

// TestServe_ArticleRequests sends the article's requests over HTTP, restarts the server on its data, and compares the
// responses.
func TestServe_ArticleRequests(t *testing.T) {
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")

	// C1, C2, C3, C4
	ada := at(t, s.Do("ada", createUser, map[string]any{"name": "ada"}), "createUser.user.id")
	s.Do("grace", createUser, map[string]any{"name": "grace"})
	post := at(t, s.Do("ada", createPost, map[string]any{"title": "Notes", "content": "On the engine."}),
		"createPost.post.id")
	edited := s.Do("ada", updatePost, map[string]any{"id": post, "title": "Notes, edited"})
	if at(t, edited, "updatePost.post.version") != 2.0 || find(edited, "updatePost.post.updatedAt") == nil {
		t.Errorf("edit: %v", edited)
	}
	if n := at(t, s.Do("grace", createComment, map[string]any{"post": post, "content": "first"}),
		"createComment.post.commentCount"); n != 1.0 {
		t.Errorf("commentCount %v", n)
	}
	s.Do("ada", createComment, map[string]any{"post": post, "content": "second"})
	liked := s.Do("grace", likePost, map[string]any{"post": post})
	if at(t, liked, "likePost.post.likeCount") != 1.0 || at(t, liked, "likePost.post.viewerHasLiked") != true {
		t.Errorf("like: %v", liked)
	}
	s.Do("ada", likePost, map[string]any{"post": post})
	if n := at(t, s.Do("ada", unlikePost, map[string]any{"post": post}), "unlikePost.post.likeCount"); n != 1.0 {
		t.Errorf("after unlike: %v", n)
	}
	s.Do("ada", updateUser, map[string]any{"name": "Countess"})

	// Q1 to Q6, with the new name in every projection
	walk := func(s *instance) error {
		id := map[string]any{"id": post}
		for what, got := range map[string]struct{ have, want any }{
			"Q1":        {at(t, s.Do("", q1, map[string]any{"id": ada}), "user.username"), "Countess"},
			"Q2":        {at(t, s.Do("", q2, id), "post.title"), "Notes, edited"},
			"Q2 author": {at(t, s.Do("", q2, id), "post.author.username"), "Countess"},
			"Q3": {at(t, s.Do("", q3, map[string]any{"id": ada}), "user.posts.edges.0.node.title"),
				"Notes, edited"},
			"Q3 author": {at(t, s.Do("", q3, map[string]any{"id": ada}), "user.posts.edges.0.node.author.username"),
				"Countess"},
			"Q3 likes":  {at(t, s.Do("", q3, map[string]any{"id": ada}), "user.posts.edges.0.node.likeCount"), 1.0},
			"Q4 first":  {at(t, s.Do("", q4, id), "post.comments.edges.0.node.author.username"), "grace"},
			"Q4 second": {at(t, s.Do("", q4, id), "post.comments.edges.1.node.author.username"), "Countess"},
			"Q5":        {at(t, s.Do("", q5, id), "post.likes.edges.0.node.user.username"), "grace"},
			"Q6":        {at(t, s.Do("", q6, nil), "feed.edges.0.node.author.username"), "Countess"},
			"Q6 counts": {at(t, s.Do("", q6, nil), "feed.edges.0.node.commentCount"), 2.0},
			"by name": {at(t, s.Do("", `{ userByUsername(username: "COUNTESS") { id } }`, nil),
				"userByUsername.id"), ada},
			"viewer": {at(t, s.Do("ada", `{ viewer { username } }`, nil), "viewer.username"), "Countess"},
			"viewer two": {at(t, s.Do("grace", `query($id: ID!) { post(id: $id) { viewerHasLiked } }`, id),
				"post.viewerHasLiked"), true},
		} {
			if got.have != got.want {
				return fmt.Errorf("%s: got %v, want %v", what, got.have, got.want)
			}
		}
		return nil
	}
	eventually(t, func() error { return walk(s) })
	for _, path := range []string{"/healthz", "/readyz"} {
		if r, err := http.Get(s.Root + path); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %v", path, r, err)
		}
	}
	if status := s.Stop(); status != 0 {
		t.Fatalf("exit status %d: %s", status, s.Log)
	}

	again := start(t, "--data", data, "--no-demo")
	eventually(t, func() error { return walk(again) })
}

// TestDemo starts the server with the default flags.
func TestDemo(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := start(t, "--data", data)
	if n := len(at(t, s.Do("", `{ feed(first: 1) { edges { node { title } } } }`, nil), "feed.edges").([]any)); n != 1 {
		t.Errorf("the first query finds %d posts", n)
	}
	s.WaitReady()
	if n := len(at(t, s.Do("", q6, nil), "feed.edges").([]any)); n != 100 {
		t.Errorf("%d posts in the feed", n)
	}
	for _, name := range []string{"ada", "grace"} {
		if got := at(t, s.Do(name, `{ viewer { username } }`, nil), "viewer.username"); got != name {
			t.Errorf("the viewer with demo:%s is %v", name, got)
		}
	}
	if got := at(t, s.Do("", `{ userByUsername(username: "zelda") { posts { edges { cursor } } } }`, nil),
		"userByUsername.posts.edges").([]any); len(got) != 10 {
		t.Errorf("ready with %d of the 10 posts of the last user", len(got))
	}
	if first, _, _ := strings.Cut(s.Log.String(), "\n"); !strings.Contains(first, `msg="data is in `+data) {
		t.Errorf("the first line of the log is %s", first)
	}
	for _, fact := range []string{"msg=listening", "requests without a token are anonymous", "demo:ada",
		`msg="open the playground in a browser" url=` + strings.Replace(s.Root, "127.0.0.1", "localhost", 1) + "/",
		"the demo blog is complete", "ada grace alan"} {
		eventually(t, func() error {
			if !strings.Contains(s.Log.String(), fact) {
				return fmt.Errorf("the log lacks %s:\n%s", fact, s.Log)
			}
			return nil
		})
	}
}

// BenchmarkStart starts the process on an empty directory, demo blog included. It fails if the first
// response takes longer than 1 s from the start of the process, or the complete feed longer than 3 s.
func BenchmarkStart(b *testing.B) {
	var first, full time.Duration
	for b.Loop() {
		began := time.Now()
		p := startProcess(b, "--data", b.TempDir())
		if n := len(at(b, p.Do("", `{ feed(first: 1) { edges { node { title } } } }`, nil),
			"feed.edges").([]any)); n != 1 {
			b.Fatalf("the first query finds %d posts", n)
		}
		first = max(first, time.Since(began))
		eventually(b, func() error {
			if n := len(at(b, p.Do("", q6, nil), "feed.edges").([]any)); n != 100 {
				return fmt.Errorf("%d posts in the feed", n)
			}
			return nil
		})
		full = max(full, time.Since(began))
		p.Kill()
	}
	b.ReportMetric(first.Seconds()*1000, "ms-to-first-query")
	b.ReportMetric(full.Seconds()*1000, "ms-to-full-feed")
	if first > time.Second || full > 3*time.Second {
		b.Errorf("first query after %v, full feed after %v", first, full)
	}
}

// TestGracefulShutdown stops the server during a request, which gets a complete response while new
// connections are refused.
func TestGracefulShutdown(t *testing.T) {
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.Root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	finish := func(c net.Conn, text string) (int, string) {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	body := `{"query":"{ viewer { username } }"}`
	query := dial(
		fmt.Sprintf(
			"POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer demo:ada\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body)))
	for received := bufio.NewReader(query); ; { // by the handler, which reads the body
		if line, err := received.ReadString('\n'); err != nil {
			t.Fatal(err)
		} else if line == "\r\n" {
			break
		}
	}
	if _, err := io.WriteString(query, body[:10]); err != nil {
		t.Fatal(err)
	}
	status := make(chan int, 1)
	go func() { status <- s.Stop() }()
	eventually(t, func() error {
		if !strings.Contains(s.Log.String(), "msg=stopping") {
			return errors.New("not stopping")
		}
		c, err := net.Dial("tcp", strings.TrimPrefix(s.Root, "http://"))
		if err == nil {
			c.Close()
			return errors.New("still accepting")
		}
		return nil
	})
	if code, text := finish(query, body[10:]); code != http.StatusOK || !strings.Contains(text, `"username":"ada"`) {
		t.Errorf("the active request: %d %s", code, text)
	}
	if got := <-status; got != 0 {
		t.Errorf("exit status %d: %s", got, s.Log)
	}
}

// TestHotResponse_DefaultServer: with the default flags the server responds from the response cache, with the same
// bytes as to a client that sends Byline-Cost: none.
func TestHotResponse_DefaultServer(t *testing.T) {
	s := start(t, "--data", t.TempDir())
	s.WaitReady()
	post := func(cost string) string {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, s.Root+"/graphql",
			strings.NewReader(`{"query":"{ userByUsername(username: \"grace\") { username createdAt } }"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if cost != "" {
			r.Header.Set("Byline-Cost", cost)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, err)
		}
		return string(body)
	}
	cached := func() float64 {
		t.Helper()
		all, err := scrape(s.Root)
		if err != nil {
			t.Fatal(err)
		}
		n, ok := total(all, "byline_graphql_cached_responses_total", nil)
		if !ok {
			t.Fatal("no metric of cached responses")
		}
		return n
	}
	eventually(t, func() error { // the demo blog changes until it has been projected
		all, err := scrape(s.Root)
		if n, _ := total(all, "byline_projection_lag_transactions", nil); err != nil || n > 0 {
			return fmt.Errorf("the projections are %v changes behind: %v", n, err)
		}
		return nil
	})
	first := post("")
	if strings.Contains(first, "extensions") {
		t.Errorf("the first response: %s", first)
	}
	eventually(t, func() error {
		before := cached()
		hot, none := post(""), post("none")
		if hot != first || none != first {
			t.Fatalf("%s, then %s, and with Byline-Cost: none %s", first, hot, none)
		}
		if n := cached() - before; n != 2 {
			return fmt.Errorf("%v of 2 responses are from the cache", n)
		}
		return nil
	})
	if got := post("summary"); !strings.Contains(got, `"actualRU"`) {
		t.Errorf("with Byline-Cost: summary: %s", got)
	}
}
