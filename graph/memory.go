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
	graphql.ResponseInterceptor
} = boundedMemory{}

func (boundedMemory) ExtensionName() string                   { return "BoundedMemory" }
func (boundedMemory) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptResponse has the reads of a response reserve memory.
func (boundedMemory) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if m := requestFrom(ctx).memory; m != nil {
		ctx = cosmos.WithMemory(ctx, readMemory{m})
	}
	return next(ctx)
}

// Exec implements graphql.ExecutableSchema.
func (b boundedMemory) Exec(ctx context.Context) graphql.ResponseHandler {
	next := b.ExecutableSchema.Exec(ctx)
	return func(ctx context.Context) *graphql.Response {
		r := requestFrom(ctx)
		r.writes = nil
		response := next(ctx)
		if err := r.memory.Err(); err != nil && response != nil {
			return b.refused(ctx, r, err)
		}
		return response
	}
}

// refused returns the response that replaces one that there is no memory for: an error, or for a mutation an
// error of each root field, with what it has written.
func (b boundedMemory) refused(ctx context.Context, r *request, err error) *graphql.Response {
	op := graphql.GetOperationContext(ctx)
	r.errors.Store(0)
	r.full = err == limit.ErrTooManyResponses && op.Operation.Operation != ast.Mutation // its error has the ids
	var cause error = reported{err}
	if err == limit.ErrTooLarge {
		cause = reported{cost.Predict(op.Operation, op.Variables, r.meter.SignedIn, 1).TooLarge()}
	}
	if op.Operation.Operation != ast.Mutation {
		return &graphql.Response{Errors: gqlerror.List{b.presenter.present(ctx, cause)}}
	}
	var errs gqlerror.List
	others := graphql.GetErrors(ctx)
	for _, w := range r.writes {
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
func (r *request) replaced(err error) bool {
	return r.memory.Err() != nil && !errors.As(err, new(reported)) && (!r.mutates || errors.Is(err, r.memory.Err()))
}

// InterceptRootField records what mutations write. It executes none once the response is refused.
func (boundedMemory) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Mutation {
		return next(ctx)
	}
	r := requestFrom(ctx)
	r.writes = append(r.writes, rootWrite{field: graphql.GetRootFieldContext(ctx).Field.Alias}) // they execute one after the other
	if r.memory.Err() != nil {
		return graphql.Null
	}
	return next(ctx)
}

// wrote records what the current root field of a mutation has written.
func (r *request) wrote(payload any) {
	if n := len(r.writes); n > 0 {
		r.writes[n-1].id = writtenID(payload)
	}
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
	r, f := requestFrom(ctx), graphql.GetFieldContext(ctx)
	if f.Object == "Mutation" {
		r.wrote(value)
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
	if ofSubscription(ctx) {
		n += eventCopies * (len(f.Field.Alias) + cmp.Or(plan.QuotedLen(text), plan.MaxOpaque))
	}
	if err := r.memory.Grow(n); err != nil {
		return nil, err
	}
	return value, nil
}
