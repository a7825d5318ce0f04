package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/fields"
	"byline/graph/refusal"
	"byline/graph/transport"
	"byline/store/blog"
)

// authentication finds the viewers of requests, and counts and logs the bearer tokens that it rejects.
type authentication struct {
	verifier auth.Verifier
	log      *slog.Logger
	lines    *logLimit[auth.Reason]
	rejected *prometheus.CounterVec
}

// rejectedLogInterval is how often a reason is logged: clients can cause any number of rejections.
const rejectedLogInterval = time.Minute

func newAuthentication(o Options, m metrics) authentication {
	return authentication{verifier: o.Verifier, log: o.Logger, lines: newLogLimit[auth.Reason](rejectedLogInterval),
		rejected: m.rejectedTokens}
}

// authenticate returns the viewer of the bearer token in the headers; nil without a token.
func (a authentication) authenticate(ctx context.Context, h http.Header) (*auth.Viewer, error) {
	v, err := auth.Authenticate(ctx, h, a.verifier)
	var refused *refusal.Error
	if errors.As(err, &refused) {
		a.reject(ctx, refused.Err)
	}
	return v, err
}

// reject counts a rejected token, and logs it unless it has expired, as every token does.
func (a authentication) reject(ctx context.Context, cause error) {
	reason := auth.ReasonOf(cause)
	a.rejected.WithLabelValues(string(reason)).Inc()
	if reason == auth.Expired {
		return
	}
	suppressed, ok := a.lines.admit(reason)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String(logReason, string(reason)),
		slog.String(logError, refusal.Truncate(cause.Error(), maxCause))}
	if id := transport.RequestOf(ctx).ID; id != "" { // a WebSocket has none before its operations
		attrs = append(attrs, slog.String(logRequestID, id))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int(logSuppressed, suppressed))
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, "bearer token rejected", attrs...)
}

// viewerID returns the viewer's user id: see transport.Request.
func viewerID(ctx context.Context) string { return transport.RequestOf(ctx).ViewerID() }

// checkRules returns an error unless every mutation has a rule and every rule a mutation.
func checkRules(mutations *ast.Definition) error {
	for _, f := range mutations.Fields {
		if len(fields.Lookup("Mutation", f.Name).Rule) == 0 {
			return fmt.Errorf("graph: the mutation %s has no rule that says who may execute it", f.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields.Table["Mutation"])) {
		if mutations.Fields.ForName(name) == nil {
			return fmt.Errorf("graph: there is a rule for the mutation %s, but no such mutation", name)
		}
	}
	return nil
}

// moderates reports whether the viewer may execute the mutation that ctx belongs to
// as a moderator.
func moderates(ctx context.Context) bool {
	mutation := graphql.GetFieldContext(ctx).Field.Name
	return slices.Contains(fields.Lookup("Mutation", mutation).Rule, fields.Moderator) &&
		transport.RequestOf(ctx).Moderator
}

// viewerAndRole returns the viewer's user id, "" for an anonymous request, and whether they are a moderator. It marks
// the response as viewerID does.
func viewerAndRole(ctx context.Context) (viewer string, moderator bool) {
	return viewerID(ctx), transport.RequestOf(ctx).Moderator
}

// viewerCan reports whether the viewer is allowed to execute a mutation of what an author wrote.
func viewerCan(ctx context.Context, mutation, author string) bool {
	viewer, moderator := viewerAndRole(ctx)
	return fields.Lookup("Mutation", mutation).Allows(viewer == author, moderator)
}

// requireViewer refuses mutations of anonymous callers, as every rule requires. It runs before any
// resolver, for every transport.
type requireViewer struct{}

var _ graphql.OperationContextMutator = requireViewer{}

func (requireViewer) ExtensionName() string                   { return "RequireViewer" }
func (requireViewer) Validate(graphql.ExecutableSchema) error { return nil }

func (requireViewer) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Mutation || viewerID(ctx) != "" {
		return nil
	}
	return gqlerror.Wrap(unauthenticated)
}

var unauthenticated = &refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonNoToken,
	Message: "authentication required: send an Authorization header with a bearer token"}
