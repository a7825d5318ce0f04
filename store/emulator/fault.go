package emulator

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"byline/store/emulator/internal/apierror"
)

// Operation describes a request to the function of Inject.
type Operation struct {
	Kind      Kind
	Database  string // "" if the request names none
	Container string // "" if the request names none
	Item      string // "" if the request names none in its path
	Partition string // the partition key as JSON, such as ["a"]; "" if the request names none
	Region    string // that serves the request
}

// Fault is an injected fault. The zero value injects nothing.
type Fault struct {
	// Latency delays the request, in real time.
	Latency time.Duration
	// Status, if not 0, is the response instead of serving the request: 429, 449, 503 and so on.
	Status int
	// Substatus is the substatus of a Status or BatchStatus other than 429, 449 and 503: 1002 with 404, for example.
	Substatus int
	// RetryAfter is the retry-after of a 429. Default 1 ms.
	RetryAfter time.Duration
	// BatchStatus, if not 0, is the status of one operation of a batch, which is not applied: the
	// response is a 207 with the status, and for a 429 RetryAfter, in the operation's result. Other
	// requests ignore it.
	BatchStatus int
	// BatchOperation is the index of the operation that BatchStatus fails; shorter batches are served.
	// Default 0: the first.
	BatchOperation int
	// Drop breaks the connection before the request is served. In process it is a 503.
	Drop bool
	// DropResponse serves the request and then breaks the connection: to the client, a write is
	// ambiguous. In process it is a 503.
	DropResponse bool
	// SlowBody is how long the response body takes to arrive, in pieces.
	SlowBody time.Duration
}

// Inject sets a function that decides on a fault for every authenticated request. It is for tests.
// fn is called concurrently; nil removes it.
func (e *Engine) Inject(fn func(Operation) Fault) {
	if fn == nil {
		e.inject.Store(nil)
		return
	}
	e.inject.Store(&fn)
}

// fault calls the injected function, stores its fault in f and applies what precedes serving the request.
func (e *Engine) fault(q *request, f *Fault) error {
	fn := e.inject.Load()
	if fn == nil {
		return nil
	}
	*f = (*fn)(e.operationOf(q))
	if f.Latency > 0 {
		if err := sleep(q.ctx, f.Latency); err != nil {
			return err
		}
	}
	if f.Drop {
		return apierror.Unavailable("The connection was dropped.")
	}
	return f.failure(f.Status)
}

// failure returns the error of an injected status, nil for 0.
func (f *Fault) failure(status int) error {
	switch status {
	case 0:
		return nil
	case http.StatusTooManyRequests:
		return apierror.TooManyRequests(max(f.RetryAfter, time.Millisecond))
	case apierror.StatusRetryWith:
		return apierror.RetryWith()
	case http.StatusServiceUnavailable:
		return apierror.Unavailable("The service is unavailable.")
	}
	return &apierror.Error{Status: status, Substatus: f.Substatus, Code: "Fault",
		Message: "This response was injected."}
}

// batchFailure returns the injected error of an operation of a batch, or nil.
func (f *Fault) batchFailure(operation int) error {
	if operation != f.BatchOperation {
		return nil
	}
	return f.failure(f.BatchStatus)
}

// sleep waits for d, or until ctx ends.
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

func (e *Engine) operationOf(q *request) Operation {
	o := Operation{Kind: q.kind, Partition: q.get("X-Ms-Documentdb-Partitionkey"), Region: e.regions.names[q.region]}
	for i, name := range []*string{&o.Database, &o.Container, &o.Item} {
		if 2*i+1 < len(q.segments) {
			*name = q.segments[2*i+1]
		}
	}
	return o
}

// slowPieces is the number of pieces of a slow body.
const slowPieces = 8

// slowBody delays the pieces of a body.
type slowBody struct {
	ctx   context.Context
	left  *bytes.Reader
	piece int
	pause time.Duration
}

func newSlowBody(ctx context.Context, body []byte, total time.Duration) io.Reader {
	return &slowBody{ctx, bytes.NewReader(body), len(body)/slowPieces + 1, total / slowPieces}
}

func (s *slowBody) Read(b []byte) (int, error) {
	if s.left.Len() > 0 {
		if err := sleep(s.ctx, s.pause); err != nil {
			return 0, err
		}
	}
	return s.left.Read(b[:min(len(b), s.piece)])
}
