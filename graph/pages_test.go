package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"byline/graph/refusal"
	"byline/graph/transport"
)

// pageRequest is the request of a page, of the client at an address.
func pageRequest(t *testing.T, address, agent string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.RemoteAddr = address
	r.Header.Set("User-Agent", agent)
	return r
}

const (
	searchEngine = "Mozilla/5.0 (compatible; Examplebot/2.1; +https://bot.example)"
	browser      = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)

// TestPages_CrawlersShareTheirRate: crawlers at all addresses are one client, and readers do not feel them. A request
// counts once, whatever a page queries.
func TestPages_CrawlersShareTheirRate(t *testing.T) {
	const perSecond = 2
	b := newBlog(t, Options{RequestsPerAddress: perSecond,
		KnownDocuments: trust(t, manifestOf(t, map[string]string{"nothing": "{ __typename }"}))})
	gateway := b.Handler.(*transport.Handler)
	admitted := 0
	var err error
	for err == nil {
		at := fmt.Sprintf("192.0.2.%d:1", 1+admitted%200)
		r, done, admission := gateway.Admit(httptest.NewRecorder(), pageRequest(t, at, searchEngine))
		if err = admission; err == nil {
			admitted++
			for range 3 {
				if _, err := gateway.Query(r, "nothing", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		done()
	}
	refused, ok := err.(*transport.QueryError)
	if !ok || refused.Code != refusal.Throttled || refused.RetryAfter == "" {
		t.Errorf("crawlers beyond their rate: %#v", err)
	}
	if admitted < 10*perSecond || admitted > 12*perSecond { // and what was refilled meanwhile
		t.Errorf("%d requests of crawlers, want the burst of one client", admitted)
	}
	_, done, err := gateway.Admit(httptest.NewRecorder(), pageRequest(t, "192.0.2.1:1", browser))
	defer done()
	if err != nil {
		t.Errorf("a reader at the address of a crawler: %v", err)
	}
}

// TestPages_OneQueryOfCrawlers: crawlers execute one query at a time, and readers as many as they send.
func TestPages_OneQueryOfCrawlers(t *testing.T) {
	for agent, want := range map[string]int64{searchEngine: 1, browser: 4} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := liveInBubble(t, Options{KnownDocuments: trust(t, manifestOf(t, map[string]string{
				"post": "query($slug: String!) { postBySlug(slug: $slug) { title } }"}))})
			gateway := b.Handler.(*transport.Handler)
			var now atomic.Int64
			release := make(chan struct{})
			b.wire.setFail(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "/posts/docs/") { // a read of a post
					now.Add(1)
					<-release
				}
				return nil, nil
			})
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() {
					r, done, err := gateway.Admit(httptest.NewRecorder(), pageRequest(t, "192.0.2.7:1", agent))
					defer done()
					if err == nil {
						_, err = gateway.Query(r, "post", map[string]string{"slug": fmt.Sprint("a-post-abcdefghijklmno", n)})
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if got := now.Load(); got != want {
				t.Errorf("%s: %d queries at a time, want %d", agent, got, want)
			}
			close(release)
			all.Wait()
		})
	}
}
