package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// sitePaths writes a small blog, and returns the status of each kind of path.
func sitePaths(t *testing.T, s *instance) map[string]int {
	t.Helper()
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	create := func(title string, draft bool) (path string, id any) {
		created := s.Do("ada", `mutation($t: String!, $d: Boolean!) { createPost(input: {title: $t, content: "A text.",
			tags: ["go"], draft: $d}) { post { id slug } } }`, map[string]any{"t": title, "d": draft})
		return "/posts/" + url.PathEscape(at(t, created, "createPost.post.slug").(string)), at(t, created, "createPost.post.id")
	}
	gone, id := create("Gone", false)
	s.Do("ada", `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`, map[string]any{"id": id})
	draft, _ := create("A draft", true)
	former, id := create("Former", false)
	s.Do("ada", `mutation($id: ID!) { updatePost(input: {id: $id, title: "Renamed"}) { post { id } } }`, map[string]any{"id": id})
	all := map[string]int{"/": 200, gone: 410, draft: 404, former: 301, "/posts/never-abcdefghijklmnop": 404,
		"/tags/go": 200, "/authors/ada": 200, "/authors/nobody": 404, "/feed.atom": 200, "/tags/go/feed.atom": 200}
	for i := range 20 {
		path, _ := create(fmt.Sprint("Post ", i), false)
		all[path], all[path+".md"] = 200, 200
	}
	for path, want := range all {
		eventually(t, func() error { // the views have all posts
			if resp, _ := visit(t, s, path); resp.StatusCode != want {
				return fmt.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
			}
			return nil
		})
	}
	return all
}

// TestSite_Outage: while Cosmos DB does not respond, or throttles, every path says so, in a response that no cache
// keeps; none says that its page does not exist.
func TestSite_Outage(t *testing.T) {
	t.Parallel()
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	var faults faulttest.Injector
	var cut atomic.Bool
	injected := faults.Handler(engine)
	account := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut.Load() {
			panic(http.ErrAbortHandler)
		}
		injected.ServeHTTP(w, r)
	}))
	t.Cleanup(account.Close)
	s := start(t, "--cosmos-endpoint", account.URL, "--cache", "0", "--site", "testdata/site", "--site-url", siteURL)
	paths := sitePaths(t, s)
	for name, begin := range map[string]func(){
		"503": func() {
			faults.Inject(func(faulttest.Operation) faulttest.Response {
				return faulttest.Response{Status: http.StatusServiceUnavailable}
			})
		},
		"429": func() {
			faults.Inject(func(faulttest.Operation) faulttest.Response {
				return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
			})
		},
		"no connection": func() { cut.Store(true) },
	} {
		begin()
		var all sync.WaitGroup
		for path := range paths {
			all.Go(func() {
				resp, body := visit(t, s, path)
				h := resp.Header
				if resp.StatusCode != http.StatusServiceUnavailable || h.Get("Retry-After") == "" ||
					h.Get("Cache-Control") != "no-store" || h.Get("ETag") != "" {
					t.Errorf("%s: %s: %d %v %.200s", name, path, resp.StatusCode, h, body)
				}
			})
		}
		all.Wait()
		faults.Inject(nil)
		cut.Store(false)
	}
	for path, want := range paths {
		eventually(t, func() error {
			if resp, _ := visit(t, s, path); resp.StatusCode != want {
				return fmt.Errorf("%s after the outage: %d, want %d", path, resp.StatusCode, want)
			}
			return nil
		})
	}
}

// TestSite_Kill kills the process again and again while crawlers read all pages: each response that a cache may keep
// has the status that the page has, and the others have none that says more than that the server is not ready.
func TestSite_Kill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	serve := func() *process {
		return startProcess(t, "--data", data, "--no-demo", "--site", "testdata/site", "--site-url", siteURL)
	}
	p := serve()
	paths := sitePaths(t, &p.Instance)
	var root atomic.Value
	root.Store(p.Root)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var right, unavailable atomic.Int64
	stop := make(chan struct{})
	var crawlers sync.WaitGroup
	for range 4 {
		crawlers.Go(func() {
			for {
				for path, want := range paths {
					select {
					case <-stop:
						return
					default:
					}
					at := root.Load().(string)
					if at == "" { // it is killed
						time.Sleep(time.Millisecond)
						continue
					}
					resp, err := client.Get(at + path)
					if err != nil || root.Load() != at {
						continue
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					kept := strings.Contains(resp.Header.Get("Cache-Control"), "public")
					switch {
					case resp.StatusCode == want:
						right.Add(1)
					case resp.StatusCode == http.StatusServiceUnavailable && !kept:
						unavailable.Add(1)
					default:
						t.Errorf("%s: %d, want %d; Cache-Control %s", path, resp.StatusCode, want, resp.Header.Get("Cache-Control"))
					}
				}
			}
		})
	}
	for range 3 {
		enough := right.Load() + 300
		eventually(t, func() error {
			if n := right.Load(); n < enough {
				return fmt.Errorf("%d responses of %d", n, enough)
			}
			return nil
		})
		root.Store("") // another server may take its port
		p.Kill()
		p = serve()
		root.Store(p.Root)
	}
	close(stop)
	crawlers.Wait()
	t.Logf("%d right responses, %d of a server that was not ready", right.Load(), unavailable.Load())
}
