package graph

import (
	"context"
	"fmt"
	"net/http"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/document"
	"byline/graph/limit"
)

// shedLoad refuses requests while the server is overloaded, before it reads their bodies.
func shedLoad(a *limit.Admission, next http.Handler, m metrics) http.Handler {
	overloaded := limit.ErrOverloaded
	refused := m.responses.WithLabelValues(string(typeNone), string(overloaded.Code))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Shed() == nil {
			next.ServeHTTP(w, r)
			return
		}
		refused.Inc()
		h := w.Header()
		h.Set("Content-Type", mediaJSON+"; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Retry-After", "1")
		writeBody(w, http.StatusServiceUnavailable, fmt.Appendf(nil, `{"errors":[{"message":%q,"extensions":{"code":%q,"requestId":%q,"retryAfterMs":%d}}]}`+"\n",
			overloaded.Message, overloaded.Code, requestFrom(r.Context()).id, overloaded.RetryAfter.Milliseconds()))
	})
}

// subscriptionLimit refuses subscriptions beyond the limit. It is the last to refuse an
// operation, so that only subscriptions that open count.
type subscriptionLimit struct{ open *limit.Subscriptions }

var _ graphql.OperationContextMutator = subscriptionLimit{}

func (subscriptionLimit) ExtensionName() string { return "SubscriptionLimit" }

func (subscriptionLimit) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext implements graphql.OperationContextMutator. The subscription
// counts until ctx ends, which is the operation's or the request's.
func (l subscriptionLimit) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Subscription {
		return nil
	}
	r := requestFrom(ctx)
	key := r.address
	if r.viewer != "" {
		key = "viewer " + r.viewer
	}
	slot, err := l.open.Admit(ctx, key, r.size+document.Bytes(op.RawQuery))
	if err != nil {
		return gqlerror.Wrap(err)
	}
	r.slot = slot
	return nil
}
