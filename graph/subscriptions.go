package graph

import (
	"context"
	"fmt"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// How many subscriptions there may be at a time; variables so that a test need not
// make as many.
var (
	maxSubscriptions     = 20_000 // of all clients
	maxSubscriptionsEach = 500    // of a viewer, or of an address that nobody is signed in at
)

// subscriptionBytes is how much memory a subscription may hold for what it came in, as long as
// it lasts, before it counts as one more.
const subscriptionBytes = 64 << 10

// subscriptionLimit refuses subscriptions beyond what there may be at a time. It is the
// last to refuse an operation, so that what others refuse does not count.
type subscriptionLimit struct {
	all, each int

	mu    sync.Mutex
	total int            // guarded by mu
	by    map[string]int // guarded by mu; by viewer or address
}

func newSubscriptionLimit() *subscriptionLimit {
	return &subscriptionLimit{all: maxSubscriptions, each: maxSubscriptionsEach, by: map[string]int{}}
}

var _ graphql.OperationContextMutator = (*subscriptionLimit)(nil)

func (*subscriptionLimit) ExtensionName() string                   { return "SubscriptionLimit" }
func (*subscriptionLimit) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext implements graphql.OperationContextMutator. The subscription
// counts until ctx ends, which is the operation's or the request's.
func (l *subscriptionLimit) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Subscription {
		return nil
	}
	r := requestFrom(ctx)
	n := 1 + (r.size+documentBytes(op.RawQuery))/subscriptionBytes
	key := r.address
	if r.viewer != "" {
		key = "viewer " + r.viewer
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total+n > l.all:
		return gqlerror.Wrap(&refusal{code: unavailable, message: "the server has too many subscriptions; try again later", retryAfter: defaultRetryAfter})
	case key != "" && l.by[key]+n > l.each:
		return gqlerror.Wrap(&refusal{code: throttled, message: fmt.Sprintf("too many subscriptions: at most %d at a time, and large ones count as several", l.each)})
	}
	l.total += n
	l.by[key] += n
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total -= n
		if l.by[key] -= n; l.by[key] == 0 {
			delete(l.by, key)
		}
	})
	return nil
}
