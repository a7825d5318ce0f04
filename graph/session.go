package graph

import (
	"context"
	"net/http"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/store"
	"byline/store/cosmos"
)

// sessionHeader carries the token of a session, both ways: a response that wrote has
// it, and a request that sends it back sees what was written, on any instance. Where
// answers have no headers of their own, on a WebSocket and in event streams, it is the
// entry sessionExtension of the answer; a WebSocket takes it in the payload of its
// first message, too.
const (
	sessionHeader    = "Byline-Session"
	sessionExtension = "session"
)

// openSession opens the session that the client goes on with, or a new one.
func openSession(h http.Header, s *store.Store) (*cosmos.Session, error) {
	values := h.Values(sessionHeader)
	if len(values) > 1 {
		return nil, refuse(sessionHeader, "there must be at most one %s header", sessionHeader)
	}
	session, err := s.NewSession(h.Get(sessionHeader))
	if err != nil {
		return nil, refuse(sessionHeader, "%s must be the unchanged value of an earlier response", sessionHeader)
	}
	return session, nil
}

// inSession executes operations in the session of their request, and takes note of what
// their answers rest on.
type inSession struct{}

var _ graphql.OperationInterceptor = inSession{}

func (inSession) ExtensionName() string                   { return "InSession" }
func (inSession) Validate(graphql.ExecutableSchema) error { return nil }

func (inSession) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	r := requestFrom(ctx)
	if r.readSet != nil {
		ctx = cosmos.WithReadSet(ctx, r.readSet)
	}
	return next(cosmos.WithSession(ctx, r.session))
}

// tellSession puts the session's token into the response of a mutation.
func tellSession(ctx context.Context, kind ast.Operation, response *graphql.Response) {
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
