package emulator

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// Operation is a request as Inject's function sees it.
type Operation struct {
	Kind      Kind
	Database  string // "" if the request names none
	Container string // "" if the request names none
	Item      string // "" if the request names none in its path
}

// Fault is what goes wrong with a request. The zero value is nothing.
type Fault struct {
	// Latency passes before the request is served, in real time.
	Latency time.Duration
	// Status, if not 0, is answered instead of serving: 429, 449, 503 and so on.
	Status int
	// RetryAfter is what a 429 tells the client to wait. The default is 1 ms.
	RetryAfter time.Duration
	// Drop breaks the connection instead of serving. In process, where there is
	// none, it is a 503.
	Drop bool
	// DropAnswer serves the request and then breaks the connection: the client
	// cannot know whether it was served. In process it is a 503.
	DropAnswer bool
	// SlowBody is how long the body of the answer takes to arrive, in pieces.
	SlowBody time.Duration
}

// Inject makes fn decide, for every request whose signature is right, what goes
// wrong with it. It is for tests. fn is called concurrently; nil ends it.
func (e *Engine) Inject(fn func(Operation) Fault) {
	if fn == nil {
		e.inject.Store(nil)
		return
	}
	e.inject.Store(&fn)
}

// fault asks the injected function about a request, and waits or fails as it says.
func (e *Engine) fault(q *request, f *Fault) error {
	fn := e.inject.Load()
	if fn == nil {
		return nil
	}
	*f = (*fn)(operationOf(q))
	if f.Latency > 0 {
		if err := sleep(q.ctx, f.Latency); err != nil {
			return err
		}
	}
	switch {
	case f.Drop:
		return unavailable("The connection was dropped.")
	case f.Status == http.StatusTooManyRequests:
		return tooManyRequests(max(f.RetryAfter, time.Millisecond))
	case f.Status == statusRetryWith:
		return retryWith()
	case f.Status == http.StatusServiceUnavailable:
		return unavailable("The service is unavailable.")
	case f.Status != 0:
		return &apiError{status: f.Status, code: "Fault", message: "This answer was injected."}
	}
	return nil
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func operationOf(q *request) Operation {
	o := Operation{Kind: q.kind}
	for i, name := range []*string{&o.Database, &o.Container, &o.Item} {
		if 2*i+1 < len(q.segments) {
			*name = q.segments[2*i+1]
		}
	}
	return o
}

// slowPieces is in how many pieces a slow body arrives.
const slowPieces = 8

// slowBody is a body that takes its time.
type slowBody struct {
	ctx   context.Context
	rest  *bytes.Reader
	piece int
	pause time.Duration
}

func newSlowBody(ctx context.Context, body []byte, took time.Duration) io.Reader {
	return &slowBody{ctx, bytes.NewReader(body), len(body)/slowPieces + 1, took / slowPieces}
}

func (s *slowBody) Read(b []byte) (int, error) {
	if s.rest.Len() > 0 {
		if err := sleep(s.ctx, s.pause); err != nil {
			return 0, err
		}
	}
	return s.rest.Read(b[:min(len(b), s.piece)])
}
