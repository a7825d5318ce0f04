package graph

import (
	"encoding/json"
	"fmt"
	goast "go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/refusal"
)

// A mutation that fails is null. Those before and after it have their payloads.
func TestMutations_OneFails(t *testing.T) {
	const mutation = `mutation {
		a: likePost(input: {postId: "<post:notes>"}) { post { likeCount } }
		b: createComment(input: {postId: "<post:notes>", content: " "}) { comment { id } }
		c: createComment(input: {postId: "<post:notes>", content: "x"}) { post { commentCount } }
		__typename
	}`
	const want = `{"a":{"post":{"likeCount":1}},"b":null,"c":{"post":{"commentCount":1}},"__typename":"Mutation"}`
	for edge, handler := range map[string]func(*testBlog) http.Handler{
		"with plans":    func(b *testBlog) http.Handler { return b },
		"without plans": func(b *testBlog) http.Handler { return unplannedHandler{b} },
	} {
		b := smallBlog(t, Options{})
		a := post(t, handler(b), "demo:grace", b.fill(mutation), nil)
		if string(a.Data) != want || len(a.Errors) != 1 || a.code() != "BAD_USER_INPUT" ||
			fmt.Sprint(a.Errors[0].Path) != "[b]" {
			t.Errorf("%s: %s, want data %s", edge, a.body, want)
		}
	}
}

// The edge of a payload has the cursor of its list: after it come the items that the list had before.
func TestPayloadEdges(t *testing.T) {
	b := smallBlog(t, Options{})
	for name, tt := range map[string]struct {
		mutation string
		edge     []string
		list     string // with %s for the arguments
		under    []string
	}{
		"createPost": {
			`mutation { createPost(input: {title: "new", content: "x"}) { post { id } postEdge { cursor node { id title } } } }`,
			[]string{"createPost", "postEdge"}, `{ user(id: "<user:ada>") { posts(%s) { ...P } } }`,
			[]string{"user", "posts"},
		},
		"createComment": {
			`mutation { createComment(input: {postId: "<post:engines>", content: "new"}) { comment { id } commentEdge { cursor node { id content } } } }`,
			[]string{"createComment", "commentEdge"}, `{ post(id: "<post:engines>") { comments(%s) { ...C } } }`,
			[]string{"post", "comments"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := page(t, b, b.fill(fmt.Sprintf(tt.list, "first: 100")), tt.under).ids()
			if len(before) < 2 {
				t.Fatalf("the list has only %v", before)
			}
			a := post(t, b, "demo:ada", b.fill(tt.mutation), nil)
			edge := a.Data
			for _, field := range tt.edge {
				var object map[string]json.RawMessage
				if err := json.Unmarshal(edge, &object); err != nil {
					t.Fatalf("%s: %v", a.body, err)
				}
				edge = object[field]
			}
			var made struct {
				Cursor string
				Node   struct{ ID string }
			}
			if err := json.Unmarshal(edge, &made); err != nil {
				t.Fatal(err)
			}
			now := page(t, b, b.fill(fmt.Sprintf(tt.list, "first: 100")), tt.under)
			if now.Edges[0].Cursor != made.Cursor || now.ids()[0] != made.Node.ID {
				t.Errorf("got %+v, want the first edge of %+v", made, now)
			}
			after := page(t, b, b.fill(fmt.Sprintf(tt.list, fmt.Sprintf("first: 100, after: %q", made.Cursor))),
				tt.under).ids()
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("after the cursor (-before +after):\n%s", diff)
			}
		})
	}
}

// The schema documents every code and every reason that an error can have, and no other.
func TestErrors_InTheSchema(t *testing.T) {
	for enum, declared := range map[string][]string{
		"ErrorCode": errorCodes(t), "ErrorReason": constants(t, "../store/blog/errors.go", "Reason"),
	} {
		var documented []string
		for _, v := range readSchema(t).Types[enum].EnumValues {
			documented = append(documented, v.Name)
		}
		slices.Sort(documented)
		if diff := cmp.Diff(slices.Sorted(slices.Values(declared)), documented); diff != "" {
			t.Errorf("%s (-declared +documented):\n%s", enum, diff)
		}
	}
}

// errorCodes returns the error codes that refusal.go declares.
func errorCodes(t *testing.T) []string {
	t.Helper()
	// Two are declared by another name.
	return append(constants(t, "refusal/refusal.go", "Code"), string(refusal.ParseFailed),
		string(refusal.ValidationFailed))
}

// constants returns the strings that a file declares as constants of a type.
func constants(t *testing.T, path, name string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	goast.Inspect(file, func(n goast.Node) bool {
		if spec, ok := n.(*goast.ValueSpec); ok && len(spec.Values) == 1 {
			typ, _ := spec.Type.(*goast.Ident)
			if value, ok := spec.Values[0].(*goast.BasicLit); ok && typ != nil && typ.Name == name {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text)
			}
		}
		return true
	})
	if len(all) < 9 {
		t.Fatalf("found only %v", all)
	}
	return all
}
