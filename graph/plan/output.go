package plan

import (
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
)

// The data of a response is encoded into one buffer of exactly its size, for which memory is reserved before. The
// size is measured by encoding into a scratch buffer: as long as the data fits in there, it only has to be
// copied. Larger data is encoded twice.

// measuring counts what is encoded into a buffer. The zero value does not, and the buffer grows.
type measuring struct {
	on      bool
	skipped int // bytes that are no longer in the buffer, or never were
}

// room returns dst with room for n bytes. If it is being measured, that may be at the cost of what it has.
func (m *measuring) room(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n || !m.on {
		return dst
	}
	m.skipped += len(dst)
	return dst[:0]
}

// text appends a JSON string.
func (m *measuring) text(dst []byte, s string) []byte {
	if m.on && cap(dst)-len(dst) < maxEscaped*len(s)+2 {
		m.skipped += QuotedLen(s)
		return dst
	}
	return appendText(dst, s)
}

// output is a buffer as an io.Writer, for what the executor encodes.
type output struct {
	measuring
	b []byte
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	if o.on && cap(o.b)-len(o.b) < len(p) {
		o.skipped += len(p)
	} else {
		o.b = append(o.b, p...)
	}
	return len(p), nil
}

// ScratchBytes is the size of a scratch buffer.
const ScratchBytes = 128 << 10

var scratches = sync.Pool{New: func() any {
	b := make([]byte, 0, ScratchBytes)
	return &b
}}

// recycle returns a scratch buffer to the pool.
func recycle(b []byte) {
	if cap(b) == ScratchBytes { // or else append has replaced it
		b = b[:0]
		scratches.Put(&b)
	}
}

// Roots are the root fields of a query or mutation with their values.
type Roots struct {
	fields []graphql.CollectedField
	values []graphql.Marshaler // by field; null before it is set
}

// NewRoots returns the root fields of an operation; object is their type.
func NewRoots(op *graphql.OperationContext, object string) *Roots {
	r := &Roots{fields: graphql.CollectFields(op, op.Operation.SelectionSet, []string{object})}
	r.values = make([]graphql.Marshaler, len(r.fields))
	for i, f := range r.fields {
		if r.values[i] = graphql.Null; f.Name == "__typename" { // the executor's own
			r.values[i] = graphql.MarshalString(object)
		}
	}
	return r
}

// Set sets the value of a field.
func (r *Roots) Set(field *ast.Field, value graphql.Marshaler) {
	for i := range r.fields {
		if r.fields[i].Field == field {
			r.values[i] = value
		}
	}
}

// spareBytes is what Encode may add to the data of a response.
const spareBytes = 16

// Encode returns the data of a response, when all root fields have been resolved. It returns nil if the
// response is refused.
func (r *Roots) Encode(m *limit.Reservation) []byte {
	o := &output{measuring: measuring{on: true}, b: *scratches.Get().(*[]byte)}
	r.appendTo(o)
	defer recycle(o.b)
	n := len(o.b) + o.skipped
	if n > limit.MaxResponse {
		m.Refuse(limit.ErrTooLarge)
	}
	if m.Err() != nil || m.Grow(n+spareBytes) != nil {
		return nil
	}
	data := make([]byte, 0, n+spareBytes)
	if o.skipped == 0 {
		return append(data, o.b...)
	}
	final := &output{b: data}
	r.appendTo(final)
	return final.b
}

func (r *Roots) appendTo(o *output) {
	o.b = append(o.room(o.b, 1), '{')
	for i, f := range r.fields {
		o.b = o.room(o.b, len(f.Alias)+4)
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(append(append(o.b, '"'), f.Alias...), '"', ':')
		switch v := r.values[i].(type) {
		case *Value:
			v.appendTo(o)
		default:
			v.MarshalGQL(o)
		}
	}
	o.b = append(o.room(o.b, 1), '}')
}
