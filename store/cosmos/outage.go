package cosmos

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// outage is a policy, per try, that knows since when no request has had a response. It replaces the lines that an
// outage causes in the log, of every loop that retries, by one when it begins and one when it ends.
type outage struct {
	now     func() time.Time
	log     *slog.Logger
	failing atomic.Bool // false while all is well, for the requests then: during an outage, and outageOver after it

	mu         sync.Mutex
	since      time.Time // guarded by mu; when the first request without a response was sent; zero after a response
	ended      time.Time // guarded by mu; of the last outage that was logged
	warned     bool      // guarded by mu
	failed     int       // guarded by mu; tries without a response
	suppressed int       // guarded by mu; lines that are not logged
}

const logError = "error" // the attribute of an error

// outageAfter is how long no request has a response until that is logged: a single lost connection is no outage.
const outageAfter = 2 * time.Second

// outageOver is how long after an outage errors of requests that were sent during it are not logged: what retries a
// request logs its last error once it gives up.
const outageOver = 15 * time.Second

// Do implements policy.Policy.
func (o *outage) Do(req *policy.Request) (*http.Response, error) {
	sent := o.now()
	resp, err := req.Next()
	switch {
	case err == nil:
		if o.failing.Load() {
			o.end()
		}
	case noResponse(err):
		o.fail(sent, err)
	}
	return resp, err
}

// noResponse reports whether err is that of a request that Cosmos DB has not responded to: not one that its caller
// has canceled, and not one for which there is no token.
func noResponse(err error) bool {
	var (
		network net.Error
		token   interface{ NonRetriable() }
	)
	return !errors.Is(err, context.Canceled) && errors.As(err, &network) && !errors.As(err, &token)
}

func (o *outage) fail(sent time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = sent
		o.failing.Store(true)
	}
	o.failed++
	if o.now().Sub(o.since) >= outageAfter {
		o.warn(err)
	}
}

// warn logs that the outage has begun, once. o.mu is held.
func (o *outage) warn(err any) {
	if !o.warned {
		o.log.Warn("Cosmos DB does not respond", "since", o.since, logError, err)
		o.warned = true
	}
}

func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		if o.now().Sub(o.ended) >= outageOver {
			o.failing.Store(false)
		}
		return
	}
	if o.warned {
		o.ended = o.now()
		o.log.Info("Cosmos DB responds again", "after", o.now().Sub(o.since).Round(time.Millisecond), "failed-requests",
			o.failed, "suppressed", o.suppressed)
	}
	o.since, o.warned, o.failed, o.suppressed = time.Time{}, false, 0, 0
}

// explains reports whether the outage is the cause of an error that is to be logged. If so, the error is not.
func (o *outage) explains(err any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := err.(error)
	network := ok && errors.As(e, new(net.Error))
	if o.since.IsZero() {
		return network && o.now().Sub(o.ended) < outageOver
	}
	if !network && !o.warned { // maybe another cause: a single connection may have been lost
		return false
	}
	o.warn(err)
	o.suppressed++
	return true
}

// outageHandler drops lines with an error during an outage, except those of level ERROR.
type outageHandler struct {
	slog.Handler
	outage *outage
}

// Handle implements slog.Handler.
func (h outageHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError && h.outage.failing.Load() {
		var err any
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == logError {
				err = a.Value.Any()
			}
			return err == nil
		})
		if err != nil && h.outage.explains(err) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h outageHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return outageHandler{h.Handler.WithAttrs(attrs), h.outage}
}

// WithGroup implements slog.Handler.
func (h outageHandler) WithGroup(name string) slog.Handler {
	return outageHandler{h.Handler.WithGroup(name), h.outage}
}
