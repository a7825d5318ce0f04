package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"byline/graph/document"
	"byline/graph/limit"
	"byline/internal/testkit"
)

// Subscriptions over a limit are refused, over WebSocket and as event streams. The others continue, and the end of one
// frees its slot.
func TestSubscriptionLimit(t *testing.T) {
	b, server := liveBlog(t, Options{Capacity: limit.Capacity{Subscriptions: 3, SubscriptionsEach: 2}})
	const query = `subscription { postPublished { title } }`
	sign := func(name string) http.Header { return http.Header{"Authorization": {"Bearer demo:" + name}} }

	ada := dial(t, server, modern, sign("ada")).init()
	ada.subscribe("subscribe", "1", query)
	opened(t, b, 1)
	stream := openEvents(t, server, http.MethodPost, mediaEvents, "demo:ada", query)
	opened(t, b, 2)
	refused := func(code string) {
		t.Helper()
		for _, again := range []string{"over the same connection", "over another"} {
			p := ada
			if again == "over another" {
				p = dial(t, server, modern, sign("ada")).init()
			}
			p.subscribe("subscribe", "more", query)
			if got := p.receive(); !strings.HasPrefix(got, `{"type":"error","id":"more",`) ||
				!strings.Contains(got, code) || !strings.Contains(got, `"retryAfterMs":1000`) {
				t.Errorf("%s: %s", again, got)
			}
		}
		e := openEvents(t, server, http.MethodPost, mediaEvents, "demo:ada", query)
		if got := e.next(); !strings.HasPrefix(got, "next ") || !strings.Contains(got, code) {
			t.Errorf("as an event stream: %s", got)
		}
	}
	refused("THROTTLED")

	grace := dial(t, server, modern, sign("grace")).init()
	grace.subscribe("subscribe", "1", query)
	opened(t, b, 3)
	refused("UNAVAILABLE")

	if a := post(t, b, "demo:ada", `mutation { createPost(input: {title: "News", content: "x"}) { post { title } } }`,
		nil); a.code() != "" {
		t.Fatal(a.body)
	}
	for name, p := range map[string]*peer{"ada": ada, "grace": grace} {
		if got, want := p.receive(),
			`{"type":"next","id":"1","payload":{"data":{"postPublished":{"title":"News"}}}}`; got != want {
			t.Errorf("%s gets %s", name, got)
		}
	}
	stream.expect(t, `next {"data":{"postPublished":{"title":"News"}}}`)

	stream.Body.Close()
	ada.send(`{"id":"1","type":"complete"}`)
	opened(t, b, 1)
	// The slots are free shortly after the streams have ended.
	again := 0
	testkit.WaitFor(t, func() bool {
		again++
		ada.subscribe("subscribe", fmt.Sprint("again ", again), query)
		return b.subscribers(t) >= 3
	})
}

// A subscription holds its document and request in memory, so a large one counts as several.
func TestSubscriptionLimit_LargeOnesCountAsSeveral(t *testing.T) {
	options := Options{Capacity: limit.Capacity{SubscriptionsEach: 2}}
	const short = `subscription { postPublished { title } }`
	long := strings.Repeat("x", limit.SubscriptionBytes)
	ada := http.Header{"Authorization": {"Bearer demo:ada"}}
	for name, subscribe := range map[string]func(*testing.T, *httptest.Server){
		"by its id": func(t *testing.T, s *httptest.Server) {
			dial(t, s, modern, ada).init().subscribe("subscribe", long, short)
		},
		"by its text": func(t *testing.T, s *httptest.Server) {
			dial(t, s, modern, ada).init().subscribe("subscribe", "1", short+" #"+long[limit.SubscriptionBytes/2:])
		},
		"by its document": func(t *testing.T, s *httptest.Server) {
			dial(t, s, modern, ada).init().subscribe("subscribe", "1",
				`subscription { postPublished { `+
					strings.Repeat("id ", limit.SubscriptionBytes/document.BytesPerToken)+`} }`)
		},
		"by its extensions": func(t *testing.T, s *httptest.Server) {
			dial(t, s, modern,
				ada).init().send(`{"id":"1","type":"subscribe","payload":{"query":%q,"extensions":{"x":%q}}}`, short,
				long)
		},
		"as an event stream": func(t *testing.T, s *httptest.Server) {
			openEvents(t, s, http.MethodPost, mediaEvents, "demo:ada", short+" #"+long[limit.SubscriptionBytes/2:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, server := liveBlog(t, options)
			subscribe(t, server)
			opened(t, b, 1)
			p := dial(t, server, modern, ada).init()
			p.subscribe("subscribe", "more", short)
			if got := p.receive(); !strings.Contains(got, "THROTTLED") {
				t.Errorf("one more: %s", got)
			}
		})
	}

	// Each short one counts as one; a long one that has ended no longer counts.
	b, server := liveBlog(t, options)
	p := dial(t, server, modern, ada).init()
	p.subscribe("subscribe", long, short)
	opened(t, b, 1)
	p.send(`{"id":%q,"type":"complete"}`, long)
	n := 0
	testkit.WaitFor(t, func() bool {
		n++
		p.subscribe("subscribe", fmt.Sprint(n), short)
		return b.subscribers(t) >= options.Capacity.SubscriptionsEach
	})
}
