package graph

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/graph/limit"
	"byline/graph/transport"
	"byline/internal/testkit"
	"byline/store/blog"
)

// liveBlog serves a small blog that runs the background work of its store.
func liveBlog(t testing.TB, o Options) (*testBlog, *httptest.Server) {
	t.Helper()
	return liveOn(t, o, smallBlog, httptest.NewServer)
}

// liveInBubble is live for a test in a synctest bubble.
func liveInBubble(t testing.TB, o Options) (*testBlog, *httptest.Server) {
	t.Helper()
	return liveOn(t, o, smallBlogInBubble, func(h http.Handler) *httptest.Server {
		return testkit.PipeServer(t, h, nil)
	})
}

func liveOn(
	t testing.TB, o Options, open func(testing.TB, Options) *testBlog, serve func(http.Handler) *httptest.Server,
) (*testBlog, *httptest.Server) {
	t.Helper()
	streams, end := context.WithCancel(context.Background())
	o.Streams = streams
	b := open(t, o)
	project(t, b)
	server := serve(b)
	t.Cleanup(func() {
		end()
		server.Close()
		b.Handler.(*transport.Handler).Wait()
	})
	return b, server
}

// postID is the store's id of a post.
func (b *testBlog) postID(t testing.TB, title string) string {
	t.Helper()
	id, err := parseIDOf(globalid.Post, "id", b.names["post:"+title])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func project(t testing.TB, b *testBlog) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.store.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
}

// peer is the client's end of a WebSocket.
type peer struct {
	t testing.TB
	*websocket.Conn
}

// dial connects; protocol may be "".
func dial(t testing.TB, server *httptest.Server, protocol string, h http.Header) *peer {
	t.Helper()
	o := &websocket.DialOptions{HTTPHeader: h, HTTPClient: server.Client()}
	if protocol != "" {
		o.Subprotocols = []string{protocol}
	}
	c, res, err := websocket.Dial(t.Context(), server.URL+"/graphql", o)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body != nil {
		res.Body.Close()
	}
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { c.CloseNow() })
	return &peer{t, c}
}

func (p *peer) send(format string, args ...any) {
	p.t.Helper()
	if err := p.Write(p.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		p.t.Fatal(err)
	}
}

// receive returns the next message as text.
func (p *peer) receive() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	_, b, err := p.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// expect receives a message, and compares it without its session token.
func (p *peer) expect(want string) {
	p.t.Helper()
	if got := withoutSession(p.receive()); got != want {
		p.t.Fatalf("got %s\nwant %s", got, want)
	}
}

// closed waits for the server to close the connection.
func (p *peer) closed() websocket.CloseError {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	for {
		_, _, err := p.Read(ctx)
		var closed websocket.CloseError
		if errors.As(err, &closed) {
			return closed
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *peer) init() *peer {
	p.t.Helper()
	p.send(`{"type":"connection_init"}`)
	p.expect(`{"type":"connection_ack"}`)
	return p
}

func (p *peer) subscribe(kind, id, query string) {
	p.t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(`{"id":%q,"type":%q,"payload":%s}`, id, kind, body)
}

const modern, legacy = "graphql-transport-ws", "graphql-ws"

func TestWebSocket(t *testing.T) {
	for _, d := range []struct{ protocol, subscribe, next, complete string }{
		{modern, "subscribe", "next", "complete"},
		{legacy, "start", "data", "stop"},
	} {
		t.Run(d.protocol, func(t *testing.T) {
			b, server := liveBlog(t, Options{})
			p := dial(t, server, d.protocol, nil)
			p.send(`{"type":"connection_init","payload":{"Authorization":"Bearer demo:ada"}}`)
			p.expect(`{"type":"connection_ack"}`)

			p.subscribe(d.subscribe, "q", `{ viewer { username } }`)
			p.expect(`{"type":"` + d.next + `","id":"q","payload":{"data":{"viewer":{"username":"ada"}}}}`)
			p.expect(`{"type":"complete","id":"q"}`)
			p.subscribe(d.subscribe, "q",
				b.fill(`mutation { createComment(input: {postId: "<post:notes>", content: "by socket"}) { comment { content } } }`))
			p.expect(`{"type":"` + d.next +
				`","id":"q","payload":{"data":{"createComment":{"comment":{"content":"by socket"}}}}}`)
			p.expect(`{"type":"complete","id":"q"}`)

			p.subscribe(d.subscribe, "s",
				b.fill(`subscription { commentAdded(postId: "<post:engines>") { content author { username createdAt } } }`))
			p.subscribe(d.subscribe, "p", b.fill(`subscription { postChanged(id: "<post:moths>") { title } }`))
			p.subscribe(d.subscribe, "q", "{__typename}")
			p.expect(`{"type":"` + d.next + `","id":"q","payload":{"data":{"__typename":"Query"}}}`)
			p.expect(`{"type":"complete","id":"q"}`)
			opened(t, b, 2)
			b.comment(t, "grace", b.postID(t, "engines"), "first")
			first := p.receive()
			if !strings.HasPrefix(first,
				`{"type":"`+d.next+
					`","id":"s","payload":{"data":{"commentAdded":{"content":"first","author":{"username":"grace","createdAt":"20`) {
				t.Errorf("%s", first)
			}

			// A completed operation sends nothing more, and its id is free again.
			p.send(`{"id":"s","type":%q}`, d.complete)
			opened(t, b, 1)
			b.comment(t, "grace", b.postID(t, "engines"), "nobody listens")
			p.subscribe(d.subscribe, "s", `{ feed(first: 101) { __typename } }`)
			refused := p.receive()
			if !strings.HasPrefix(refused, `{"type":"`+d.next+`","id":"s","payload":{"errors":[{"message":`) ||
				!strings.Contains(refused, "BAD_USER_INPUT") {
				t.Errorf("%s", refused)
			}
			p.expect(`{"type":"complete","id":"s"}`)

			// The deletion of a post completes its subscriptions.
			if err := b.store.DeletePost(t.Context(), subjectID("grace"), b.postID(t, "moths")); err != nil {
				t.Fatal(err)
			}
			p.expect(`{"type":"complete","id":"p"}`)
			if err := p.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Error(err)
			}
			opened(t, b, 0)
		})
	}
}

// Errors of an event are those of any operation: they have a path from the root, and null propagates to nullable
// parents.
func TestWebSocket_EventErrors(t *testing.T) {
	b, server := liveBlog(t, Options{})
	p := dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1",
		`subscription { news: postPublished { title comments(first: 0) { edges { cursor } } } }`)
	opened(t, b, 1)
	b.post(t, "ada", "News", "Something.")
	var m struct{ Payload testResponse }
	if err := json.Unmarshal([]byte(p.receive()), &m); err != nil {
		t.Fatal(err)
	}
	a := m.Payload
	if string(a.Data) != "null" || a.code() != "BAD_USER_INPUT" || a.field() != "first" ||
		fmt.Sprint(a.Errors[0].Path) != "[news comments]" {
		t.Errorf("%s %+v", a.Data, a.Errors)
	}
}

// opened waits until there are n streams.
func opened(t testing.TB, b *testBlog, n int) {
	t.Helper()
	testkit.Until(t, func() error {
		if have := b.subscribers(t); have != n {
			return fmt.Errorf("%d streams, want %d", have, n)
		}
		return nil
	})
}

func TestWebSocket_Refusals(t *testing.T) {
	b, server := liveBlog(t, Options{})
	for name, tt := range map[string]struct {
		query, code string
	}{
		"a document that does not parse": {`subscription {`, "GRAPHQL_PARSE_FAILED"},
		"an invalid document":            {`subscription { nothing }`, "GRAPHQL_VALIDATION_FAILED"},
		"two subscriptions in one": {`subscription { a: postPublished { id } b: postPublished { id } }`,
			"GRAPHQL_VALIDATION_FAILED"},
		"a malformed id": {`subscription { postChanged(id: "x") { id } }`, "BAD_USER_INPUT"},
		"the id of a user": {b.fill(`subscription { postChanged(id: "<user:ada>") { id } }`),
			"BAD_USER_INPUT"},
		"a post that does not exist": {`subscription { commentAdded(postId: "` + postGlobalID("nothing") +
			`") { id } }`, "NOT_FOUND"},
		"an anonymous mutation": {b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { id } } }`),
			"UNAUTHENTICATED"},
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, server, modern, nil).init()
			p.subscribe("subscribe", "1", tt.query)
			var m struct {
				Type, ID string
				Payload  []struct {
					Message    string
					Extensions struct{ Code, RequestID string }
				}
			}
			if err := json.Unmarshal([]byte(p.receive()), &m); err != nil {
				t.Fatal(err)
			}
			if m.Type != "error" || m.ID != "1" || len(m.Payload) != 1 || m.Payload[0].Extensions.Code != tt.code ||
				m.Payload[0].Extensions.RequestID == "" {
				t.Errorf("%+v", m)
			}
			p.subscribe("subscribe", "1", "{__typename}") // the id is free, and the connection still open
			p.expect(`{"type":"next","id":"1","payload":{"data":{"__typename":"Query"}}}`)

			legacyPeer := dial(t, server, legacy, nil).init()
			legacyPeer.subscribe("start", "1", tt.query)
			if got := legacyPeer.receive(); !strings.HasPrefix(got, `{"type":"error","id":"1","payload":{"message":`) {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestWebSocket_CloseCodes(t *testing.T) {
	down := verifierFunc(func(string) (auth.Viewer, error) {
		return auth.Viewer{}, &blog.Error{Code: blog.Unavailable, Op: "verify token"}
	})
	_, server := liveBlog(t, Options{})
	_, trouble := liveBlog(t, Options{Verifier: down})
	for name, tt := range map[string]struct {
		server   *httptest.Server
		protocol string
		messages []string
		code     websocket.StatusCode
	}{
		"no protocol":     {protocol: "none", code: 4406},
		"not JSON":        {messages: []string{"x"}, code: 4400},
		"two values":      {messages: []string{"{} {}"}, code: 4400},
		"no type":         {messages: []string{"{}"}, code: 4400},
		"an unknown type": {messages: []string{`{"type":"start"}`}, code: 4400},
		"subscribe before init": {messages: []string{
			`{"type":"subscribe","id":"1","payload":{"query":"{__typename}"}}`}, code: 4401},
		"a second init": {messages: []string{`{"type":"connection_init"}`, `{"type":"connection_init"}`},
			code: 4429},
		"an init that is a list": {messages: []string{`{"type":"connection_init","payload":[1]}`}, code: 4400},
		"an invalid token": {messages: []string{
			`{"type":"connection_init","payload":{"authorization":"Bearer nobody"}}`}, code: 4403},
		"a provider that is down": {server: trouble,
			messages: []string{`{"type":"connection_init","payload":{"authorization":"Bearer x"}}`}, code: 1013},
		"no id": {messages: []string{`{"type":"connection_init"}`,
			`{"type":"subscribe","payload":{"query":"{__typename}"}}`}, code: 4400},
		"no query": {messages: []string{`{"type":"connection_init"}`, `{"type":"subscribe","id":"1","payload":{}}`},
			code: 4400},
		"no payload": {messages: []string{`{"type":"connection_init"}`, `{"type":"subscribe","id":"1"}`}, code: 4400},
		"an id twice": {messages: []string{`{"type":"connection_init"}`,
			`{"type":"subscribe","id":"1","payload":{"query":"subscription{postPublished{id}}"}}`,
			`{"type":"subscribe","id":"1","payload":{"query":"{__typename}"}}`}, code: 4409},
		"a message over the limit": {messages: []string{`{"type":"ping","payload":{"a":"` +
			strings.Repeat("x", limit.MaxBody) + `"}}`}, code: 1009},
		"connection_terminate, legacy": {protocol: legacy,
			messages: []string{`{"type":"connection_init"}`, `{"type":"connection_terminate"}`}, code: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			protocol := tt.protocol
			switch protocol {
			case "":
				protocol = modern
			case "none":
				protocol = ""
			}
			s := tt.server
			if s == nil {
				s = server
			}
			p := dial(t, s, protocol, nil)
			for _, m := range tt.messages {
				if err := p.Write(t.Context(), websocket.MessageText, []byte(m)); err != nil {
					break // the server has closed the connection
				}
			}
			if got := p.closed(); got.Code != tt.code || got.Reason == "" && tt.code != 1000 && tt.code != 1009 {
				t.Errorf("%v", got)
			}
		})
	}
}

// In the older protocol the application learns of a refused connection from connection_error, and may then end the
// client, which otherwise reconnects for ever. In the newer one there is only the code of the close frame.
func TestWebSocket_ConnectionError(t *testing.T) {
	down := verifierFunc(func(string) (auth.Viewer, error) {
		return auth.Viewer{}, &blog.Error{Code: blog.Unavailable, Op: "verify token"}
	})
	_, server := liveBlog(t, Options{})
	_, trouble := liveBlog(t, Options{Verifier: down})
	for name, tt := range map[string]struct {
		server *httptest.Server
		init   string
		header http.Header
		code   string
		closed websocket.StatusCode
	}{
		"an invalid token": {server: server, init: `{"Authorization":"Bearer nobody"}`,
			code: "UNAUTHENTICATED", closed: 4403},
		"an invalid token in the upgrade": {server: server, init: `{}`,
			header: http.Header{"Authorization": {"Bearer nobody"}}, code: "UNAUTHENTICATED", closed: 4403},
		"a provider that is down": {server: trouble, init: `{"Authorization":"Bearer x"}`, code: "UNAVAILABLE",
			closed: 1013},
		"two sessions": {server: server, init: `{}`, header: http.Header{sessionHeader: {"a", "b"}},
			code: "BAD_USER_INPUT", closed: 4403},
		"an invalid cost detail": {server: server, init: `{"Byline-Cost":"much"}`, code: "BAD_USER_INPUT",
			closed: 4400},
	} {
		for _, protocol := range []string{legacy, modern} {
			t.Run(name+", "+protocol, func(t *testing.T) {
				p := dial(t, tt.server, protocol, tt.header)
				p.send(`{"type":"connection_init","payload":%s}`, tt.init)
				if protocol == legacy {
					var m struct {
						Type, ID string
						Payload  struct {
							Message    string
							Extensions struct{ Code string }
						}
					}
					if err := json.Unmarshal([]byte(p.receive()), &m); err != nil {
						t.Fatal(err)
					}
					if m.Type != "connection_error" || m.ID != "" || m.Payload.Message == "" ||
						m.Payload.Extensions.Code != tt.code {
						t.Errorf("%+v, want a connection_error with %s", m, tt.code)
					}
				}
				_, message, err := p.Read(t.Context())
				var closed websocket.CloseError
				if !errors.As(err, &closed) || closed.Code != tt.closed || closed.Reason == "" {
					t.Errorf("%s, %v; want close code %d", message, err, tt.closed)
				}
			})
		}
	}
}

func TestWebSocket_Ping(t *testing.T) {
	_, server := liveBlog(t, Options{})
	p := dial(t, server, modern, nil)
	p.send(`{"type":"ping","payload":{"n":1}}`) // even before init
	p.expect(`{"type":"pong","payload":{"n":1}}`)
	p.send(`{"type":"ping"}`)
	p.expect(`{"type":"pong"}`)
	p.send(`{"type":"pong"}`)
	p.init()
}

func TestWebSocket_AuthorizationHeader(t *testing.T) {
	_, server := liveBlog(t, Options{})
	p := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:ada"}}).init()
	p.subscribe("subscribe", "1", "{ viewer { username } }")
	p.expect(`{"type":"next","id":"1","payload":{"data":{"viewer":{"username":"ada"}}}}`)
}

func TestWebSocket_CrossOriginIsRefused(t *testing.T) {
	_, server := liveBlog(t, Options{})
	_, res, err := websocket.Dial(t.Context(), server.URL+"/graphql", &websocket.DialOptions{
		Subprotocols: []string{modern}, HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}})
	if err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("%v %v", res, err)
	}
	dial(t, server, modern, http.Header{"Origin": {server.URL}}).init()
}

func TestWebSocket_TooManyOperations(t *testing.T) {
	b, server := liveBlog(t, Options{})
	p := dial(t, server, modern, nil).init()
	for i := range maxOperations {
		p.subscribe("subscribe", fmt.Sprint(i), `subscription { postPublished { id } }`)
	}
	opened(t, b, maxOperations)
	p.subscribe("subscribe", "more", `{__typename}`)
	if got := p.receive(); !strings.HasPrefix(got, `{"type":"error","id":"more",`) ||
		!strings.Contains(got, "THROTTLED") {
		t.Errorf("%s", got)
	}
	p.send(`{"id":"0","type":"complete"}`)
	opened(t, b, maxOperations-1)
}

func TestWebSocket_ClosedWhenServerStops(t *testing.T) {
	streams, stop := context.WithCancel(t.Context())
	b := smallBlog(t, Options{Streams: streams})
	project(t, b)
	server := httptest.NewServer(b)
	defer server.Close()
	p := dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1", `subscription { postPublished { id } }`)
	opened(t, b, 1)
	stop()
	defer b.Handler.(*transport.Handler).Wait()
	if got := p.closed(); got.Code != websocket.StatusGoingAway {
		t.Errorf("%v", got)
	}
	opened(t, b, 0)
}

// hijacking calls before just before a connection is hijacked.
type hijacking struct {
	http.ResponseWriter
	before func()
}

func (h hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.before()
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// Wait counts a WebSocket before the server stops counting its request, so that none is left after waiting for both.
func TestWait_WebSocketBeingAccepted(t *testing.T) {
	streams, stop := context.WithCancel(t.Context())
	b := smallBlog(t, Options{Streams: streams})
	waited := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.ServeHTTP(hijacking{w, func() {
			go func() {
				defer close(waited)
				b.Handler.(*transport.Handler).Wait()
			}()
			select {
			case <-waited:
				t.Error("Wait returned before the WebSocket had started")
			case <-time.After(50 * time.Millisecond):
			}
		}}, r)
	}))
	defer server.Close()
	p := dial(t, server, modern, nil).init()
	stop()
	p.closed()
	testkit.Receive(t, waited)
}

// A client that does not read is disconnected, with a close code if it resumes reading in time.
func TestWebSocket_SlowClientIsDisconnected(t *testing.T) {
	for name, tt := range map[string]struct {
		comments int
		late     time.Duration // before it resumes reading
		closed   bool          // with a code
	}{
		"backlog, resumes in time -> close code":     {comments: 120, closed: true},
		"backlog, resumes too late -> cut off":       {comments: 120, late: writeTimeout},
		"one event, within writeTimeout -> received": {comments: 1, late: writeTimeout - time.Second},
		"one event, after writeTimeout -> cut off":   {comments: 1, late: writeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, server := liveInBubble(t, Options{})
				query := b.fill(`subscription { commentAdded(postId: "<post:notes>") { content } }`)
				slow := dial(t, server, modern, nil).init()
				slow.subscribe("subscribe", "1", query)
				quick := dial(t, server, modern, nil).init()
				quick.subscribe("subscribe", "1", query)
				opened(t, b, 2)
				const together = 8
				for sent := 0; sent < tt.comments; sent += together {
					n := min(together, tt.comments-sent)
					for i := range n {
						b.comment(t, "ada", b.postID(t, "notes"), fmt.Sprint("number ", sent+i))
					}
					for range n {
						if got := quick.receive(); !strings.HasPrefix(got, `{"type":"next"`) {
							t.Fatal(got)
						}
					}
				}
				testkit.Advance(tt.late)
				if tt.comments > 1 {
					opened(t, b, 1)
				}
				var err error
				for n := 0; err == nil; n++ {
					var message []byte
					if _, message, err = slow.Read(t.Context()); err == nil && tt.comments == 1 {
						if tt.late >= writeTimeout {
							t.Errorf("received after the write timeout: %s", message)
						}
						return
					}
				}
				var closed websocket.CloseError
				if errors.As(err, &closed) != tt.closed ||
					tt.closed && (closed.Code != closeTooSlow || closed.Reason != messageTooSlow) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestWebSocket_ReconnectsLeakNothing(t *testing.T) {
	b, server := liveBlog(t, Options{})
	query := b.fill(`subscription { commentAdded(postId: "<post:notes>") { content } }`)
	connect := func(i int) {
		p := dial(t, server, []string{modern, legacy}[i%2], nil).init()
		p.subscribe([]string{"subscribe", "start"}[i%2], "1", query)
		if i%3 == 0 {
			p.CloseNow()
		} else if err := p.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
	}
	for i := range 100 {
		connect(i)
	}
	opened(t, b, 0)
	testkit.Until(t, func() error {
		stacks := make([]byte, 1<<20)
		left := string(stacks[:runtime.Stack(stacks, true)])
		if strings.Contains(left, "byline/graph/transport.(*socket)") || strings.Contains(left, "coder/websocket") {
			return errors.New(left)
		}
		return nil
	})
}

// An id is free as soon as its client has completed the operation.
func TestWebSocket_OperationIDIsReusableAtOnce(t *testing.T) {
	b, server := liveBlog(t, Options{})
	p := dial(t, server, modern, nil).init()
	for range 50 {
		p.subscribe("subscribe", "1", `subscription { postPublished { id } }`)
		p.send(`{"id":"1","type":"complete"}`)
	}
	p.subscribe("subscribe", "2", "{__typename}")
	p.expect(`{"type":"next","id":"2","payload":{"data":{"__typename":"Query"}}}`)
	opened(t, b, 0)
}
