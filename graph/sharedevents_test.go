package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"byline/graph/limit"
	"byline/internal/testkit"
)

// Subscribers with the same selection share the memory of an event; those with other selections do not.
func TestEvents_SharedEventCountsOnce(t *testing.T) {
	const length, subscribers = 60_000, 50
	b, server := liveOn(t, Options{Capacity: limit.Capacity{Responses: length * 25}}, smallBlog,
		// where writes wait for their readers
		func(h http.Handler) *httptest.Server { return testkit.PipeServer(t, h, nil) })
	query := func(alias string) string {
		return fmt.Sprintf(`subscription { %s: postPublished { title content author { username } } }`, alias)
	}
	peers := make([]*peer, subscribers)
	for i := range peers {
		peers[i] = dial(t, server, modern, nil).init()
		peers[i].subscribe("subscribe", "1", query("news"))
	}
	stream := openEvents(t, server, http.MethodPost, mediaEvents, "", query("news"))
	other := dial(t, server, modern, nil).init()
	other.subscribe("subscribe", "1", query("other"))
	opened(t, b, subscribers+2)
	responses := func() float64 { return metricOf(t, b.metrics, "byline_graphql_responses_total") }
	before := responses()
	b.post(t, "ada", "long", strings.Repeat("x", length))
	testkit.WaitFor(t, func() bool { return responses() == before+subscribers+2 })
	data := func(alias string) string {
		return `{"data":{"` + alias + `":{"title":"long","content":"` + strings.Repeat("x", length) +
			`","author":{"username":"ada"}}}}`
	}
	message := func(alias string) string { return `{"type":"next","id":"1","payload":` + data(alias) + `}` }
	var reading sync.WaitGroup
	for i, p := range append(peers, other) {
		alias := "news"
		if i == subscribers {
			alias = "other"
		}
		reading.Go(func() {
			if _, got, err := p.Read(t.Context()); err != nil || string(got) != message(alias) {
				t.Errorf("subscriber %d: %.80s %v", i, got, err)
			}
		})
	}
	stream.expect(t, "next "+data("news"))
	reading.Wait()
}

// Responses that depend on the viewer are not shared.
func TestEvents_ViewerFieldsAreNotShared(t *testing.T) {
	b, server := liveBlog(t, Options{})
	b.like(t, "ada", b.postID(t, "notes"))
	query := b.fill(`subscription { postChanged(id: "<post:notes>") { title viewerHasLiked } }`)
	peers := map[string]*peer{}
	for i := range 6 {
		name := []string{"ada", "grace"}[i%2]
		p := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:" + name}}).init()
		p.subscribe("subscribe", "1", query)
		peers[fmt.Sprint(name, " ", i)] = p
	}
	opened(t, b, len(peers))
	b.comment(t, "grace", b.postID(t, "notes"), "changes it")
	for name, p := range peers {
		// An event of the like may come first.
		testkit.WaitFor(t, func() bool {
			got := p.receive()
			if want := fmt.Sprintf(`"viewerHasLiked":%t`, strings.HasPrefix(name, "ada")); !strings.Contains(got,
				want) {
				t.Errorf("%s gets %s", name, got)
			}
			return true
		})
	}
}

// A home feed has the posts of those whom the viewer follows, from the next event on. Anonymous viewers have none.
func TestEvents_Home(t *testing.T) {
	b, server := liveBlog(t, Options{})
	b.user(t, "linus")
	b.follow(t, "ada", "grace")
	b.follow(t, "linus", "grace")
	b.follow(t, "linus", "ada")
	query := `subscription { homePublished { title author { username } } }`
	peers := map[string]*peer{}
	for _, name := range []string{"ada", "linus", "grace"} {
		p := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:" + name}}).init()
		p.subscribe("subscribe", "1", query)
		peers[name] = p
	}
	anonymous := dial(t, server, modern, nil).init()
	anonymous.subscribe("subscribe", "1", query)
	if got := anonymous.receive(); !strings.Contains(got, `"UNAUTHENTICATED"`) {
		t.Errorf("an anonymous viewer gets %s", got)
	}
	opened(t, b, len(peers))
	expect := func(name, title, author string) {
		t.Helper()
		want := fmt.Sprintf(`{"type":"next","id":"1","payload":{"data":{"homePublished":{"title":%q,"author":{"username":%q}}}}}`,
			title, author)
		if got := peers[name].receive(); got != want {
			t.Errorf("%s gets %s, want %s", name, got, want)
		}
	}
	b.post(t, "grace", "of grace", "text")
	expect("ada", "of grace", "grace")
	expect("linus", "of grace", "grace")
	b.post(t, "ada", "of ada", "text")
	expect("linus", "of ada", "ada")
	b.follow(t, "grace", "ada") // without a new subscription
	b.post(t, "ada", "of ada again", "text")
	expect("grace", "of ada again", "ada")
	expect("linus", "of ada again", "ada")
}

// A slow event delays other events of its viewer, but not those of other viewers with the same selections.
func TestEvents_SlowEventDelaysOnlyItsViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := liveInBubble(t, Options{})
		const shared = 10
		connect := func(name string) (received chan string) {
			p := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:" + name}}).init()
			for n := range shared {
				p.subscribe("subscribe", fmt.Sprint("shared ", n),
					b.fill(fmt.Sprintf(`subscription { n%d: commentAdded(postId: "<post:notes>") { content } }`, n)))
			}
			received = make(chan string, 100)
			go func() {
				for {
					_, message, err := p.Read(t.Context())
					if err != nil {
						return
					}
					received <- string(message)
				}
			}()
			return received
		}
		slow := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:ada"}}).init()
		slow.subscribe("subscribe", "slow",
			b.fill(`subscription { commentAdded(postId: "<post:notes>") { post { likes { edges { node { user { username } } } } } } }`))
		ada, grace := connect("ada"), connect("grace")
		opened(t, b, 1+2*shared)

		proceed := make(chan struct{})
		b.wire.setFail(func(r *http.Request) (*http.Response, error) {
			if describeRequest(r).what == "query posts" {
				<-proceed
			}
			return nil, nil
		})
		for range 2 {
			b.comment(t, "grace", b.postID(t, "notes"), "slow for ada")
			testkit.Advance(time.Second)
		}
		if len(grace) != 2*shared || len(ada) > shared {
			t.Errorf("while the slow event executes its viewer gets %d events, and another viewer %d", len(ada),
				len(grace))
		}
		close(proceed)
		testkit.Advance(time.Second)
		if len(ada) != 2*shared {
			t.Errorf("afterwards its viewer has %d events, want %d", len(ada), 2*shared)
		}
	})
}
