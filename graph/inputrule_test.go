package graph

import (
	"encoding/json"
	"fmt"
	"testing"

	"byline/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// One rule for every field of every update: absent, it stays; null, "" and blank clear what may be missing, and are
// refused with BLANK for what may not; a value replaces it. What changes nothing leaves version and date. The rule is
// the same by literals and by variables, of the field and of the whole input, with plans and without.
func TestUpdates_OneRuleForEveryField(t *testing.T) {
	testkit.Heavy(t)
	const (
		user    = `updateUser(input: %s) { user { username displayName avatarUrl bio } }`
		edit    = `updatePost(input: %s) { post { title content tags version updatedAt } }`
		comment = `updateComment(input: %s) { comment { content updatedAt } }`
	)
	type step struct{ value, want string } // as JSON; want is the field afterwards, or the reason of an error
	for name, tt := range map[string]struct {
		mutation, input, id, field, typ string
		steps                           []step
	}{
		"username": {user, "UpdateUserInput", "", "username", "String", []step{
			{`null`, "BLANK"}, {`""`, "BLANK"}, {`" "`, "BLANK"}, {`" ada\n"`, `"ada"`}, {`"Ada"`, `"Ada"`}}},
		"displayName": {user, "UpdateUserInput", "", "displayName", "String", []step{
			{`null`, `"ada"`}, {`"\tAda King\r\n"`, `"Ada King"`}, {`"a\nb"`, "CHARACTER"}, {`""`, `"ada"`},
			{`"Ada"`, `"Ada"`}, {`" "`, `"ada"`}}},
		"avatarUrl": {user, "UpdateUserInput", "", "avatarUrl", "String", []step{
			{`""`, `null`}, {`"/a\n"`, `"/a"`}, {`"a"`, "FORMAT"}, {`null`, `null`}, {`"/b"`, `"/b"`},
			{`" "`, `null`}}},
		"bio": {user, "UpdateUserInput", "", "bio", "String", []step{
			{`null`, `null`}, {`"a\r\nb\rc\u0085"`, `"a\nb\nc\n"`}, {`"a\u0007"`, "CHARACTER"}, {`"\r\n"`, `null`},
			{`"b"`, `"b"`}, {`""`, `null`}}},
		"title": {edit, "UpdatePostInput", "<post:notes>", "title", "String", []step{
			{`null`, "BLANK"}, {`""`, "BLANK"}, {`" "`, "BLANK"}, {`" new "`, `"new"`}, {`"new\r\n"`, `"new"`},
			{`"a\u2028b"`, "CHARACTER"}}},
		"content": {edit, "UpdatePostInput", "<post:notes>", "content", "String", []step{
			{`null`, "BLANK"}, {`""`, "BLANK"}, {`"\r\n"`, "BLANK"}, {`"a\r\n\r\nb"`, `"a\n\nb"`},
			{`"a\n\rb"`, `"a\n\nb"`}}},
		"tags": {edit, "UpdatePostInput", "<post:notes>", "tags", "[String!]", []step{
			{`["go"]`, `["go"]`}, {`["go"]`, `["go"]`}, {`null`, `[]`}, {`[]`, `[]`},
			{`["go", "sql"]`, `["go","sql"]`}, {`[]`, `[]`}}},
		"version": {edit, "UpdatePostInput", "<post:notes>", "version", "Int", []step{
			{`null`, `1`}, {`1`, `1`}, {`2`, "OUTDATED"}}},
		"content of a comment": {comment, "UpdateCommentInput", "<comment:All of them.>", "content", "String!", []step{
			{`""`, "BLANK"}, {`" \r\n"`, "BLANK"}, {`"a\r\nb"`, `"a\nb"`}, {`"a\rb"`, `"a\nb"`}}},
	} {
		for _, way := range []string{"literal", "variable", "input"} {
			for _, edge := range []string{"with plans", "without plans"} {
				t.Run(fmt.Sprintf("%s, %s, %s", name, way, edge), func(t *testing.T) {
					b := smallBlog(t, Options{})
					id := b.fill(tt.id)
					send := func(value string) (a testResponse, object map[string]json.RawMessage) {
						t.Helper()
						parameters, literal, variables := "", "", map[string]any{}
						switch {
						case way == "input":
							input := map[string]any{}
							if id != "" {
								input["id"] = id
							}
							if value != "" {
								input[tt.field] = json.RawMessage(value)
							}
							parameters, literal, variables["i"] = "($i: "+tt.input+"!)", "$i", input
						case value == "":
							literal = fmt.Sprintf("{id: %q}", id)
						case way == "literal":
							literal = fmt.Sprintf("{id: %q, %s: %s}", id, tt.field, value)
						default:
							parameters, variables["v"] = "($v: "+tt.typ+")", json.RawMessage(value)
							literal = fmt.Sprintf("{id: %q, %s: $v}", id, tt.field)
						}
						if id == "" && way != "input" {
							literal = "{" + literal[len(`{id: ""`):]
						}
						a = post(t, handlers(t, b)[edge], "demo:ada",
							"mutation"+parameters+" { m: "+fmt.Sprintf(tt.mutation, literal)+" }", variables)
						var data struct {
							M map[string]map[string]json.RawMessage
						}
						if err := json.Unmarshal(a.Data, &data); len(a.Data) > 0 && err != nil {
							t.Fatal(err)
						}
						for _, object = range data.M {
						}
						return a, object
					}
					have := map[string]json.RawMessage{}
					if tt.input != "UpdateCommentInput" { // its content is required
						var a testResponse
						if a, have = send(""); a.code() != "" {
							t.Fatalf("absent: %s", a.body)
						}
					}
					for _, s := range tt.steps {
						a, got := send(s.value)
						if s.want[0] >= 'A' && s.want[0] <= 'Z' {
							if a.extension("reason") != s.want || a.field() != tt.field {
								t.Errorf("%s: %s, want the reason %s", s.value, a.body, s.want)
							}
							continue
						}
						if diff := cmp.Diff(s.want, string(got[tt.field])); diff != "" {
							t.Fatalf("%s: %s: %s", s.value, a.body, diff)
						}
						if string(have[tt.field]) == s.want {
							if diff := cmp.Diff(have, got); diff != "" {
								t.Errorf("%s changed: %s", s.value, diff)
							}
						}
						have = got
					}
				})
			}
		}
	}
}
