package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"byline/internal/collector"
	"byline/internal/secrettest"
	"byline/store/emulator"
)

// TestMain lets the test binary be the byline command, for the tests that kill it.
func TestMain(m *testing.M) {
	if os.Getenv("BYLINE_TEST_MAIN") != "" {
		if dir := os.Getenv(profiled); dir != "" {
			go profileOnSignal(dir)
		} else {
			runtime.MemProfileRate = 0 // as in the program itself, where the linker sees that nobody asks
		}
		main()
	}
	if os.Getenv(chaosEngineArgs) != "" {
		os.Exit(chaosEngine())
	}
	if os.Getenv(readyMade) != "" {
		runtime.MemProfileRate = 0
		fmt.Fprintln(os.Stderr, serveReadyMade())
		os.Exit(1)
	}
	secrettest.Secret(emulator.WellKnownKey)
	secrettest.Exit(m.Run())
}

// instance is a running server.
type instance struct {
	t    testing.TB
	root string
	log  *output
	stop func() int // returns the exit status
	cost string     // the header Byline-Cost of requests; "" for none
}

// output collects what a process prints. It is safe for concurrent use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	secrettest.Look(p)
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs the server in this process on a free port.
func start(t testing.TB, args ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{t: t, log: &output{}}
	listening, exit := make(chan net.Addr, 1), make(chan int, 1)
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "localhost:0")
	}
	go func() {
		exit <- run(ctx, args, io.Discard, i.log, func(a net.Addr) { listening <- a })
	}()
	i.stop = sync.OnceValue(func() int { cancel(); return <-exit })
	t.Cleanup(func() { i.stop() })
	select {
	case a := <-listening:
		i.root = "http://" + a.String()
	case status := <-exit:
		exit <- status // for stop
		t.Fatalf("exit status %d: %s", status, i.log)
	}
	return i
}

// response is a GraphQL response.
type response struct {
	Data   map[string]any
	Errors []struct {
		Message    string
		Extensions map[string]any
	}
	Extensions map[string]any
}

// TestStopsWhileProvisioning: to be told to stop is no failure, whenever it is.
func TestStopsWhileProvisioning(t *testing.T) {
	t.Setenv("COSMOS_KEY", emulator.WellKnownKey)
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

// With a manifest its documents are executed, nothing else is, and no playground is
// offered.
func TestTrustedDocuments(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "manifest.json")
	if err := os.WriteFile(manifest, []byte(`{"feed":"query Feed { feed { edges { node { title } } } }"}`), 0o600); err != nil {
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
		r, err := http.NewRequest(http.MethodGet, i.root+target, nil)
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
	if strings.Contains(i.log.String(), "playground") {
		t.Error(i.log.String())
	}
}

// post sends an operation as the user, or as nobody if user is "".
func (i *instance) post(user, query string, variables map[string]any) (response, error) {
	return i.postWithin(context.Background(), user, query, variables)
}

// postWithin is post, as long as ctx allows.
func (i *instance) postWithin(ctx context.Context, user, query string, variables map[string]any) (response, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return response{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.root+"/graphql", bytes.NewReader(body))
	if err != nil {
		return response{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	if user != "" {
		r.Header.Set("Authorization", "Bearer demo:"+user)
	}
	if i.cost != "" {
		r.Header.Set("Byline-Cost", i.cost)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	var out response
	return out, json.NewDecoder(answer.Body).Decode(&out)
}

// do is post, where errors are not expected.
func (i *instance) do(user, query string, variables map[string]any) map[string]any {
	i.t.Helper()
	out, err := i.post(user, query, variables)
	if err != nil || out.Errors != nil {
		i.t.Fatalf("%s: %v %v", query, err, out.Errors)
	}
	return out.Data
}

// find walks into a response: names and indexes, separated by dots. It returns nil
// for what is not there.
func find(v any, path string) any {
	for _, step := range strings.Split(path, ".") {
		switch have := v.(type) {
		case map[string]any:
			v = have[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(have) {
				return nil
			}
			v = have[n]
		default:
			return nil
		}
	}
	return v
}

// at is find, for what must be there.
func at(t testing.TB, v any, path string) any {
	t.Helper()
	found := find(v, path)
	if found == nil {
		t.Fatalf("no %s in %v", path, v)
	}
	return found
}

func eventually(t testing.TB, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
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

// TestWalk goes through the article's list of requests over HTTP, restarts the
// server on its data, and finds everything again.
func TestWalk(t *testing.T) {
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")

	// C1, C2, C3, C4
	ada := at(t, s.do("ada", createUser, map[string]any{"name": "ada"}), "createUser.user.id")
	s.do("grace", createUser, map[string]any{"name": "grace"})
	post := at(t, s.do("ada", createPost, map[string]any{"title": "Notes", "content": "On the engine."}), "createPost.post.id")
	edited := s.do("ada", updatePost, map[string]any{"id": post, "title": "Notes, edited"})
	if at(t, edited, "updatePost.post.version") != 2.0 || find(edited, "updatePost.post.updatedAt") == nil {
		t.Errorf("edit: %v", edited)
	}
	if n := at(t, s.do("grace", createComment, map[string]any{"post": post, "content": "first"}), "createComment.post.commentCount"); n != 1.0 {
		t.Errorf("commentCount %v", n)
	}
	s.do("ada", createComment, map[string]any{"post": post, "content": "second"})
	liked := s.do("grace", likePost, map[string]any{"post": post})
	if at(t, liked, "likePost.post.likeCount") != 1.0 || at(t, liked, "likePost.post.viewerHasLiked") != true {
		t.Errorf("like: %v", liked)
	}
	s.do("ada", likePost, map[string]any{"post": post})
	if n := at(t, s.do("ada", unlikePost, map[string]any{"post": post}), "unlikePost.post.likeCount"); n != 1.0 {
		t.Errorf("after unlike: %v", n)
	}
	s.do("ada", updateUser, map[string]any{"name": "Countess"})

	// Q1 to Q6, with every copy of the new name
	walk := func(s *instance) error {
		id := map[string]any{"id": post}
		for what, got := range map[string]struct{ have, want any }{
			"Q1":         {at(t, s.do("", q1, map[string]any{"id": ada}), "user.username"), "Countess"},
			"Q2":         {at(t, s.do("", q2, id), "post.title"), "Notes, edited"},
			"Q2 author":  {at(t, s.do("", q2, id), "post.author.username"), "Countess"},
			"Q3":         {at(t, s.do("", q3, map[string]any{"id": ada}), "user.posts.edges.0.node.title"), "Notes, edited"},
			"Q3 author":  {at(t, s.do("", q3, map[string]any{"id": ada}), "user.posts.edges.0.node.author.username"), "Countess"},
			"Q3 likes":   {at(t, s.do("", q3, map[string]any{"id": ada}), "user.posts.edges.0.node.likeCount"), 1.0},
			"Q4 first":   {at(t, s.do("", q4, id), "post.comments.edges.0.node.author.username"), "grace"},
			"Q4 second":  {at(t, s.do("", q4, id), "post.comments.edges.1.node.author.username"), "Countess"},
			"Q5":         {at(t, s.do("", q5, id), "post.likes.edges.0.node.user.username"), "grace"},
			"Q6":         {at(t, s.do("", q6, nil), "feed.edges.0.node.author.username"), "Countess"},
			"Q6 counts":  {at(t, s.do("", q6, nil), "feed.edges.0.node.commentCount"), 2.0},
			"by name":    {at(t, s.do("", `{ userByUsername(username: "COUNTESS") { id } }`, nil), "userByUsername.id"), ada},
			"viewer":     {at(t, s.do("ada", `{ viewer { username } }`, nil), "viewer.username"), "Countess"},
			"viewer two": {at(t, s.do("grace", `query($id: ID!) { post(id: $id) { viewerHasLiked } }`, id), "post.viewerHasLiked"), true},
		} {
			if got.have != got.want {
				return fmt.Errorf("%s: got %v, want %v", what, got.have, got.want)
			}
		}
		return nil
	}
	eventually(t, func() error { return walk(s) })
	for _, path := range []string{"/healthz", "/readyz"} {
		if r, err := http.Get(s.root + path); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %v", path, r, err)
		}
	}
	if status := s.stop(); status != 0 {
		t.Fatalf("exit status %d: %s", status, s.log)
	}

	again := start(t, "--data", data, "--no-demo")
	eventually(t, func() error { return walk(again) })
}

// loaded waits until the server is ready, which it is when the demo blog is complete.
func (i *instance) loaded() {
	i.t.Helper()
	eventually(i.t, func() error {
		r, err := http.Get(i.root + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(r.Body)
			return fmt.Errorf("not ready: %s", body)
		}
		return nil
	})
}

// TestDemo starts as a newcomer does.
func TestDemo(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := start(t, "--data", data)
	if n := len(at(t, s.do("", `{ feed(first: 1) { edges { node { title } } } }`, nil), "feed.edges").([]any)); n != 1 {
		t.Errorf("the first query finds %d posts", n)
	}
	s.loaded()
	if n := len(at(t, s.do("", q6, nil), "feed.edges").([]any)); n != 100 {
		t.Errorf("%d posts in the feed", n)
	}
	for _, name := range []string{"ada", "grace"} {
		if got := at(t, s.do(name, `{ viewer { username } }`, nil), "viewer.username"); got != name {
			t.Errorf("demo:%s is %v", name, got)
		}
	}
	if got := at(t, s.do("", `{ userByUsername(username: "zelda") { posts { edges { cursor } } } }`, nil), "userByUsername.posts.edges").([]any); len(got) != 10 {
		t.Errorf("ready with %d of the 10 posts of the last user", len(got))
	}
	if first, _, _ := strings.Cut(s.log.String(), "\n"); !strings.Contains(first, `msg="data is in `+data) {
		t.Errorf("the first line of the log is %s", first)
	}
	for _, fact := range []string{"msg=listening", "requests without a token are anonymous", "demo:ada", `msg="open the playground in a browser" url=` + strings.Replace(s.root, "127.0.0.1", "localhost", 1) + "/",
		"the demo blog is complete", "ada grace alan"} {
		eventually(t, func() error {
			if !strings.Contains(s.log.String(), fact) {
				return fmt.Errorf("the log lacks %s:\n%s", fact, s.log)
			}
			return nil
		})
	}
}

// BenchmarkStart starts the process on an empty directory, demo blog included. It
// fails if the first query takes longer than 1 s from the process's start, or the
// feed longer than 3 s to be full.
func BenchmarkStart(b *testing.B) {
	var first, full time.Duration
	for b.Loop() {
		began := time.Now()
		p := startProcess(b, "--data", b.TempDir())
		if n := len(at(b, p.do("", `{ feed(first: 1) { edges { node { title } } } }`, nil), "feed.edges").([]any)); n != 1 {
			b.Fatalf("the first query finds %d posts", n)
		}
		first = max(first, time.Since(began))
		eventually(b, func() error {
			if n := len(at(b, p.do("", q6, nil), "feed.edges").([]any)); n != 100 {
				return fmt.Errorf("%d posts in the feed", n)
			}
			return nil
		})
		full = max(full, time.Since(began))
		p.kill()
	}
	b.ReportMetric(first.Seconds()*1000, "ms-to-first-query")
	b.ReportMetric(full.Seconds()*1000, "ms-to-full-feed")
	if first > time.Second || full > 3*time.Second {
		b.Errorf("first query after %v, full feed after %v", first, full)
	}
}

// TestGracefulShutdown stops the server with a request on its way, which is
// answered in full while new ones are turned away.
func TestGracefulShutdown(t *testing.T) {
	data := t.TempDir()
	s := start(t, "--data", data, "--no-demo")
	s.do("ada", createUser, map[string]any{"name": "ada"})
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.root, "http://"))
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
	query := dial(fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer demo:ada\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10]))
	time.Sleep(50 * time.Millisecond) // it is with the server now
	status := make(chan int, 1)
	go func() { status <- s.stop() }()
	eventually(t, func() error {
		if !strings.Contains(s.log.String(), "msg=stopping") {
			return errors.New("not stopping")
		}
		c, err := net.Dial("tcp", strings.TrimPrefix(s.root, "http://"))
		if err == nil {
			c.Close()
			return errors.New("still accepting")
		}
		return nil
	})
	if code, text := finish(query, body[10:]); code != http.StatusOK || !strings.Contains(text, `"username":"ada"`) {
		t.Errorf("the request under way: %d %s", code, text)
	}
	if got := <-status; got != 0 {
		t.Errorf("exit status %d: %s", got, s.log)
	}
}

// TestRequestsAreCutOff: what is still under way when there is no more time is cut off,
// and that is a stop in good order.
func TestRequestsAreCutOff(t *testing.T) {
	before := shutdownTimeout
	shutdownTimeout = 10 * time.Millisecond
	t.Cleanup(func() { shutdownTimeout = before })
	for _, command := range [][]string{{"serve", "--no-demo"}, {"emulator", "--http"}} {
		t.Run(command[0], func(t *testing.T) {
			s := start(t, append(command, "--data", t.TempDir())...)
			c := beginRequest(t, s.root)
			if status := s.stop(); status != 0 || !strings.Contains(s.log.String(), `msg="requests were cut off"`) {
				t.Errorf("exit status %d: %s", status, s.log)
			}
			if rest, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the request: %s, %v", rest, err)
			}
		})
	}
}

// TestSlowBodies opens connections on which a body arrives a byte at a time, and never
// ends. They are cut off, with an answer; others are answered all the while.
func TestSlowBodies(t *testing.T) {
	before := readTimeout
	readTimeout = 2 * time.Second
	t.Cleanup(func() { readTimeout = before }) // after the server's end
	s := start(t, "--data", t.TempDir(), "--no-demo")
	s.do("ada", createUser, map[string]any{"name": "ada"})
	answers := make(chan error)
	const slow = 50
	for range slow {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		go func() { // ends when the server or the test closes the connection
			for {
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		go func() { answers <- cutOff(c) }()
	}
	for left := slow; left > 0; {
		if got := at(t, s.do("ada", `{ viewer { username } }`, nil), "viewer.username"); got != "ada" {
			t.Errorf("another client gets %v", got)
		}
		select {
		case err := <-answers:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
		}
	}
}

// cutOff waits for the connection's end. Before it there is an answer, which the end
// may overtake.
func cutOff(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("not cut off")
	}
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
		return fmt.Errorf("cut off with %.300q", answer)
	}
	return nil
}

// Who has told Go when to collect garbage is obeyed.
func TestCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for name, tt := range map[string]struct {
		variable string
		later    bool
	}{"by default": {"", true}, "GOGC": {"GOGC", false}, "GOMEMLIMIT": {"GOMEMLIMIT", false}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if tt.variable != "" {
				t.Setenv(tt.variable, "100")
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			asBefore := collectLater()
			runtime.ReadMemStats(&after)
			asBefore()
			if later := after.HeapAlloc >= before.HeapAlloc+32<<20; later != tt.later {
				t.Errorf("the heap grows from %d to %d", before.HeapAlloc, after.HeapAlloc)
			}
			asBefore = collector.Rarely()
			percent := debug.SetGCPercent(100)
			asBefore()
			debug.SetGCPercent(100)
			if less := percent != 100; less != tt.later {
				t.Errorf("a load collects at %d%%", percent)
			}
		})
	}
}

// By default a server that is used for development answers from the response cache, with
// just the bytes that a client gets that asks for no cost.
func TestHotResponse_DefaultServer(t *testing.T) {
	s := start(t, "--data", t.TempDir())
	s.loaded()
	post := func(cost string) string {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, s.root+"/graphql", strings.NewReader(`{"query":"{ userByUsername(username: \"grace\") { username createdAt } }"}`))
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
		all, err := scrape(s.root)
		if err != nil {
			t.Fatal(err)
		}
		n, ok := total(all, "byline_graphql_kept_responses_total", nil)
		if !ok {
			t.Fatal("no metric of cached responses")
		}
		return n
	}
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
	if told := post("summary"); !strings.Contains(told, `"actualRU"`) {
		t.Errorf("with Byline-Cost: summary: %s", told)
	}
}
