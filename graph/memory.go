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
	"byline/store/cosmos"
)

// Every response has a limit.Reservation, from before its operation executes until the client has received
// it. It grows by what is read from Cosmos DB (package cosmos, by readMemory), by what the executor builds
// (boundedMemory.InterceptField), and by the data that is encoded (see output). When it cannot grow, reads and
// fields fail, and boundedMemory makes the response an error.

// reserve begins the memory of a response. The caller calls sent in any case.
func (r *request) reserve(budget *limit.Budget, kind ast.Operation) (err error) {
	bytes := 0
	switch kind {
	case ast.Query:
		bytes = limit.QueryBytes
	case ast.Mutation:
		bytes = limit.MutationBytes
	}
	r.mutates = kind == ast.Mutation
	if r.memory, err = budget.Reserve(bytes, r.mutates); err != nil {
		r.full = true
		return err
	}
	r.release = r.memory.Release
	return nil
}

// share joins the memory of a response of so many bytes that other clients are sent, too.
func (r *request) share(s *limit.Shared, bytes int) error {
	release, err := s.Join(r.memory, bytes)
	if err != nil {
		r.full = true
		return err
	}
	r.release, r.shared = release, true
	return nil
}

// noMemory reports whether the response is refused because there was no memory for it. The error of a mutation, which
// has been executed, has the ids of what it has written.
func (r *request) noMemory() bool {
	return r.full || !r.mutates && r.memory.Err() == limit.ErrTooManyResponses
}

// send returns a response as JSON, in pieces, and releases what was reserved besides.
func (r *request) send(response *graphql.Response) [][]byte {
	all := pieces(response)
	if r.shared {
		return all
	}
	n := cap(response.Data) - len(response.Data) + len("\n")
	for _, p := range all {
		n += len(p)
	}
	r.memory.Resize(n)
	return all
}

// sent releases the memory of a response that has been sent, or could not be.
func (r *request) sent() {
	if r.release != nil {
		r.release()
	}
	r.memory, r.release, r.shared, r.full = nil, nil, false, false
}

// readMemory is the memory of the reads of a response.
type readMemory struct{ *limit.Reservation }

var _ cosmos.Memory = readMemory{}

// Fork implements cosmos.Memory.
func (m readMemory) Fork() (cosmos.Memory, func()) {
	forked := m.Reservation.Fork()
	return readMemory{forked}, forked.Release
}

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
		if err := requestFrom(ctx).memory.Err(); err != nil && response != nil {
			return b.refused(ctx, err)
		}
		return response
	}
}

// refused returns the response that replaces one that there is no memory for: an error, or for a mutation an
// error of each root field, with what it has written.
func (b boundedMemory) refused(ctx context.Context, err error) *graphql.Response {
	op, r := graphql.GetOperationContext(ctx), requestFrom(ctx)
	r.errors.Store(0)
	var cause error = reported{err}
	if err == limit.ErrTooLarge {
		cause = reported{cost.Predict(op.Operation, op.Variables, r.meter.SignedIn, 1).TooLarge()}
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
	return &graphql.Response{Data: []byte("null"), Errors: errs}
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
	refused := requestFrom(ctx).memory.Err()
	return refused != nil && !errors.As(err, new(reported)) && (!isOf(ctx, ast.Mutation) || errors.Is(err, refused))
}

// InterceptRootField records what mutations write. It executes none once the response is refused.
func (boundedMemory) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if !isOf(ctx, ast.Mutation) {
		return next(ctx)
	}
	writes := writesOf(ctx)
	*writes = append(*writes, rootWrite{field: graphql.GetRootFieldContext(ctx).Field.Alias}) // they execute one after the other
	if requestFrom(ctx).memory.Err() != nil {
		return graphql.Null
	}
	return next(ctx)
}

// writtenID returns the global id of what a mutation has written or deleted.
func writtenID(payload any) string {
	switch p := payload.(type) {
	case *model.CreateUserPayload:
		return userGlobalID(p.User.ID)
	case *model.UpdateUserPayload:
		return userGlobalID(p.User.ID)
	case *model.DeleteUserPayload:
		return p.DeletedUserID
	case *model.CreatePostPayload:
		return postGlobalID(p.Post.ID)
	case *model.UpdatePostPayload:
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
	if err := requestFrom(ctx).memory.Grow(n); err != nil {
		return nil, err
	}
	return value, nil
}
