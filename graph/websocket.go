package graph

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

const (
	initTimeout   = 10 * time.Second // for the client to send connection_init
	pingInterval  = 30 * time.Second
	pingTimeout   = 10 * time.Second // for the answer
	maxOperations = 100              // of one connection at a time

	// writeTimeout is how long a client may take for one message or event.
	writeTimeout = 10 * time.Second

	// messageTimeout is how long a message may take to arrive once it has begun.
	messageTimeout = 30 * time.Second

	// refusedPause is how long a connection is not read after an operation over a limit. A client
	// that sends thousands at once would otherwise keep the processors busy with refusals.
	refusedPause = 100 * time.Millisecond
)

const messageExpired = "the bearer token has expired"

// Codes with which a connection is closed: those of the graphql-transport-ws
// protocol, and of RFC 6455.
const (
	closeGoingAway       = websocket.StatusGoingAway
	closeTooSlow         = websocket.StatusTryAgainLater
	closeInternal        = websocket.StatusInternalError
	closeBadMessage      = websocket.StatusCode(4400)
	closeUnauthorized    = websocket.StatusCode(4401)
	closeForbidden       = websocket.StatusCode(4403)
	closeBadProtocol     = websocket.StatusCode(4406)
	closeInitTimeout     = websocket.StatusCode(4408)
	closeDuplicate       = websocket.StatusCode(4409)
	closeTooManyInits    = websocket.StatusCode(4429)
	closeNormal          = websocket.StatusNormalClosure
	closeVerifierTrouble = websocket.StatusTryAgainLater
)

// webSocketTransport is GraphQL over WebSocket, in the protocol graphql-transport-ws
// of npm graphql-ws and in its predecessor graphql-ws of npm
// subscriptions-transport-ws. A connection carries operations of every kind. It
// belongs to the viewer that its first message authenticates.
type webSocketTransport struct {
	store     *store.Store
	verifier  auth.Verifier
	streams   context.Context // connections end when it does
	open      *sync.WaitGroup // of the connections
	requests  limit.Requests
	memory    *limit.Memory
	admission *limit.Admission
	origins   *origins
}

var _ graphql.Transport = webSocketTransport{}

// Supports implements graphql.Transport.
func (webSocketTransport) Supports(r *http.Request) bool {
	return isUpgrade(r)
}

func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// dialect is what the two protocols call the same things.
type dialect struct {
	subscribe, complete string // of the client
	next                string // of the server
}

var dialects = map[string]dialect{
	"graphql-transport-ws": {subscribe: "subscribe", complete: "complete", next: "next"},
	"graphql-ws":           {subscribe: "start", complete: "stop", next: "data"},
}

// Do implements graphql.Transport. It leaves the connection to a goroutine of its own,
// so that an idle one does not hold on to what the request needed.
func (t webSocketTransport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	if err := t.requests.AdmitAddress(requestFrom(r.Context()).address); err != nil {
		prepare(w.Header(), r)
		writeError(w, r, exec, mediaResponse, err) // no client reads more than the status
		return
	}
	t.open.Add(1) // while the server still waits for the request
	conn, err := websocket.Accept(leanWriter{w}, r, &websocket.AcceptOptions{Subprotocols: []string{"graphql-transport-ws", "graphql-ws"},
		InsecureSkipVerify: t.origins.admits(r.Header.Get("Origin"))}) // of other origins, only the server's own passes
	if err != nil {
		t.open.Done()
		return // it has answered: no upgrade, or another origin
	}
	conn.SetReadLimit(limit.MaxBody)
	s := &socket{conn: conn, exec: exec, store: t.store, verifier: t.verifier, requests: t.requests, memory: t.memory, admission: t.admission, address: requestFrom(r.Context()).address,
		upgrade: http.Header{"Authorization": r.Header.Values("Authorization"), sessionHeader: r.Header.Values(sessionHeader)}, cost: requestFrom(r.Context()).meter.Detail, running: map[string]*operation{}}
	go func() {
		defer t.open.Done()
		s.serve(t.streams)
	}()
}

// leanWriter gives connections that are taken over small buffers: most of them wait,
// and the server's own would be most of what they hold.
type leanWriter struct{ http.ResponseWriter }

// Sizes of the buffers. What does not fit goes past them, but for its beginning.
const (
	socketReadBuffer  = 256
	socketWriteBuffer = 512
)

// Hijack implements http.Hijacker.
func (w leanWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// What the client sent at once moves along.
	n := buffers.Reader.Buffered()
	r := bufio.NewReaderSize(io.MultiReader(io.LimitReader(buffers, int64(n)), conn), max(n, socketReadBuffer))
	if _, err := r.Peek(n); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, bufio.NewReadWriter(r, bufio.NewWriterSize(conn, socketWriteBuffer)), nil
}

// serve reads what the client sends until the connection is closed, and returns when
// nothing is left of it.
func (s *socket) serve(streams context.Context) {
	defer s.conn.CloseNow()
	d, known := dialects[s.conn.Subprotocol()]
	if !known {
		s.close(closeBadProtocol, "Subprotocol not acceptable")
		return
	}
	s.dialect = d
	ctx, cancel := context.WithCancel(context.WithoutCancel(streams))
	s.ctx = ctx
	defer s.operations.Wait()
	defer cancel()
	stopping := context.AfterFunc(streams, func() { s.close(closeGoingAway, "the server is stopping") })
	defer stopping()
	late := time.AfterFunc(initTimeout, func() { s.close(closeInitTimeout, "Connection initialisation timeout") })
	defer late.Stop()
	alive := s.keepAlive()
	defer alive()
	defer func() {
		if s.expiry != nil {
			s.expiry.Stop()
		}
	}()

	for s.next(ctx, late) {
	}
}

// next waits for a message and has it handled, by another goroutine: what waits keeps a
// small stack. It reports false when the connection has been closed.
func (s *socket) next(ctx context.Context, late *time.Timer) bool {
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return false
	}
	more := make(chan bool, 1)
	go func() { more <- s.handle(r, late) }()
	return <-more
}

// handle reads the rest of a message and does what it says. It reports false when the
// connection has been closed.
func (s *socket) handle(r io.Reader, late *time.Timer) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			_ = dispatchError(s.ctx, s.exec, caught(v)) // tells the operator
			more = s.refuse(closeInternal, messageInternal)
		}
	}()
	slow := time.AfterFunc(messageTimeout, func() { s.conn.CloseNow() })
	message, done, err := s.memory.ReadAll(r, -1)
	slow.Stop()
	switch {
	case errors.Is(err, limit.ErrTooManyBodies):
		return s.refuse(closeTooSlow, limit.ErrTooManyBodies.Message)
	case err != nil:
		return false
	}
	defer done()
	return s.receive(message, late)
}

// socket is one connection.
type socket struct {
	conn      *websocket.Conn
	dialect   dialect
	exec      graphql.GraphExecutor
	store     *store.Store
	verifier  auth.Verifier
	requests  limit.Requests
	memory    *limit.Memory
	admission *limit.Admission
	address   string          // see limit.ClientKey
	upgrade   http.Header     // what the request that was upgraded said of its client
	ctx       context.Context // ends with the connection

	// Of the reading goroutine.
	acknowledged bool
	viewer       string
	session      *cosmos.Session
	moderator    bool
	expiry       *time.Timer // closes the connection when its token ends; nil: it does not
	cost         cost.Detail

	operations sync.WaitGroup
	mu         sync.Mutex
	running    map[string]*operation // guarded by mu; by the client's id
}

// operation is one that is under way.
type operation struct{ cancel context.CancelFunc }

// message is what a client sends, in either protocol.
type message struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// close closes the connection, which ends the reading goroutine.
func (s *socket) close(code websocket.StatusCode, reason string) { s.conn.Close(code, reason) }

// keepAlive pings the client from time to time and closes the connection if there is
// no answer. It occupies no goroutine in between.
func (s *socket) keepAlive() (stop func()) {
	var timer *time.Timer
	timer = time.AfterFunc(pingInterval, func() {
		ctx, cancel := context.WithTimeout(s.ctx, pingTimeout)
		defer cancel()
		if s.conn.Ping(ctx) != nil {
			s.conn.CloseNow()
			return
		}
		timer.Reset(pingInterval)
	})
	return func() { timer.Stop() }
}

// receive handles a message of the client. It reports false when the connection has
// been closed.
func (s *socket) receive(raw []byte, late *time.Timer) bool {
	var m message
	if err := document.Decode(string(raw), &m); err != nil {
		return s.refuse(closeBadMessage, "Invalid message")
	}
	switch m.Type {
	case "connection_init":
		late.Stop()
		return s.init(m)
	case "connection_terminate":
		return s.refuse(closeNormal, "")
	case "ping":
		return s.write("pong", "", m.Payload) == nil
	case "pong":
		return true
	case s.dialect.subscribe:
		return s.subscribe(m)
	case s.dialect.complete:
		s.mu.Lock()
		defer s.mu.Unlock()
		if op := s.running[m.ID]; op != nil {
			op.cancel()
			delete(s.running, m.ID) // the client may use the id again at once
		}
		return true
	}
	return s.refuse(closeBadMessage, "Invalid message")
}

func (s *socket) refuse(code websocket.StatusCode, reason string) bool {
	s.close(code, reason)
	return false
}

// init signs the connection in, by the bearer token that the payload's Authorization
// names, or else by the request's own; and opens its session, likewise. So it is with
// what is to be told of costs.
func (s *socket) init(m message) bool {
	if s.acknowledged {
		return s.refuse(closeTooManyInits, "Too many initialisation requests")
	}
	var payload map[string]json.RawMessage
	if len(m.Payload) > 0 && json.Unmarshal(m.Payload, &payload) != nil {
		return s.refuse(closeBadMessage, "Invalid message")
	}
	h := s.upgrade
	for name, value := range payload {
		var text string
		if json.Unmarshal(value, &text) != nil || text == "" {
			continue
		}
		switch name = http.CanonicalHeaderKey(name); name {
		case "Authorization", sessionHeader:
			h.Set(name, text)
		case cost.Header:
			detail, err := cost.ParseDetail(text)
			if err != nil {
				return s.refuse(closeBadMessage, classify(err).message)
			}
			s.cost = detail
		}
	}
	who := &request{}
	if err := who.authenticate(s.ctx, h, s.verifier); err != nil {
		code := closeForbidden
		if c := blog.CodeOf(err); c == blog.Unavailable || c == blog.Canceled {
			code = closeVerifierTrouble
		}
		return s.refuse(code, refusal.Truncate(classify(err).message, 120))
	}
	var err error
	if s.session, err = openSession(h, s.store); err != nil {
		return s.refuse(closeForbidden, refusal.Truncate(classify(err).message, 120))
	}
	s.upgrade = nil
	s.viewer, s.moderator, s.acknowledged = who.viewer, who.moderator, true
	if !who.expires.IsZero() {
		s.expiry = time.AfterFunc(time.Until(who.expires), func() { s.close(closeForbidden, messageExpired) })
	}
	return s.write("connection_ack", "") == nil
}

// subscribe starts an operation.
func (s *socket) subscribe(m message) bool {
	if !s.acknowledged {
		return s.refuse(closeUnauthorized, "Unauthorized")
	}
	params := &graphql.RawParams{ReadTime: graphql.TraceTiming{Start: graphql.Now()}}
	if m.ID == "" || document.ReadParams(string(m.Payload), params) != nil || !document.Present(params) {
		return s.refuse(closeBadMessage, "Invalid message")
	}
	params.ReadTime.End = graphql.Now()
	who := &request{id: newRequestID(), viewer: s.viewer, moderator: s.moderator, address: s.address, session: s.session, size: len(m.ID) + len(m.Payload), meter: cost.Meter{Detail: s.cost}}
	ctx, cancel := context.WithCancel(withRequest(graphql.StartOperationTrace(s.ctx), who))
	op := &operation{cancel}
	s.mu.Lock()
	_, taken := s.running[m.ID]
	var refused error
	if !taken {
		if refused = s.requests.AdmitAddress(s.address); refused == nil {
			refused = s.requests.AdmitViewer(s.viewer)
		}
		if full := len(s.running) >= maxOperations; full {
			refused = &refusal.Error{Code: refusal.Throttled, Message: "too many operations at a time on this connection"}
		}
	}
	if !taken && refused == nil {
		s.running[m.ID] = op
		s.operations.Add(1)
	}
	s.mu.Unlock()
	switch {
	case taken:
		cancel()
		return s.refuse(closeDuplicate, "Subscriber for "+refusal.Truncate(m.ID, 80)+" already exists")
	case refused != nil:
		defer cancel()
		if s.answer(m.ID, s.exec.DispatchError(ctx, gqlerror.List{gqlerror.Wrap(refused)})) != nil {
			return false
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(refusedPause):
		}
		return true
	}
	go func() { s.run(begin(ctx, s.exec, s.admission, params), op, m.ID) }()
	return true
}

// run sends the responses of an operation and tells the client when it is over, unless
// the client has ended it. It does not wait for that.
func (s *socket) run(responses *responses, op *operation, id string) {
	refused := false
	forget := func() { // before the client hears of the end, and may use the id again
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[id] == op {
			delete(s.running, id)
		}
	}
	responses.each(func(r *graphql.Response) error {
		if refused = r.Data == nil; refused {
			forget()
		}
		taken, err := requestFrom(responses.ctx).hold(s.memory, len(r.Data), responses.kind == ast.Mutation)
		if responses.ctx.Err() != nil {
			taken()
			return nil // the client has ended it, and may use the id for another
		}
		if err != nil {
			_ = dispatchError(responses.ctx, s.exec, err) // logs it
			s.close(closeTooSlow, limit.ErrTooManyResponses.Message)
			return err
		}
		defer taken()
		return s.answer(id, r)
	}, func(slow bool, err error) {
		defer s.operations.Done()
		done := responses.ctx.Err() != nil
		op.cancel()
		if !refused {
			forget()
		}
		switch {
		case slow:
			s.close(closeTooSlow, messageTooSlow)
		case err != nil:
			s.conn.CloseNow()
		case !done && !refused:
			_ = s.write("complete", id) // the client may be gone
		}
	})
}

// answer sends a response. One without data refuses the operation, and ends it.
func (s *socket) answer(id string, r *graphql.Response) error {
	switch {
	case r.Data != nil:
		return s.write(s.dialect.next, id, pieces(r)...)
	case s.dialect.next == "data": // has room for one error
		return s.write("error", id, appendJSON(nil, r.Errors[0]))
	}
	return s.write("error", id, appendJSON(nil, r.Errors))
}

var errNotWritten = errors.New("the message was not written in time")

// write sends a message. id and payload, which may be in pieces, may be missing. A long message is a
// frame for each piece, so that nothing is copied.
func (s *socket) write(kind, id string, payload ...[]byte) error {
	b := append(make([]byte, 0, 128), `{"type":"`...)
	b = append(append(b, kind...), '"')
	if id != "" {
		b = appendJSON(append(b, `,"id":`...), id)
	}
	if slices.ContainsFunc(payload, func(p []byte) bool { return p != nil }) {
		b = append(b, `,"payload":`...)
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, writeTimeout, errNotWritten)
	defer cancel()
	all := joined(slices.Concat([][]byte{b}, payload, [][]byte{[]byte("}")})...)
	if len(all) == 1 {
		return s.conn.Write(ctx, websocket.MessageText, all[0])
	}
	w, err := s.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for _, p := range all {
		if _, err := w.Write(p); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}
