package transport

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store/blog"
)

// eventsKeepAlive is how often a stream without events sends a comment.
const eventsKeepAlive = 12 * time.Second

// wantsEvents reports whether the client prefers an event stream: its Accept header lists it first.
// Some clients list it last with every request, and do not want one.
func wantsEvents(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	media, _, ok := mediaRange(first)
	return ok && media == mediaEvents
}

// serveEvents responds with an event stream, in the "distinct connections" mode of the
// protocol of npm graphql-sse: an event "next" for each response, and "complete" at
// the end. A refused operation is reported in the stream, too; an invalid HTTP request and a
// failed authentication get an ordinary response. A subscription ends when its token expires;
// queries and mutations are executed to their end, as without an event stream.
func (t httpTransport) serveEvents(w http.ResponseWriter, r *http.Request) {
	prepare(w.Header(), r)
	op, releaseSlot, err := t.receiveOperation(w, r)
	var errs gqlerror.List
	if err != nil && !errors.As(err, &errs) {
		w.Header().Set("Content-Type", mediaResponse+"; charset=utf-8")
		t.writeError(w, r, mediaResponse, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.streams, cancel)()
	operation, expire := context.WithCancelCause(ctx)
	defer expire(nil)
	if expires := RequestOf(ctx).expires; errs == nil && op.Operation.Operation == ast.Subscription &&
		!expires.IsZero() {
		defer time.AfterFunc(time.Until(expires), func() { expire(errExpired) }).Stop()
	}

	out, err := newEventWriter(w)
	if err != nil {
		if errs == nil {
			releaseSlot()
		}
		return
	}
	s := eventStream{events: make(chan event), ended: make(chan struct{})}
	go func() {
		if errs != nil {
			t.sendEvents(ctx, s, t.refused(ctx, errs))
			return
		}
		t.sendEvents(ctx, s, t.dispatch(operation, op, releaseSlot))
	}()
	defer func() {
		cancel()
		<-s.ended
	}()
	s.write(ctx, out)
}

// receiveOperation reads a request, and parses and validates its operation. See operation.
func (t httpTransport) receiveOperation(
	w http.ResponseWriter, r *http.Request,
) (_ *graphql.OperationContext, releaseSlot func(), err error) {
	in, err := t.receive(w, r)
	if err != nil {
		return nil, nil, err
	}
	defer in.release() // the document and its variables do not need it
	return t.operation(r, in)
}

// sendEvents sends the responses of an operation, and closes s.ended after the last. ctx is that of
// the stream: errors that are sent besides the responses are not events of the operation.
func (t httpTransport) sendEvents(ctx context.Context, s eventStream, all *responses) {
	expired := func() bool { return errors.Is(context.Cause(all.ctx), errExpired) }
	unlessExpired := func(_ *graphql.Response, pieces [][]byte) error {
		if expired() {
			return errExpired // the response may be that to a canceled event
		}
		return s.send(ctx, pieces)
	}
	report := func(err error) { _ = s.send(ctx, pieces(t.dispatchError(ctx, err))) }
	all.each(unlessExpired, func(slow bool, _ error) {
		defer close(s.ended)
		switch {
		case expired():
			report(errExpired)
		case slow:
			report(&refusal.Error{Code: refusal.Throttled, Message: messageTooSlow})
		}
	})
}

// errExpired is the cause for which a subscription is canceled whose token has expired.
var errExpired = &refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonExpiredToken, Message: messageExpired}

// eventStream connects the goroutine that executes an operation to the one that writes its events
// and, in between, comments.
type eventStream struct {
	events chan event
	ended  chan struct{} // closed when the operation has ended
}

// event is a response to be written.
type event struct {
	pieces  [][]byte      // JSON
	written chan struct{} // closed once it has been written
}

// send waits until a response has been written, or ctx ends. It returns an error if it was not taken.
func (s eventStream) send(ctx context.Context, pieces [][]byte) error {
	written := make(chan struct{})
	select {
	case s.events <- event{pieces, written}:
		select {
		case <-written:
		case <-ctx.Done():
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes the stream until the operation has ended or a write fails.
func (s eventStream) write(ctx context.Context, out *eventWriter) {
	keepAlive := time.NewTicker(eventsKeepAlive)
	defer keepAlive.Stop()
	for {
		var err error
		select {
		case e := <-s.events:
			err = out.event("next", e.pieces...)
			close(e.written)
			keepAlive.Reset(eventsKeepAlive)
		case <-keepAlive.C:
			err = out.comment()
		case <-s.ended:
			if ctx.Err() == nil {
				_ = out.event("complete") // the client may be gone
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// eventWriter writes a stream of events. The client has to receive each within writeTimeout.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEventWriter(w http.ResponseWriter) (*eventWriter, error) {
	h := w.Header()
	h.Set("Content-Type", mediaEvents+"; charset=utf-8")
	h["Cache-Control"] = noStore     // by POST, too: some proxies keep what they stream
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer
	e := &eventWriter{w, http.NewResponseController(w)}
	// The server's read deadline is that of a request, which a stream outlasts.
	if err := supported(e.control.SetReadDeadline(time.Time{})); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	return e, e.write()
}

// event writes an event. data is JSON, in pieces, without line breaks.
func (e *eventWriter) event(name string, data ...[]byte) error {
	return e.write(
		joined(slices.Concat([][]byte{[]byte("event: " + name + "\ndata: ")}, data, [][]byte{[]byte("\n\n")})...)...)
}

func (e *eventWriter) comment() error { return e.write([]byte(":\n\n")) }

func (e *eventWriter) write(pieces ...[]byte) error {
	if err := supported(e.control.SetWriteDeadline(time.Now().Add(writeTimeout))); err != nil {
		return err
	}
	for _, b := range pieces {
		if _, err := e.w.Write(b); err != nil {
			return err
		}
	}
	if err := e.control.Flush(); err != nil {
		return err
	}
	// HTTP/2 resets a stream whose deadline passes, written to or not.
	return supported(e.control.SetWriteDeadline(time.Time{}))
}

// supported returns err, or nil if the ResponseWriter does not support deadlines.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
