package graph

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
)

// eventsKeepAlive is how often a stream without events shows that it is alive.
const eventsKeepAlive = 12 * time.Second

// wantsEvents reports whether the client likes an event stream best, as it says by
// naming it first: some name it last with every request, and mean none.
func wantsEvents(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	media, _, ok := mediaRange(first)
	return ok && media == mediaEvents
}

// serveEvents responds with an event stream, in the "distinct connections" mode of the
// protocol of npm graphql-sse: an event "next" for each response, and "complete" at
// the end. An operation that is refused is told in the stream, too; what is wrong with
// the HTTP request itself, or with who makes it, by an ordinary answer.
func (t httpTransport) serveEvents(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	prepare(w.Header(), r)
	var op *graphql.OperationContext
	var leave func()
	in, err := t.receive(w, r)
	if err == nil {
		func() {
			defer in.release() // what is kept of it is what the document and its variables need
			op, leave, err = t.operation(r, exec, in)
		}()
	}
	var errs gqlerror.List
	if err != nil && !errors.As(err, &errs) {
		w.Header().Set("Content-Type", mediaResponse+"; charset=utf-8")
		writeError(w, r, exec, mediaResponse, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.streams, cancel)()
	if expires := requestFrom(ctx).expires; !expires.IsZero() {
		defer time.AfterFunc(time.Until(expires), cancel).Stop()
	}

	out, err := newEventWriter(w)
	if err != nil {
		if errs == nil {
			leave()
		}
		return
	}
	// Others execute and this goroutine writes, which may also have to say that nothing
	// happens. It does not return before they are done.
	type event struct {
		response *graphql.Response
		written  chan struct{} // to be closed
	}
	events := make(chan event)
	ended := make(chan bool)
	go func() {
		send := func(r *graphql.Response) error {
			taken, full := requestFrom(ctx).hold(t.memory, len(r.Data), errs == nil && op.Operation.Operation == ast.Mutation)
			if full != nil {
				r = dispatchError(ctx, exec, full)
			}
			defer taken()
			written := make(chan struct{})
			select {
			case events <- event{r, written}:
				select {
				case <-written:
				case <-ctx.Done():
				}
				return full
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var all *responses
		if errs != nil {
			all = refused(ctx, exec, errs)
		} else {
			all = dispatch(ctx, exec, op, leave)
			all.delivery.Admission = t.admission
		}
		all.each(send, func(slow bool, _ error) {
			defer close(ended)
			if slow {
				_ = send(dispatchError(ctx, exec, &refusal.Error{Code: refusal.Throttled, Message: messageTooSlow}))
			}
		})
	}()
	defer func() {
		cancel()
		<-ended
	}()
	silence := time.NewTicker(eventsKeepAlive)
	defer silence.Stop()
	for {
		select {
		case e := <-events:
			err = out.event("next", pieces(e.response)...)
			close(e.written)
			silence.Reset(eventsKeepAlive)
		case <-silence.C:
			err = out.comment()
		case <-ended:
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

// eventWriter writes a stream of events, each of which the client has to take within
// writeTimeout.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEventWriter(w http.ResponseWriter) (*eventWriter, error) {
	h := w.Header()
	h.Set("Content-Type", mediaEvents+"; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // of proxies
	e := &eventWriter{w, http.NewResponseController(w)}
	// The server's limits are those of a request; a stream lasts.
	if err := supported(e.control.SetReadDeadline(time.Time{})); err != nil {
		return nil, err
	}
	w.WriteHeader(http.StatusOK)
	return e, e.write()
}

// event writes an event. data is JSON, in pieces, and so has no line break.
func (e *eventWriter) event(name string, data ...[]byte) error {
	return e.write(joined(slices.Concat([][]byte{[]byte("event: " + name + "\ndata: ")}, data, [][]byte{[]byte("\n\n")})...)...)
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

// supported is err, unless it says that the connection has no deadlines: a ResponseWriter need not have them.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
