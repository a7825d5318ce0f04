package cosmos

import "context"

// Pattern is what requests to Cosmos DB are made for, such as "Q1": the label of their
// metrics. Callers name their own; those below are given to what they do not name.
type Pattern string

// The patterns of requests that are not made for one of the caller's.
const (
	ChangeFeed Pattern = "changeFeed" // reads of the change feed
	Leases     Pattern = "leases"     // the items of the container with this name: who reads a change feed, and how far
	Metadata   Pattern = "metadata"   // accounts, databases, containers, partition key ranges
	Unnamed    Pattern = "unnamed"    // none of these
)

// leasesContainer is how the container of leases is called everywhere.
const leasesContainer = "leases"

// scope is what the requests of a context are for, and who else wants to know of them.
type scope struct {
	pattern Pattern
	record  func(context.Context, *Operation) // nil: nobody
	retries *retryTime                        // nil: each request has its own
	writes  *Writes                           // nil: they are not counted
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	if s, ok := ctx.Value(scopeKey{}).(scope); ok {
		return s
	}
	return scope{pattern: Unnamed}
}

// WithRecorder has record called with every operation on Cosmos DB that ends in ctx,
// and with the context that the operation was made with. It may be called by several
// goroutines at once, and must not keep the operation. The requests of ctx share
// Options.RetryBudget.
func WithRecorder(ctx context.Context, record func(context.Context, *Operation)) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{pattern: Unnamed, record: record, retries: &retryTime{}})
}

// WithPattern names what the requests of ctx are for, unless they are part of something
// that has a name already. Without WithRecorder they may wait for themselves as long as its
// requests may.
func WithPattern(ctx context.Context, p Pattern) context.Context {
	s := scopeOf(ctx)
	if s.pattern != Unnamed {
		return ctx
	}
	s.pattern = p
	if s.retries == nil {
		s.retries = &retryTime{}
	}
	return context.WithValue(ctx, scopeKey{}, s)
}

// Begin is WithPattern, and counts what begins.
func (a *Account) Begin(ctx context.Context, p Pattern) context.Context {
	begun := WithPattern(ctx, p)
	if begun != ctx {
		a.meter.of(p).begun.Inc()
		noteBegun(ctx, a.shared, p)
	}
	return begun
}

// Patterns makes the metrics of patterns before they are used.
func (a *Account) Patterns(all ...Pattern) { a.meter.add(all...) }
