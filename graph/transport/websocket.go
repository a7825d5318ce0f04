package transport

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

	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store/blog"
	"byline/store/cosmos/session"
)

const (
	initTimeout   = 10 * time.Second // for the client to send connection_init
	pingInterval  = 30 * time.Second
	pingTimeout   = 10 * time.Second // for the pong
	maxOperations = 100              // of one connection at a time

	// writeTimeout is how long a client may take to receive one message or event.
	writeTimeout = 10 * time.Second

	// messageTimeout is how long a message may take to arrive once it has begun.
	messageTimeout = 30 * time.Second

	// closeTimeout is how long a client may take to close a connection that the server closes.
	closeTimeout = 5 * time.Second

	// refusedPause is how long a connection is not read after an operation over a limit. A client
	// that sends thousands at once would otherwise keep the processors busy with refusals.
	refusedPause = 100 * time.Millisecond
)

const messageExpired = "the bearer token has expired"

// Codes with which a connection is closed: those of the graphql-transport-ws
// protocol, and of RFC 6455.
const (
	closeGoingAway    = websocket.StatusGoingAway
	closeTooSlow      = websocket.StatusTryAgainLater
	closeInternal     = websocket.StatusInternalError
	closeBadMessage   = websocket.StatusCode(4400)
	closeUnauthorized = websocket.StatusCode(4401)
	closeForbidden    = websocket.StatusCode(4403)
	closeBadProtocol  = websocket.StatusCode(4406)
	closeInitTimeout  = websocket.StatusCode(4408)
	closeDuplicate    = websocket.StatusCode(4409)
	closeTooManyInits = websocket.StatusCode(4429)
	closeNormal       = websocket.StatusNormalClosure
	closeVerifierDown = websocket.StatusTryAgainLater
)

// webSocketTransport is GraphQL over WebSocket, in the protocol graphql-transport-ws
// of npm graphql-ws and in its predecessor graphql-ws of npm
// subscriptions-transport-ws. A connection carries operations of every kind, of the
// viewer that its first message authenticates.
type webSocketTransport struct {
	*transport
	open    *sync.WaitGroup // the open connections
	origins *origins
}

func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// dialect has the message types that differ between the two protocols.
type dialect struct {
	subscribe, complete string // from the client
	next                string // from the server
}

var dialects = map[string]dialect{
	"graphql-transport-ws": {subscribe: "subscribe", complete: "complete", next: "next"},
	"graphql-ws":           {subscribe: "start", complete: "stop", next: "data"},
}

// older reports whether it is the dialect of graphql-ws, the older protocol.
func (d dialect) older() bool { return d.next == "data" }

// Do upgrades the request. It serves the connection in a new goroutine, so that an idle
// connection does not retain the request.
func (t webSocketTransport) Do(w http.ResponseWriter, r *http.Request) {
	if err := t.requests.AdmitAddress(RequestOf(r.Context()).address); err != nil {
		prepare(w.Header(), r)
		t.writeError(w, r, mediaResponse, err) // no client reads more than the status
		return
	}
	t.open.Add(1) // while the HTTP server still waits for the request
	lean := &leanWriter{ResponseWriter: w}
	// Accept itself admits only the server's own origin; InsecureSkipVerify also admits those of t.origins.
	conn, err := websocket.Accept(lean, r, &websocket.AcceptOptions{
		Subprotocols:       []string{"graphql-transport-ws", "graphql-ws"},
		InsecureSkipVerify: t.origins.admits(r.Header.Get("Origin")),
	})
	if err != nil {
		t.open.Done()
		return // Accept has responded: not an upgrade, or another origin
	}
	conn.SetReadLimit(limit.MaxBody)
	caller := RequestOf(r.Context())
	s := &socket{transport: t.transport, conn: conn, network: lean.conn, address: caller.address,
		upgrade: http.Header{
			"Authorization": r.Header.Values("Authorization"),
			sessionHeader:   r.Header.Values(sessionHeader),
		},
		cost: caller.Meter.Detail, running: map[string]*operation{}}
	go func() {
		defer t.open.Done()
		s.serve()
	}()
}

// leanWriter gives hijacked connections small buffers: most connections are idle, and the buffers of
// the HTTP server would be most of their memory.
type leanWriter struct {
	http.ResponseWriter
	conn net.Conn // set by Hijack
}

// Sizes of the buffers. Most of a longer read or write bypasses them.
const (
	socketReadBuffer  = 256
	socketWriteBuffer = 512
)

// Hijack implements http.Hijacker.
func (w *leanWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn = conn
	// Keep what the client has already sent.
	n := buffers.Reader.Buffered()
	r := bufio.NewReaderSize(io.MultiReader(io.LimitReader(buffers, int64(n)), conn), max(n, socketReadBuffer))
	if _, err := r.Peek(n); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, bufio.NewReadWriter(r, bufio.NewWriterSize(conn, socketWriteBuffer)), nil
}

// serve reads messages until the connection is closed, and returns when its operations have
// ended.
func (s *socket) serve() {
	defer s.conn.CloseNow()
	d, known := dialects[s.conn.Subprotocol()]
	if !known {
		s.close(closeBadProtocol, "Subprotocol not acceptable")
		return
	}
	s.dialect = d
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.streams))
	s.ctx = ctx
	defer s.operations.Wait()
	defer cancel()
	stopping := context.AfterFunc(s.streams, func() { s.close(closeGoingAway, "the server is stopping") })
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

// next waits for a message and handles it in another goroutine, so that the goroutine that
// waits has a small stack. It reports false when the connection has been closed.
func (s *socket) next(ctx context.Context, late *time.Timer) bool {
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return false
	}
	more := make(chan bool, 1)
	go func() { more <- s.handle(r, late) }()
	return <-more
}

// handle reads and handles a message. It reports false when the connection has been
// closed.
func (s *socket) handle(r io.Reader, late *time.Timer) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			response := s.dispatchError(s.ctx, s.recover(s.ctx, v)) // logs it
			more = s.refuse(closeInternal, response.Errors[0].Message)
		}
	}()
	slow := time.AfterFunc(messageTimeout, func() { s.conn.CloseNow() })
	message, release, err := s.bodies.ReadAll(r, -1)
	slow.Stop()
	switch {
	case errors.Is(err, limit.ErrTooManyBodies):
		return s.refuse(closeTooSlow, limit.ErrTooManyBodies.Message)
	case err != nil:
		return false
	}
	defer release()
	return s.receive(message, late)
}

// socket is one connection.
type socket struct {
	*transport
	conn    *websocket.Conn
	network net.Conn // below conn
	dialect dialect
	address string          // see limit.ClientKey
	upgrade http.Header     // headers of the upgrade request that authenticate the client
	ctx     context.Context // ends with the connection

	// Used by the reading goroutine alone.
	acknowledged bool
	viewer       string
	session      *session.Session
	moderator    bool
	expiry       *time.Timer // closes the connection when its token expires; nil: it does not expire
	cost         cost.Detail

	operations sync.WaitGroup
	mu         sync.Mutex
	running    map[string]*operation // guarded by mu; by the id that the client chose
}

// operation is an operation in progress.
type operation struct{ cancel context.CancelFunc }

// message is a message of a client, in either protocol.
type message struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// close closes the connection, which ends the reading goroutine. The client has closeTimeout to receive the close
// frame and to respond: to discard the rest of a message, conn.Close would wait for it without a limit.
func (s *socket) close(code websocket.StatusCode, reason string) {
	_ = s.network.SetDeadline(time.Now().Add(closeTimeout)) // or the connection is closed
	s.conn.Close(code, reason)
}

// keepAlive pings the client every pingInterval and closes the connection if there is no pong. It
// needs no goroutine in between.
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

// init authenticates the connection, opens its session, and sets the detail of its cost reports.
// Each header is read from the payload, or else from the upgrade request.
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
		if json.Unmarshal(value, &text) != nil {
			continue
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		switch name = http.CanonicalHeaderKey(name); name {
		case "Authorization", sessionHeader:
			h.Set(name, text)
		case cost.Header:
			detail, err := cost.ParseDetail(text)
			if err != nil {
				return s.refuseInit(closeBadMessage, err)
			}
			s.cost = detail
		}
	}
	caller := &Request{}
	if err := s.signIn(s.ctx, caller, h); err != nil {
		code := closeForbidden
		if c := blog.CodeOf(err); c == blog.Unavailable || c == blog.Canceled {
			code = closeVerifierDown
		}
		return s.refuseInit(code, err)
	}
	var err error
	if s.session, err = openSession(h, s.store); err != nil {
		return s.refuseInit(closeForbidden, err)
	}
	s.upgrade = nil
	s.viewer, s.moderator, s.acknowledged = caller.viewer, caller.Moderator, true
	if !caller.expires.IsZero() {
		s.expiry = time.AfterFunc(time.Until(caller.expires), func() { s.close(closeForbidden, messageExpired) })
	}
	return s.write("connection_ack", "") == nil
}

// refuseInit closes a connection that is not acknowledged. A client of the older protocol does not read the
// code of the close frame, and reconnects until the application ends it: connection_error is what the
// application gets. The newer protocol has no such message.
func (s *socket) refuseInit(status websocket.StatusCode, err error) bool {
	code, message := s.classify(err)
	if s.dialect.older() {
		payload := map[string]any{"message": message, "extensions": map[string]any{"code": code}}
		_ = s.write("connection_error", "", appendJSON(nil, payload)) // the client may be gone
	}
	return s.refuse(status, refusal.Truncate(message, 120))
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
	caller := &Request{ID: newRequestID(), viewer: s.viewer, Moderator: s.moderator, address: s.address,
		Session: s.session, size: len(m.ID) + len(m.Payload), Meter: cost.Meter{Detail: s.cost}}
	ctx, cancel := context.WithCancel(caller.Begin(graphql.StartOperationTrace(s.ctx)))
	op := &operation{cancel}
	s.mu.Lock()
	_, taken := s.running[m.ID]
	var refused error
	if !taken {
		if refused = s.requests.AdmitAddress(s.address); refused == nil {
			refused = s.requests.AdmitViewer(s.viewer)
		}
		if full := len(s.running) >= maxOperations; full {
			refused = &refusal.Error{Code: refusal.Throttled,
				Message: "too many operations at a time on this connection"}
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
		if s.respond(m.ID, s.dispatchError(ctx, refused), nil) != nil {
			return false
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(refusedPause):
		}
		return true
	}
	go func() { s.run(s.begin(ctx, params), op, m.ID) }()
	return true
}

// run sends the responses of an operation, and then complete, unless the client has ended it. It
// returns before that.
func (s *socket) run(responses *responses, op *operation, id string) {
	refused := false
	forget := func() { // before the client learns of the end, and may reuse the id
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[id] == op {
			delete(s.running, id)
		}
	}
	responses.each(func(r *graphql.Response, pieces [][]byte) error {
		if refused = r.Data == nil; refused {
			forget()
		}
		if responses.ctx.Err() != nil {
			return nil // the client has ended it, and may reuse the id
		}
		if RequestOf(responses.ctx).noMemory() {
			s.close(closeTooSlow, limit.ErrTooManyResponses.Message)
			return limit.ErrTooManyResponses
		}
		return s.respond(id, r, pieces)
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

// respond sends a response, which has been encoded in pieces. One without data refuses the operation, and ends it.
func (s *socket) respond(id string, r *graphql.Response, pieces [][]byte) error {
	switch {
	case r.Data != nil:
		return s.write(s.dialect.next, id, pieces...)
	case s.dialect.older(): // it sends one error
		return s.write("error", id, appendJSON(nil, r.Errors[0]))
	}
	return s.write("error", id, appendJSON(nil, r.Errors))
}

var errNotWritten = errors.New("the message was not written in time")

// write sends a message. id may be "", and payload, which may be in pieces, may be missing. A long
// message is sent as a frame for each piece, to avoid copying.
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
