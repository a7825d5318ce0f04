package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/graph/auth"
	"byline/internal/account"
	"byline/store/blog"
)

// holdingProxy is a proxy of the engine that holds one write of a projection, and records the status of every
// write.
type holdingProxy struct {
	mu       sync.Mutex
	armed    bool          // guarded by mu; the next write of a projection is held
	watching bool          // guarded by mu
	held     chan struct{} // closed when a write is held
	release  chan struct{} // closed to forward it
	released sync.Once
	writes   []string // guarded by mu; while watching: method, path and status
	lists    int      // guarded by mu; while watching: queries of leases
}

// start starts the proxy of the engine at the address.
func (h *holdingProxy) start(t *testing.T, address string) (root string) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.ErrorLog = log.New(io.Discard, "", 0) // requests that are aborted when the test ends
	proxy.ModifyResponse = func(r *http.Response) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.watching {
			return nil
		}
		query := r.Request.Header.Get("x-ms-documentdb-query") != "" ||
			strings.Contains(r.Request.Header.Get("Content-Type"), "query")
		if strings.Contains(r.Request.URL.Path, "/colls/leases/docs/usernames.") {
			return nil // the lease of the usernames' sweep lasts longer, and the instance still owns it
		}
		if r.Request.Method != http.MethodGet && !query {
			h.writes = append(h.writes, fmt.Sprint(r.Request.Method, " ", r.Request.URL.Path, " ", r.StatusCode))
		} else if query && strings.Contains(r.Request.URL.Path, "/colls/leases/") {
			h.lists++
		}
		return nil
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		hold := h.armed && r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/colls/users/docs/")
		if hold {
			h.armed = false
		}
		h.mu.Unlock()
		if hold {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			close(h.held)
			<-h.release
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(h.forward) // before Close, which waits for the held request
	return s.URL
}

// forward forwards the held write.
func (h *holdingProxy) forward() { h.released.Do(func() { close(h.release) }) }

func (h *holdingProxy) set(armed, watching bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed, h.watching = armed, watching
}

// TestPausedInstance_WritesNothing pauses an instance (SIGSTOP) while its write of a projection is in flight, waits
// until another has acquired its leases and made progress, and resumes it: none of its writes succeeds.
func TestPausedInstance_WritesNothing(t *testing.T) {
	t.Parallel()
	engine := startEngine(t)
	h := &holdingProxy{held: make(chan struct{}), release: make(chan struct{})}
	paused := startProcess(t, "--cosmos-endpoint", h.start(t, engine.address))
	paused.Do("ada", createUser, map[string]any{"name": "ada"})
	post := at(t, paused.Do("ada", createPost, map[string]any{"title": "Notes", "content": "x"}), "createPost.post.id")
	paused.Do("ada", likePost, map[string]any{"post": post})
	status := func() string {
		var out, log output
		if status := run(t.Context(), append([]string{"views", "status"}, engine.flags()...), &out, &log,
			nil); status != 0 {
			t.Fatalf("%s\nthe engine: %s", log.String(), engine.log)
		}
		return out.String()
	}
	// column returns a column of the status, by range.
	column := func(n int) (all []string) {
		for _, row := range strings.Split(status(), "\n") {
			if cells := strings.Split(row, "|"); len(cells) > n && strings.Contains(cells[1], "projections-") {
				all = append(all, strings.TrimSpace(cells[n]))
			}
		}
		return all
	}
	const ownerColumn, generationColumn = 4, 5
	db, err := account.Flags{CosmosEndpoint: engine.flags()[1]}.Open(t.Context(), slog.New(slog.DiscardHandler),
		account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	likes := func(want string) error { // in the views: an instance shows the counts that it has written at once
		for name, partition := range map[string]string{"feed": "post", "users": blog.UserID(auth.DemoIssuer, "ada")} {
			c, err := db.Client().NewContainer("blog", name)
			if err != nil {
				return err
			}
			r, err := c.NewQueryItemsPager("SELECT VALUE c.likeCount FROM c WHERE c.type = 'post'",
				azcosmos.NewPartitionKeyString(partition), nil).NextPage(t.Context())
			if got := fmt.Sprintf("%s", r.Items); err != nil || got != "["+want+"]" {
				return fmt.Errorf("the summaries in %s count %s likes, want %s: %v", name, got, want, err)
			}
		}
		return nil
	}
	eventually(t, func() error { return likes("1") })
	var owners []string
	eventually(t, func() error {
		if owners = column(ownerColumn); len(owners) != 2 || owners[0] != owners[1] || owners[0] == "nobody" {
			return fmt.Errorf("the ranges have the owners %v", owners)
		}
		return nil
	})

	other := startProcess(t, engine.flags()...)
	for _, name := range []string{"grace", "hedy", "ivan"} {
		other.Do(name, createUser, map[string]any{"name": name})
	}
	h.set(true, false)
	other.Do("grace", likePost, map[string]any{"post": post})
	<-h.held
	if err := paused.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hedy", "ivan"} { // the held write counts two likes
		other.Do(name, likePost, map[string]any{"post": post})
	}
	eventually(t, func() error {
		for _, owner := range column(ownerColumn) {
			if owner == owners[0] {
				return errors.New("the leases are not acquired")
			}
		}
		return likes("4")
	})
	before := fmt.Sprint(column(ownerColumn), column(generationColumn))

	h.set(false, true)
	h.forward()
	eventually(t, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.writes) == 0 {
			return errors.New("the held write has no response")
		}
		return nil
	})
	if err := paused.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if n := strings.Count(paused.Log.String(), "lease lost"); n < 2 || h.lists < 6 {
			return fmt.Errorf("%d of 2 leases lost, leases listed %d times: %s", n, h.lists, paused.Log)
		}
		return nil
	})
	h.mu.Lock()
	t.Logf("writes: %q", h.writes)
	for _, w := range h.writes {
		if strings.HasSuffix(w, " 200") || strings.HasSuffix(w, " 201") || strings.HasSuffix(w, " 204") {
			t.Errorf("a write succeeded: %s", w)
		}
	}
	h.mu.Unlock()
	if after := fmt.Sprint(column(ownerColumn), column(generationColumn)); after != before {
		t.Errorf("the leases were %s and are %s", before, after)
	}
	if err := likes("4"); err != nil {
		t.Error(err)
	}
}
