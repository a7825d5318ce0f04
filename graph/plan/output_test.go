package plan

import (
	"io"
	"runtime"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
	"byline/graph/names"
)

// A response of more than limit.MaxResponse is refused.
func TestRoots_TooLarge(t *testing.T) {
	m, err := limit.NewMemory(limit.Capacity{}).Reserve("", limit.QueryBytes, false)
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

// Scratch buffers are used again: a response allocates about as much as it has.
func TestRoots_ReuseScratches(t *testing.T) {
	m, err := limit.NewMemory(limit.Capacity{}).Reserve("", limit.QueryBytes, false)
	if err != nil {
		t.Fatal(err)
	}
	object := &objectPlan{encode: func(dst []byte, _ *planData, _ any) []byte { return append(dst, "{}"...) }}
	const n = 400
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		v := &Value{object: object, data: &planData{names: names.New("", nil)}}
		v.encode(true)
		r := Roots{fields: []graphql.CollectedField{{Field: &ast.Field{Alias: "a"}}}, values: []graphql.Marshaler{v}}
		if data := r.Encode(m); string(data) != `{"a":{}}` {
			t.Fatalf("%s", data)
		}
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / n; per > ScratchBytes*3/4 { // the race detector drops some
		t.Errorf("%d bytes for each response", per)
	}
}
