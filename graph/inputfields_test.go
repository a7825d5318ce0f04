package graph

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
)

// Each text of the inputs of createPost, updatePost and createComment is returned by the field of the same
// name, so that no resolver forgets one.
func TestInputs_ReachTheStore(t *testing.T) {
	b := smallBlog(t, Options{})
	schema := readSchema(t)
	for name, tt := range map[string]struct{ mutation, field, typ string }{
		"CreatePostInput":    {"createPost", "post", "Post"},
		"UpdatePostInput":    {"updatePost", "post", "Post"},
		"CreateCommentInput": {"createComment", "comment", "Comment"},
	} {
		texts := 0
		for _, f := range schema.Types[name].Fields {
			if f.Name == "idempotencyKey" || f.Type.Name() != "String" {
				continue
			}
			texts++
			if schema.Types[tt.typ].Fields.ForName(f.Name) == nil {
				t.Errorf("%s has no field for %s.%s", tt.typ, name, f.Name)
				continue
			}
			var value any = "the new " + f.Name
			switch {
			case f.Type.Elem != nil:
				value = []any{"the-new-" + f.Name}
			case f.Name == "canonicalUrl":
				value = "https://elsewhere.example/the-new-" + f.Name
			}
			in := map[string]any{}
			for _, other := range schema.Types[name].Fields {
				switch {
				case other.Name == f.Name:
					in[f.Name] = value
				case other.Type.NonNull && other.Type.Name() == "String":
					in[other.Name] = "x"
				case other.Type.NonNull:
					in[other.Name] = b.names["post:notes"]
				}
			}
			query := fmt.Sprintf(`mutation($in: %s!) { %s(input: $in) { %s { %s } } }`, name, tt.mutation, tt.field,
				f.Name)
			out := post(t, b, "demo:ada", query, map[string]any{"in": in})
			var data map[string]map[string]map[string]any
			if err := json.Unmarshal(out.Data, &data); err != nil ||
				!reflect.DeepEqual(data[tt.mutation][tt.field][f.Name], value) {
				t.Errorf("%s.%s: %v %s", name, f.Name, err, out.body)
			}
		}
		if texts == 0 || schema.Types[name].Kind != ast.InputObject {
			t.Errorf("%s has no texts", name)
		}
	}
}
