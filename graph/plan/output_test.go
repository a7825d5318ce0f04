package plan

import (
	"io"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
)

// A response of more than limit.MaxResponse is refused.
func TestRoots_TooLarge(t *testing.T) {
	m, err := limit.NewMemory(limit.Capacity{}).Reserve(limit.QueryBytes, false)
	if err != nil {
		t.Fatal(err)
	}
	tooLong := graphql.WriterFunc(func(w io.Writer) {
		for range limit.MaxResponse / 1024 {
			_, _ = w.Write(make([]byte, 1024))
		}
	})
	r := Roots{fields: []graphql.CollectedField{{Field: &ast.Field{Alias: "a"}}}, values: []graphql.Marshaler{tooLong}}
	if data := r.Encode(m); data != nil || m.Err() != limit.ErrTooLarge {
		t.Errorf("%d bytes, %v", len(data), m.Err())
	}
}
