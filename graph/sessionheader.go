package graph

import (
	"context"
	"net/http"

	"byline/store/cosmos/itemcache"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/refusal"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/cosmos/session"
)

// sessionHeader carries a session token, both ways: the response to a mutation has it, and a
// request that sends it reads its own writes, on any instance. Responses without headers of
// their own, on a WebSocket and in event streams, have it in the extension sessionExtension; a
// WebSocket also takes it from the payload of its first message.
const (
	sessionHeader    = "Byline-Session"
	sessionExtension = "session"
)

// openSession resumes the session of the token in the header, or opens a new one if the token is missing
// or not genuine.
func openSession(h http.Header, s *store.Store) (*session.Session, error) {
	values, token := h[sessionHeader], ""
	switch len(values) {
	case 0:
	case 1:
		token = values[0]
	default:
		return nil, refusal.Input(sessionHeader, "there must be at most one %s header", sessionHeader)
	}
	return s.NewSession(token), nil
}

// inSession executes operations in the session of their request, and records their cost and read set.
type inSession struct{}

var _ interface {
	graphql.OperationInterceptor
	graphql.ResponseInterceptor
} = inSession{}

func (inSession) ExtensionName() string                   { return "InSession" }
func (inSession) Validate(graphql.ExecutableSchema) error { return nil }

func (inSession) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	r := requestFrom(ctx)
	ctx = cosmos.WithRequestID(cosmos.WithRecorder(ctx, r.meter.Record), r.id)
	if r.readSet != nil {
		ctx = itemcache.WithReadSet(ctx, r.readSet)
	}
	return next(cosmos.WithSession(ctx, r.session))
}

// InterceptResponse gives each event of a subscription its own waiting time for the session: see
// cosmos.WithSession.
func (inSession) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if ofSubscription(ctx) {
		ctx = cosmos.WithSession(ctx, requestFrom(ctx).session)
	}
	return next(ctx)
}

// addSession adds the session token to the response of a mutation.
func addSession(ctx context.Context, kind ast.Operation, response *graphql.Response) {
	if kind != ast.Mutation {
		return
	}
	if token := requestFrom(ctx).session.Token(); token != "" {
		if response.Extensions == nil {
			response.Extensions = map[string]any{}
		}
		response.Extensions[sessionExtension] = token
	}
}
