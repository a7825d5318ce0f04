package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/internal/pipetest"
	"byline/internal/waittest"
	"byline/store"
)

// stall holds up what goes over the wire to Cosmos DB until release is called.
func stall(t testing.TB, b *testBlog) (release func()) {
	t.Helper()
	stalled := make(chan struct{})
	release = sync.OnceFunc(func() { close(stalled) })
	t.Cleanup(release)
	b.wire.fail = func(r *http.Request) (*http.Response, error) {
		select {
		case <-stalled:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return nil, nil
	}
	return release
}

// Where too much is to be done, operations are refused before they are looked at, over
// HTTP and over WebSocket; afterwards they are not.
func TestOverloadedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting atomic.Int64
		b, server := liveInBubble(t, Options{ShedLoad: true, Capacity: limit.Capacity{Runnable: func() int { return int(waiting.Load()) }}})
		p := dial(t, server, modern, nil).init()
		ask := func(accept string) answer {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/graphql", unread{t})
			if waiting.Load() == 0 {
				r = httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"{ __typename }"}`))
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", accept)
			server.Config.Handler.ServeHTTP(w, r)
			a := answer{status: w.Code, header: w.Result().Header, body: w.Body.String()}
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := ask(mediaJSON); a.code() != "" {
			t.Fatal(a.body)
		}
		waiting.Store(1 << 20)
		waittest.For(t, func() bool {
			p.subscribe("subscribe", "1", `{ __typename }`)
			if got := p.receive(); strings.HasPrefix(got, `{"type":"error","id":"1"`) && strings.Contains(got, "UNAVAILABLE") {
				return true
			}
			p.expect(`{"type":"complete","id":"1"}`)
			return false
		})
		for _, accept := range []string{mediaJSON, mediaResponse} {
			counted := metricOf(t, b.metrics, "byline_graphql_responses_total")
			a := ask(accept)
			if n := metricOf(t, b.metrics, "byline_graphql_responses_total") - counted; n != 1 {
				t.Errorf("counted %.0f times", n)
			}
			if a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, `"retryAfterMs":1000`) {
				t.Errorf("status %d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
			}
		}
		waiting.Store(0)
		for range 3 {
			if a := ask(mediaResponse); a.code() != "" {
				t.Errorf("afterwards: %s", a.body)
			}
		}
	})
}

// unread is a body that nobody reads.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a refused request is read")
	return 0, io.EOF
}

// A query that Cosmos DB does not answer has its time.
func TestExecutionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallBlogInBubble(t, Options{}) // whose change feed nobody follows: that would stall, too
		release := stall(t, b)
		server := pipetest.NewServer(t, b, nil)
		query := b.fill(`{ post(id: "<post:moths>") { title } }`)
		began := time.Now()
		took := func() {
			t.Helper()
			if d := time.Since(began); d != executionTimeout {
				t.Errorf("took %v", d)
			}
			began = time.Now()
		}
		if a := post(t, b, "", query, nil); a.code() != "UNAVAILABLE" {
			t.Errorf("over HTTP: %s", a.body)
		}
		took()
		p := dial(t, server, modern, nil).init()
		p.subscribe("subscribe", "1", query)
		if got := p.receive(); !strings.Contains(got, "UNAVAILABLE") {
			t.Errorf("over WebSocket: %s", got)
		}
		p.expect(`{"type":"complete","id":"1"}`)
		took()
		if got := openEvents(t, server, http.MethodPost, mediaEvents, "", query).next(); !strings.Contains(got, "UNAVAILABLE") {
			t.Errorf("as an event: %s", got)
		}
		took()
		release()
		if a := post(t, b, "", query, nil); a.code() != "" {
			t.Errorf("afterwards: %s", a.body)
		}
	})
}

// Large bodies and messages that do not arrive are as many as there is room for, others
// are refused, and small ones are answered all the while.
func TestLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := liveInBubble(t, Options{Capacity: limit.Capacity{LargeBodies: 2 * limit.MaxBody}})
		h := server.Config.Handler
		large := `{"query":"{ __typename }"` + strings.Repeat(" ", 2*limit.SmallBody) + "}"
		post := func(body io.Reader) (answer, error) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/graphql", body)
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(w, r)
			a := answer{status: w.Code, header: w.Result().Header, body: w.Body.String()}
			return a, json.Unmarshal(w.Body.Bytes(), &a)
		}
		type result struct {
			answer
			err error
		}
		answers := make(chan result)
		var writers []*io.PipeWriter
		for range 2 { // as large as may be, for all that is known
			r, w := io.Pipe()
			writers = append(writers, w)
			go func() { a, err := post(r); answers <- result{a, err} }()
			if _, err := io.WriteString(w, large[:2*limit.SmallBody]); err != nil {
				t.Fatal(err)
			}
		}
		a, err := post(strings.NewReader(large))
		if err != nil || a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" || a.header.Get("Retry-After") != "1" {
			t.Errorf("one more: %d %s, %v", a.status, a.body, err)
		}
		p := dial(t, server, modern, nil).init()
		go func() { // the server does not read all of it
			_ = p.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"ping","payload":{"x":%q}}`, strings.Repeat(" ", 2*limit.SmallBody)))
		}()
		if got := p.closed(); got.Code != closeTooSlow {
			t.Errorf("a message: %v", got)
		}
		if a, err := post(strings.NewReader(`{"query":"{ __typename }"}`)); err != nil || a.status != http.StatusOK {
			t.Errorf("a small one: %d %s, %v", a.status, a.body, err)
		}
		for _, w := range writers {
			if _, err := io.WriteString(w, large[2*limit.SmallBody:]); err != nil {
				t.Fatal(err)
			}
			w.Close()
		}
		for range 2 {
			if r := <-answers; r.err != nil || r.status != http.StatusOK {
				t.Errorf("those that were there: %d %s, %v", r.status, r.body, r.err)
			}
		}
		p = dial(t, server, modern, nil).init()
		p.send(`{"type":"ping","payload":{"x":%q}}`, strings.Repeat(" ", 2*limit.SmallBody))
		if got := p.receive(); !strings.HasPrefix(got, `{"type":"pong"`) {
			t.Errorf("a message afterwards: %.100s", got)
		}

		// A message that begins and does not end.
		w, err := p.Writer(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(w, strings.Repeat(" ", 2*limit.SmallBody)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, _, err := p.Read(t.Context()); err == nil || time.Since(began) < messageTimeout {
			t.Errorf("a message takes for ever: %v after %v", err, time.Since(began))
		}
	})
}

// reluctant is a client that takes its answer when it is told to.
type reluctant struct {
	*httptest.ResponseRecorder
	asked, take chan struct{}
}

func (r reluctant) Write(p []byte) (int, error) {
	close(r.asked)
	<-r.take
	return r.ResponseRecorder.Write(p)
}

// Large answers that are not taken are as many as there is room for: others are refused,
// but for those of mutations, and small ones are given all the while.
func TestLargeResponses(t *testing.T) {
	const length = 200_000 // bytes
	b, server := live(t, Options{Capacity: limit.Capacity{Responses: length * 3 / 2}})
	b.post(t, "ada", "long", strings.Repeat("ä", length/2))
	large := b.fill(`{ post(id: "<post:long>") { content } }`)
	write := b.fill(`mutation { likePost(input: {postId: "<post:long>"}) { post { content } } }`)
	ask := func(accept string) answer {
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, large)))
		r.Header.Set("Content-Type", mediaJSON)
		r.Header.Set("Accept", accept)
		return send(t, b, r)
	}

	changes := openEvents(t, server, "POST", mediaEvents, "", b.fill(`subscription { postChanged(id: "<post:long>") { content } }`))
	opened(t, b, 1)
	client := reluctant{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, large)))
		r.Header.Set("Content-Type", mediaJSON)
		b.ServeHTTP(client, r)
	}()
	<-client.asked
	var good, refused float64
	count := func(wantGood, wantRefused float64) { // of those since the last time
		t.Helper()
		all := metricOf(t, b.metrics, "byline_graphql_responses_total")
		nowGood := metricOf(t, b.metrics, "byline_graphql_responses_total", refusal.Unavailable)
		newGood, newRefused := nowGood-good, all-nowGood-refused
		if newGood != wantGood || newRefused != wantRefused {
			t.Errorf("%.0f answers and %.0f refusals are counted, want %.0f and %.0f", newGood, newRefused, wantGood, wantRefused)
		}
		good, refused = nowGood, all-nowGood
	}
	count(1, 0)
	if a := ask(mediaJSON); a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" || a.header.Get("Retry-After") != "1" || a.Data != nil {
		t.Errorf("one more: %d %.300s", a.status, a.body)
	}
	count(0, 1)
	if a := ask(mediaEvents); !strings.HasPrefix(a.body, `event: next
data: {"errors":[{"message":"`+limit.ErrTooManyResponses.Message) || !strings.HasSuffix(a.body, "event: complete\ndata: \n\n") {
		t.Errorf("as an event: %.300s", a.body)
	}
	count(0, 1)
	p := dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1", large)
	if got := p.closed(); got.Code != closeTooSlow || got.Reason != limit.ErrTooManyResponses.Message {
		t.Errorf("a message: %v", got)
	}
	count(0, 1)
	if a := post(t, b, "demo:grace", write, nil); a.code() != "" || len(a.Data) < length {
		t.Errorf("a mutation: %.300s", a.body)
	}
	if got := changes.next(); !strings.HasPrefix(got, `next {"errors":[{"message":"`+limit.ErrTooManyResponses.Message) {
		t.Errorf("what happens: %.300s", got)
	}
	changes.expect(t, "complete ", "") // and no more of it, as something is missing
	count(1, 1)
	if a := post(t, b, "", `{ __typename }`, nil); a.code() != "" {
		t.Errorf("a small one: %s", a.body)
	}
	close(client.take)
	<-done
	count(1, 0)
	if n := client.Body.Len(); n < length {
		t.Errorf("the first: %d bytes", n)
	}
	for _, accept := range []string{mediaJSON, mediaEvents, mediaJSON} { // each gives its room back
		if a := ask(accept); len(a.body) < length {
			t.Errorf("afterwards: %.300s", a.body)
		}
	}
	count(3, 0)
	p = dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1", large)
	if got := p.receive(); len(got) < length {
		t.Errorf("afterwards, a message: %.300s", got)
	}
	p.expect(`{"type":"complete","id":"1"}`)
	count(1, 0)
	if a := ask(mediaJSON); len(a.body) < length {
		t.Errorf("and after that: %.300s", a.body)
	}
}

// A cached response that does not fit into memory is counted once, as UNAVAILABLE and not as a cache hit.
func TestLargeResponses_CachedResponseWithoutMemoryIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 200_000 // bytes
		b := newBlogOf(t, Options{ResponseCacheBytes: 4 << 20, Capacity: limit.Capacity{Responses: length * 3 / 2}}, store.Options{PollInterval: 200 * time.Millisecond}, 1<<20)
		running, stop := context.WithCancel(t.Context())
		var background sync.WaitGroup
		background.Go(func() { _ = b.store.Run(running) }) // it ends with its context alone
		defer background.Wait()
		defer stop()
		b.user(t, "ada")
		b.post(t, "ada", "long", strings.Repeat("ä", length/2))
		ask := func(w http.ResponseWriter, field string) {
			r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, b.fill(`{ post(id: "<post:long>") { `+field+` } }`))))
			r.Header.Set("Content-Type", mediaJSON)
			b.ServeHTTP(w, r)
		}
		hits := func() float64 { return metricOf(t, b.metrics, "byline_graphql_cached_responses_total") }
		both := func() { // one after the other
			waittest.Advance(time.Second) // for polls, in which the tail learns of the post, and confirms what was read
			ask(httptest.NewRecorder(), "content")
			ask(httptest.NewRecorder(), "text: content")
		}
		for range 5 {
			both()
		}
		before := hits()
		if both(); hits() != before+2 {
			t.Fatal("the responses are not cached")
		}

		client := reluctant{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			ask(client, "content")
		}()
		<-client.asked
		w := httptest.NewRecorder()
		if ask(w, "content"); w.Code != http.StatusOK { // the same response, in the same memory
			t.Errorf("the same response again: %d %.300s", w.Code, w.Body)
		}
		again, all := hits(), metricOf(t, b.metrics, "byline_graphql_responses_total")
		w = httptest.NewRecorder()
		ask(w, "text: content")
		if n := metricOf(t, b.metrics, "byline_graphql_responses_total") - all; w.Code != http.StatusServiceUnavailable || n != 1 || hits() != again {
			t.Errorf("%d, counted %.0f times, %.0f of them as from the cache", w.Code, n, hits()-again)
		}
		close(client.take)
		<-done
	})
}
