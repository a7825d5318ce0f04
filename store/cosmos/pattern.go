package cosmos

import (
	"context"

	"byline/store/cosmos/itemcache"
)

// Pattern names the access pattern of requests to Cosmos DB, such as "onePost": it labels their metrics.
// Callers name their own; the patterns below are for requests without one.
type Pattern string

// The patterns of requests for which the caller names none.
const (
	ChangeFeed Pattern = "changeFeed" // reads of the change feed
	// items of the container with this name: owners and positions of change feed readers
	Leases   Pattern = "leases"
	Metadata Pattern = "metadata" // accounts, databases, containers, partition key ranges
	Unnamed  Pattern = "unnamed"  // all others
)

// leasesContainer is the name of the leases container in every database.
const leasesContainer = "leases"

// scope is the accounting of the requests of a context.
type scope struct {
	pattern     Pattern
	record      func(context.Context, *Operation) // nil: none
	retryWindow *retryWindow                      // nil: each request has its own
	requestID   string                            // for the log; "" if none
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(scope); ok {
		return s
	}
	return scope{pattern: Unnamed}
}

// WithRecorder returns a context in which record is called with every completed operation on Cosmos DB,
// and the context of that operation. record may be called concurrently, and must not keep the
// operation. The requests of the context share Options.RetryBudget.
func WithRecorder(ctx context.Context, record func(context.Context, *Operation)) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{pattern: Unnamed, record: record, retryWindow: &retryWindow{}})
}

// WithRequestID returns a context whose requests are logged with the id of the caller's request.
func WithRequestID(ctx context.Context, id string) context.Context {
	s := scopeOf(ctx)
	s.requestID = id
	return context.WithValue(ctx, scopeKey{}, s)
}

// WithPattern returns a context whose requests have the pattern, unless ctx has one already. Without
// WithRecorder they share an Options.RetryBudget of their own.
func WithPattern(ctx context.Context, p Pattern) context.Context {
	s := scopeOf(ctx)
	if s.pattern != Unnamed {
		return ctx
	}
	s.pattern = p
	if s.retryWindow == nil {
		s.retryWindow = &retryWindow{}
	}
	return context.WithValue(ctx, scopeKey{}, s)
}

// Begin is WithPattern, and counts the use of the pattern.
func (a *Account) Begin(ctx context.Context, p Pattern) context.Context {
	begun := WithPattern(ctx, p)
	if begun != ctx {
		count := a.meter.of(p).begun
		count.Inc()
		itemcache.RecordUse(ctx, a.cache, count)
	}
	return begun
}

// Patterns creates the metrics of patterns before they are used.
func (a *Account) Patterns(all ...Pattern) { a.meter.add(all...) }

// Apart returns a context for background work on behalf of an operation: its requests have the pattern p, and do not
// count towards those of ctx, but its session reads their writes.
func Apart(ctx context.Context, p Pattern) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{pattern: p, retryWindow: &retryWindow{},
		requestID: scopeOf(ctx).requestID})
}
