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
	"byline/internal/testkit"
	"byline/store"
)

// stall blocks all requests to Cosmos DB until release is called.
func stall(t testing.TB, b *testBlog) (release func()) {
	t.Helper()
	stalled := make(chan struct{})
	release = sync.OnceFunc(func() { close(stalled) })
	t.Cleanup(release)
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		select {
		case <-stalled:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return nil, nil
	})
	return release
}

// An overloaded server refuses operations before it reads them, over HTTP and over WebSocket, and admits them
// afterwards.
func TestOverloadedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waiting atomic.Int64
		b, server := liveInBubble(t, Options{Capacity: limit.Capacity{Runnable: func() int {
			return int(waiting.Load())
		}}})
		p := dial(t, server, modern, nil).init()
		do := func(accept string) testResponse {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/graphql", unread{t})
			if waiting.Load() == 0 {
				r = httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"{ __typename }"}`))
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", accept)
			server.Config.Handler.ServeHTTP(w, r)
			a := testResponse{status: w.Code, header: w.Result().Header, body: w.Body.String()}
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := do(mediaJSON); a.code() != "" {
			t.Fatal(a.body)
		}
		waiting.Store(1 << 20)
		testkit.WaitFor(t, func() bool {
			p.subscribe("subscribe", "1", `{ __typename }`)
			if got := p.receive(); strings.HasPrefix(got, `{"type":"error","id":"1"`) &&
				strings.Contains(got, "UNAVAILABLE") {
				return true
			}
			p.expect(`{"type":"complete","id":"1"}`)
			return false
		})
		for _, accept := range []string{mediaJSON, mediaResponse} {
			counted := metricOf(t, b.metrics, "byline_graphql_responses_total")
			a := do(accept)
			if n := metricOf(t, b.metrics, "byline_graphql_responses_total") - counted; n != 1 {
				t.Errorf("counted %.0f times, want once", n)
			}
			if a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" ||
				a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, `"retryAfterMs":1000`) {
				t.Errorf("status %d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.body)
			}
		}
		waiting.Store(0)
		for range 3 {
			if a := do(mediaResponse); a.code() != "" {
				t.Errorf("afterwards: %s", a.body)
			}
		}
	})
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body of a refused request is read")
	return 0, io.EOF
}

// A query fails after executionTimeout if Cosmos DB does not respond.
func TestExecutionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallBlogInBubble(t, Options{}) // without a change feed processor, which would stall, too
		release := stall(t, b)
		server := testkit.PipeServer(t, b, nil)
		query := b.fill(`{ post(id: "<post:moths>") { title } }`)
		began := time.Now()
		took := func() {
			t.Helper()
			if d := time.Since(began); d != executionTimeout {
				t.Errorf("took %v, want %v", d, executionTimeout)
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
		if got := openEvents(t, server, http.MethodPost, mediaEvents, "", query).next(); !strings.Contains(got,
			"UNAVAILABLE") {
			t.Errorf("as an event stream: %s", got)
		}
		took()
		release()
		if a := post(t, b, "", query, nil); a.code() != "" {
			t.Errorf("afterwards: %s", a.body)
		}
	})
}

// Large bodies and messages that are still arriving are limited by their memory: others are refused, while small ones
// succeed.
func TestLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := liveInBubble(t, Options{Capacity: limit.Capacity{LargeBodies: 2 * limit.MaxBody}})
		h := server.Config.Handler
		large := `{"query":"{ __typename }"` + strings.Repeat(" ", 2*limit.SmallBody) + "}"
		post := func(body io.Reader) (testResponse, error) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/graphql", body)
			r.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(w, r)
			a := testResponse{status: w.Code, header: w.Result().Header, body: w.Body.String()}
			return a, json.Unmarshal(w.Body.Bytes(), &a)
		}
		type result struct {
			testResponse
			err error
		}
		results := make(chan result)
		var writers []*io.PipeWriter
		for range 2 { // of unknown length, so counted as MaxBody
			r, w := io.Pipe()
			writers = append(writers, w)
			go func() { a, err := post(r); results <- result{a, err} }()
			if _, err := io.WriteString(w, large[:2*limit.SmallBody]); err != nil {
				t.Fatal(err)
			}
		}
		a, err := post(strings.NewReader(large))
		if err != nil || a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" ||
			a.header.Get("Retry-After") != "1" {
			t.Errorf("over the limit: %d %s, %v", a.status, a.body, err)
		}
		p := dial(t, server, modern, nil).init()
		go func() { // the server does not read all of it
			_ = p.Write(t.Context(), websocket.MessageText,
				fmt.Appendf(nil, `{"type":"ping","payload":{"x":%q}}`, strings.Repeat(" ", 2*limit.SmallBody)))
		}()
		if got := p.closed(); got.Code != closeTooSlow {
			t.Errorf("a message: %v", got)
		}
		if a, err := post(strings.NewReader(`{"query":"{ __typename }"}`)); err != nil || a.status != http.StatusOK {
			t.Errorf("a small body: %d %s, %v", a.status, a.body, err)
		}
		for _, w := range writers {
			if _, err := io.WriteString(w, large[2*limit.SmallBody:]); err != nil {
				t.Fatal(err)
			}
			w.Close()
		}
		for range 2 {
			if r := testkit.Receive(t, results); r.err != nil || r.status != http.StatusOK {
				t.Errorf("the first bodies: %d %s, %v", r.status, r.body, r.err)
			}
		}
		p = dial(t, server, modern, nil).init()
		p.send(`{"type":"ping","payload":{"x":%q}}`, strings.Repeat(" ", 2*limit.SmallBody))
		if got := p.receive(); !strings.HasPrefix(got, `{"type":"pong"`) {
			t.Errorf("a message afterwards: %.100s", got)
		}

		// A message that does not end.
		w, err := p.Writer(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(w, strings.Repeat(" ", 2*limit.SmallBody)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, _, err := p.Read(t.Context()); err == nil || time.Since(began) < messageTimeout {
			t.Errorf("an endless message: got %v after %v, want an error after %v", err, time.Since(began),
				messageTimeout)
		}
	})
}

// blockedWriter blocks writes of the response until take is closed.
type blockedWriter struct {
	*httptest.ResponseRecorder
	writing, take chan struct{}
	begin         *sync.Once
}

func newBlockedWriter() blockedWriter {
	return blockedWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{}), new(sync.Once)}
}

func (r blockedWriter) Write(p []byte) (int, error) {
	r.begin.Do(func() { close(r.writing) })
	<-r.take
	return r.ResponseRecorder.Write(p)
}

// blockedClients sends a request from as many clients, which do not take their responses, as there is memory for.
// take ends when all have their responses, which must have at least so many bytes.
func blockedClients(t *testing.T, h http.Handler, query string, length int) (n int, take func()) {
	t.Helper()
	var all []blockedWriter
	var done sync.WaitGroup
	for {
		client, ended := newBlockedWriter(), make(chan struct{})
		done.Go(func() {
			defer close(ended)
			r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, query)))
			r.Header.Set("Content-Type", mediaJSON)
			r.RemoteAddr = "127.0.0.1:1" // of a client of its own
			h.ServeHTTP(client, r)
		})
		testkit.Receive(t, client.writing)
		if client.Code == http.StatusServiceUnavailable {
			close(client.take)
			<-ended
			break
		}
		all = append(all, client)
	}
	return len(all), func() {
		for _, client := range all {
			close(client.take)
		}
		done.Wait()
		for _, client := range all {
			if n := client.Body.Len(); n < length {
				t.Errorf("a blocked client has %d bytes", n)
			}
		}
	}
}

// Large responses that clients do not take are limited by Capacity.Responses: others are refused, while small ones
// succeed. A mutation is executed, and says what it has written.
func TestLargeResponses(t *testing.T) {
	const length = 200_000 // bytes
	b, server := liveBlog(t, Options{Capacity: limit.Capacity{Responses: 20 * length}})
	b.post(t, "ada", "long", strings.Repeat("ä", length/2))
	large := b.fill(`{ post(id: "<post:long>") { content } }`)
	write := b.fill(`mutation { likePost(input: {postId: "<post:long>"}) { post { content } } }`)
	do := func(accept string) testResponse {
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, large)))
		r.Header.Set("Content-Type", mediaJSON)
		r.Header.Set("Accept", accept)
		return send(t, b, r)
	}

	changes := openEvents(t, server, "POST", mediaEvents, "",
		b.fill(`subscription { postChanged(id: "<post:long>") { content } }`))
	opened(t, b, 1)
	clients, take := blockedClients(t, b, large, length)
	if clients < 8 || clients > 15 {
		t.Errorf("%d responses at a time", clients)
	}
	var good, refused float64
	count := func(wantGood, wantRefused float64) { // since the last call
		t.Helper()
		all := metricOf(t, b.metrics, "byline_graphql_responses_total")
		nowGood := metricOf(t, b.metrics, "byline_graphql_responses_total", refusal.Unavailable)
		newGood, newRefused := nowGood-good, all-nowGood-refused
		if newGood != wantGood || newRefused != wantRefused {
			t.Errorf("counted %.0f responses and %.0f refusals, want %.0f and %.0f", newGood, newRefused, wantGood,
				wantRefused)
		}
		good, refused = nowGood, all-nowGood
	}
	count(float64(clients), 1)
	if a := do(mediaJSON); a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" ||
		a.header.Get("Retry-After") != "1" || a.Data != nil {
		t.Errorf("over the limit: %d %.300s", a.status, a.body)
	}
	count(0, 1)
	if a := do(mediaEvents); !strings.HasPrefix(a.body, `event: next
data: {"errors":[{"message":"`+limit.ErrTooManyResponses.Message) ||
		!strings.HasSuffix(a.body, "event: complete\ndata: \n\n") {
		t.Errorf("as an event stream: %.300s", a.body)
	}
	count(0, 1)
	p := dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1", large)
	if got := p.closed(); got.Code != closeTooSlow || got.Reason != limit.ErrTooManyResponses.Message {
		t.Errorf("a message: %v", got)
	}
	count(0, 1)
	a := post(t, b, "demo:grace", write, nil)
	if a.code() != "UNAVAILABLE" || string(a.Data) != `{"likePost":null}` ||
		a.Errors[0].Extensions["retryAfterMs"] != nil || a.Errors[0].Message != messageWritten {
		t.Errorf("a mutation: %.300s", a.body)
	}
	written, _ := a.Errors[0].Extensions["id"].(string)
	p = dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:grace"}}).init()
	p.subscribe("subscribe", "1", write)
	if got := p.receive(); !strings.Contains(got, `"type":"next"`) || !strings.Contains(got, written) {
		t.Errorf("a mutation over WebSocket: %.300s", got)
	}
	if got := changes.next(); !strings.HasPrefix(got,
		`next {"errors":[{"message":"`+limit.ErrTooManyResponses.Message) {
		t.Errorf("an event: %.300s", got)
	}
	changes.expect(t, "complete ", "") // the stream ends, as an event is missing
	count(0, 3)
	if a := post(t, b, "", fmt.Sprintf(`{ node(id: %q) { ... on Like { user { username } } } }`, written),
		nil); a.code() != "" || !strings.Contains(a.body, "grace") {
		t.Errorf("what was written, a small response: %s", a.body)
	}
	if a := post(t, b, "demo:grace", b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`),
		nil); a.code() != "" {
		t.Errorf("a mutation with a small payload: %.300s", a.body)
	}
	count(2, 0)
	take()
	for _, accept := range []string{mediaJSON, mediaEvents, mediaJSON} { // each releases its memory
		if a := do(accept); len(a.body) < length {
			t.Errorf("afterwards: %.300s", a.body)
		}
	}
	count(3, 0)
	p = dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1", large)
	if got := p.receive(); len(got) < length {
		t.Errorf("afterwards, over WebSocket: %.300s", got)
	}
	p.expect(`{"type":"complete","id":"1"}`)
	count(1, 0)
	if a := do(mediaJSON); len(a.body) < length {
		t.Errorf("after the message: %.300s", a.body)
	}
}

// A cached response that does not fit into memory is counted once, as UNAVAILABLE and not as a cache hit.
func TestLargeResponses_CachedResponseWithoutMemoryIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 200_000 // bytes
		b := newBlogOf(t, Options{ResponseCacheBytes: 4 << 20, Capacity: limit.Capacity{Responses: length * 6}},
			store.Options{PollInterval: 200 * time.Millisecond}, 1<<20)
		running, stop := context.WithCancel(t.Context())
		var background sync.WaitGroup
		background.Go(func() { _ = b.store.Run(running) }) // it returns only when its context ends
		defer background.Wait()
		defer stop()
		b.user(t, "ada")
		b.post(t, "ada", "long", strings.Repeat("ä", length/2))
		do := func(w http.ResponseWriter, field string) {
			r := httptest.NewRequest(http.MethodPost, "/graphql",
				strings.NewReader(fmt.Sprintf(`{"query":%q}`, b.fill(`{ post(id: "<post:long>") { `+field+` } }`))))
			r.Header.Set("Content-Type", mediaJSON)
			b.ServeHTTP(w, r)
		}
		hits := func() float64 { return metricOf(t, b.metrics, "byline_graphql_cached_responses_total") }
		fields := []string{"content", "a: content", "b: content", "c: content", "d: content"}
		each := func() { // one after the other
			testkit.Advance(time.Second) // for polls of the change feed, which confirm the reads
			for _, field := range fields {
				do(httptest.NewRecorder(), field)
			}
		}
		for range 5 {
			each()
		}
		before := hits()
		if each(); hits() != before+float64(len(fields)) {
			t.Fatal("the responses are not cached")
		}

		var clients []blockedWriter
		var done sync.WaitGroup
		for _, field := range fields[1:] {
			client := newBlockedWriter()
			clients = append(clients, client)
			done.Go(func() { do(client, field) })
			testkit.Receive(t, client.writing)
		}
		w := httptest.NewRecorder()
		if do(w, fields[1]); w.Code != http.StatusOK { // the same response, in the same memory
			t.Errorf("the same response again: %d %.300s", w.Code, w.Body)
		}
		again, all := hits(), metricOf(t, b.metrics, "byline_graphql_responses_total")
		w = httptest.NewRecorder()
		do(w, fields[0])
		if n := metricOf(t, b.metrics,
			"byline_graphql_responses_total") - all; w.Code != http.StatusServiceUnavailable || n != 1 ||
			hits() != again {
			t.Errorf("status %d, counted %.0f times, %.0f of them as cache hits", w.Code, n, hits()-again)
		}
		for _, client := range clients {
			close(client.take)
		}
		done.Wait()
	})
}
