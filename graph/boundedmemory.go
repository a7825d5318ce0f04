package graph

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/cost"
	"byline/graph/limit"
	"byline/graph/model"
	"byline/graph/plan"
	"byline/graph/transport"
)

// boundedMemory refuses responses that there is no memory for.
type boundedMemory struct {
	graphql.ExecutableSchema
	presenter presenter
}

var _ interface {
	graphql.ExecutableSchema
	graphql.RootFieldInterceptor
	graphql.FieldInterceptor
} = boundedMemory{}

func (boundedMemory) ExtensionName() string                   { return "BoundedMemory" }
func (boundedMemory) Validate(graphql.ExecutableSchema) error { return nil }

// Exec implements graphql.ExecutableSchema.
func (b boundedMemory) Exec(ctx context.Context) graphql.ResponseHandler {
	next := b.ExecutableSchema.Exec(ctx)
	return func(ctx context.Context) *graphql.Response {
		if isOf(ctx, ast.Mutation) {
			ctx = context.WithValue(ctx, writesKey{}, new([]rootWrite))
		}
		response := next(ctx)
		if err := transport.RequestOf(ctx).Memory.Err(); err != nil && response != nil {
			return b.refused(ctx, err)
		}
		return response
	}
}

// refused returns the response that replaces one that there is no memory for: an error, or for a mutation an
// error of each root field, with what it has written.
func (b boundedMemory) refused(ctx context.Context, err error) *graphql.Response {
	op, r := graphql.GetOperationContext(ctx), transport.RequestOf(ctx)
	r.Errors.Store(0)
	var cause error = reported{err}
	if err == limit.ErrTooLarge {
		cause = reported{cost.Predict(op.Operation, op.Variables, r.Meter.SignedIn, cost.Blog{}).TooLarge()}
	}
	if op.Operation.Operation != ast.Mutation {
		return &graphql.Response{Errors: gqlerror.List{b.presenter.present(ctx, cause)}}
	}
	var errs gqlerror.List
	others := graphql.GetErrors(ctx)
	for _, w := range *writesOf(ctx) {
		path := ast.Path{ast.PathName(w.field)}
		switch {
		case w.id != "":
			errs = append(errs, b.presenter.present(ctx, gqlerror.WrapPath(path, &writtenError{w.id, cause})))
		case !fails(others, w.field):
			errs = append(errs, b.presenter.present(ctx, gqlerror.WrapPath(path, cause)))
		}
	}
	return &graphql.Response{Data: plan.NewRoots(op, "Mutation").Encode(nil), Errors: errs}
}

// fails reports whether a root field has an error.
func fails(errs gqlerror.List, field string) bool {
	for _, e := range errs {
		if len(e.Path) > 0 && e.Path[0] == ast.PathName(field) {
			return true
		}
	}
	return false
}

// rootWrite is a root field of a mutation.
type rootWrite struct{ field, id string } // id is the global id of what it has written; "": nothing, so far

type writesKey struct{}

// writesOf returns the root fields that the mutation of ctx has executed.
func writesOf(ctx context.Context) *[]rootWrite { return ctx.Value(writesKey{}).(*[]rootWrite) }

// writtenError is the error of a mutation that has been executed and whose payload there is no memory for. To
// repeat it would not help, and might write again.
type writtenError struct {
	id    string
	cause error
}

const messageWritten = "this has been written, but its payload is too large for the memory that is free: query it"

func (e *writtenError) Error() string { return messageWritten }
func (e *writtenError) Unwrap() error { return e.cause }

// reported is an error of a response that there is no memory for: the one that the client sees.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// replaced reports whether an error is not reported because the response is refused: that of any read or field of a
// query, and of a mutation those for lack of memory.
func replaced(ctx context.Context, err error) bool {
	refused := transport.RequestOf(ctx).Memory.Err()
	return refused != nil && !errors.As(err, new(reported)) && (!isOf(ctx, ast.Mutation) || errors.Is(err, refused))
}

// InterceptRootField records what mutations write. It executes none once the response is refused.
func (boundedMemory) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if !isOf(ctx, ast.Mutation) {
		return next(ctx)
	}
	writes := writesOf(ctx)
	// they execute one after the other
	*writes = append(*writes, rootWrite{field: graphql.GetRootFieldContext(ctx).Field.Alias})
	if transport.RequestOf(ctx).Memory.Err() != nil {
		return graphql.Null
	}
	return next(ctx)
}

// writtenID returns the global id of what a mutation has written or deleted.
func writtenID(payload any) string {
	switch p := payload.(type) {
	case *model.CreateUserPayload:
		return userGlobalID(p.User.UserID)
	case *model.UpdateUserPayload:
		return userGlobalID(p.User.UserID)
	case *model.DeleteUserPayload:
		return p.DeletedUserID
	case *model.CreatePostPayload:
		return postGlobalID(p.Post.ID)
	case *model.UpdatePostPayload:
		return postGlobalID(p.Post.ID)
	case *model.PublishPostPayload:
		return postGlobalID(p.Post.ID)
	case *model.DeletePostPayload:
		return p.DeletedPostID
	case *model.CreateCommentPayload:
		return commentGlobalID(p.Comment)
	case *model.UpdateCommentPayload:
		return commentGlobalID(p.Comment)
	case *model.DeleteCommentPayload:
		return p.DeletedCommentID
	case *model.LikePostPayload:
		return likeGlobalID(p.Like)
	case *model.UnlikePostPayload:
		return postGlobalID(p.Post.ID)
	case *model.BookmarkPostPayload:
		return postGlobalID(p.Post.ID)
	case *model.RemoveBookmarkPayload:
		return postGlobalID(p.Post.ID)
	case *model.FollowUserPayload:
		return userGlobalID(p.User.UserID)
	case *model.UnfollowUserPayload:
		return userGlobalID(p.User.UserID)
	}
	return ""
}

const (
	// fieldBytes and elementBytes are what the executor holds for a field, and for an element of a list, until
	// the response is encoded.
	fieldBytes   = 512
	elementBytes = 8 << 10

	// The executor encodes an event itself, into a buffer that doubles: eventCopies times its bytes at most.
	eventCopies = 3
)

// InterceptField reserves the memory of what the executor builds for a field.
func (boundedMemory) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	value, err := next(ctx)
	if err != nil {
		return value, err
	}
	f := graphql.GetFieldContext(ctx)
	if f.Object == "Mutation" {
		writes := *writesOf(ctx)
		writes[len(writes)-1].id = writtenID(value)
	}
	n := fieldBytes
	text := ""
	switch v := value.(type) {
	case string:
		text = v
	case *string:
		if v != nil {
			text = *v
		}
	default:
		if list := reflect.ValueOf(value); list.Kind() == reflect.Slice {
			n += elementBytes * list.Len()
		}
	}
	if isOf(ctx, ast.Subscription) {
		n += eventCopies * (len(f.Field.Alias) + cmp.Or(plan.QuotedLen(text), plan.MaxOpaque))
	}
	if err := transport.RequestOf(ctx).Memory.Grow(n); err != nil {
		return nil, err
	}
	return value, nil
}

// isOf reports whether ctx belongs to an operation of the kind. A refused request may have no operation.
func isOf(ctx context.Context, kind ast.Operation) bool {
	return graphql.HasOperationContext(ctx) && graphql.GetOperationContext(ctx).Operation != nil &&
		graphql.GetOperationContext(ctx).Operation.Operation == kind
}
