package graph

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/fields"
	"byline/internal/oidctest"
	"byline/store"
	"byline/store/blog"
)

// NewHandler fails if a mutation has no rule or a rule has no mutation.
func TestAuthorizationRules_CoverAllMutations(t *testing.T) {
	rules := fields.Table["Mutation"]
	t.Cleanup(func() { fields.Table["Mutation"] = rules })
	start := func() error {
		_, err := NewHandler(Options{Store: &store.Store{}})
		return err
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	for name := range rules {
		fields.Table["Mutation"] = maps.Clone(rules)
		delete(fields.Table["Mutation"], name)
		if err := start(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s without a rule: %v", name, err)
		}
		fields.Table["Mutation"][name] = fields.Field{}
		if err := start(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with an empty rule: %v", name, err)
		}
	}
	fields.Table["Mutation"] = maps.Clone(rules)
	fields.Table["Mutation"]["deleteEverything"] = fields.Field{Rule: []fields.Relation{fields.Moderator}}
	if err := start(); err == nil || !strings.Contains(err.Error(), "deleteEverything") {
		t.Errorf("a rule without a mutation: %v", err)
	}
	fields.Table["Mutation"] = rules
	schema := Schema(false)
	more := *schema.Mutation
	more.Fields = append(slices.Clone(more.Fields), &ast.FieldDefinition{Name: "banUser"})
	if err := checkRules(&more); err == nil || !strings.Contains(err.Error(), "banUser") {
		t.Errorf("a new mutation: %v", err)
	}
}

// The table in docs/auth.md lists the rules in use.
func TestAuthorizationRules_AreDocumented(t *testing.T) {
	var table strings.Builder
	table.WriteString("| mutation | who may execute it |\n|---|---|\n")
	for _, f := range readSchema(t).Mutation.Fields {
		var who []string
		for _, r := range fields.Lookup("Mutation", f.Name).Rule {
			who = append(who, string(r))
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", f.Name, strings.Join(who, ", "))
	}
	doc, err := os.ReadFile("../docs/auth.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "| mutation |")
	documented, _, _ := strings.Cut("| mutation |"+rest, "\n\n")
	if diff := cmp.Diff(table.String(), documented+"\n"); diff != "" {
		t.Errorf("the table in docs/auth.md differs (-want +got):\n%s\nwant:\n%s", diff, &table)
	}
}

// Each mutation that is limited to the author is tried by an anonymous client, a viewer without a user, another user,
// moderators and the author.
func TestAuthorization(t *testing.T) {
	p := oidctest.New(t)
	b := newBlog(t, Options{Verifier: verifierOf(t, p)})
	bearer := func(name string, roles ...string) string {
		return p.Token(t, map[string]any{"sub": name, "roles": roles})
	}
	ada, grace := bearer("ada"), bearer("grace")
	others := map[string]struct {
		token     string
		moderator bool
	}{
		"an anonymous client": {}, "a viewer without a user": {token: bearer("newcomer")},
		"another user":               {token: grace},
		"a moderator":                {bearer("grace", "writer", "moderator"), true},
		"a moderator without a user": {bearer("stranger", "moderator"), true},
		"a user with other roles":    {token: bearer("grace", "Moderator", "moderators", "admin")},
	}
	do := func(t *testing.T, token, query string, variables map[string]any) string {
		t.Helper()
		a := post(t, b, token, query, variables)
		_, rest, _ := strings.Cut(string(a.Data), `"id":"`)
		id, _, found := strings.Cut(rest, `"`)
		if !found {
			t.Fatal(a.body)
		}
		return id
	}
	for name, token := range map[string]string{"ada": ada, "grace": grace} {
		do(t, token, `mutation($n: String!) { createUser(input: {username: $n}) { user { id } } }`,
			map[string]any{"n": name})
	}
	const createPost = `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`
	const createComment = `mutation($id: ID!) { createComment(input: {postId: $id, content: "c"}) { comment { id } } }`
	mutations := map[string]struct {
		query  string
		target int // 0: the post, 1: its comment
	}{
		"updatePost":    {`mutation($id: ID!) { updatePost(input: {id: $id, title: "changed"}) { post { id } } }`, 0},
		"deletePost":    {`mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`, 0},
		"updateComment": {`mutation($id: ID!) { updateComment(input: {id: $id, content: "changed"}) { comment { id } } }`, 1},
		"deleteComment": {`mutation($id: ID!) { deleteComment(input: {id: $id}) { deletedCommentId } }`, 1},
	}
	// try executes a mutation with token on an item of ada's, and reports whether the item has changed.
	try := func(t *testing.T, name, token string) (a testResponse, changed bool) {
		t.Helper()
		ids := []string{do(t, ada, createPost, nil)}
		ids = append(ids, do(t, ada, createComment, map[string]any{"id": ids[0]}))
		a = post(t, b, token, mutations[name].query, map[string]any{"id": ids[mutations[name].target]})
		left := post(t, b, "",
			`query($ids: [ID!]!) { nodes(ids: $ids) { ... on Post { title content } ... on Comment { text: content } } }`, map[string]any{"ids": ids})
		return a, string(left.Data) != `{"nodes":[{"title":"t","content":"c"},{"text":"c"}]}`
	}
	for name, row := range fields.Table["Mutation"] {
		if _, ok := mutations[name]; ok != slices.Contains(row.Rule, fields.Author) {
			t.Errorf("%s: rule %v, tested %t", name, row.Rule, ok)
		}
	}
	for name := range mutations {
		for who, other := range others {
			t.Run(name+" by "+who, func(t *testing.T) {
				want := "FORBIDDEN"
				switch {
				case other.token == "":
					want = "UNAUTHENTICATED"
				case other.moderator && slices.Contains(fields.Lookup("Mutation", name).Rule, fields.Moderator):
					want = ""
				}
				if a, changed := try(t, name, other.token); a.code() != want || changed != (want == "") {
					t.Errorf("code %q, want %q, changed %t: %s", a.code(), want, changed, a.body)
				}
			})
		}
		t.Run(name+" by the author", func(t *testing.T) {
			if a, changed := try(t, name, ada); a.code() != "" || !changed {
				t.Errorf("changed %t: %s", changed, a.body)
			}
		})
	}
	t.Run("a post's author does not own the comments", func(t *testing.T) {
		comment := do(t, grace, createComment, map[string]any{"id": do(t, ada, createPost, nil)})
		for _, name := range []string{"updateComment", "deleteComment"} {
			if a := post(t, b, ada, mutations[name].query, map[string]any{"id": comment}); a.code() != "FORBIDDEN" {
				t.Error(a.body)
			}
		}
	})
}

func TestModerator_UnknownItemIsNotFound(t *testing.T) {
	p := oidctest.New(t)
	b := smallBlog(t, Options{Verifier: verifierOf(t, p)})
	token := p.Token(t, map[string]any{"roles": []string{"moderator"}})
	for _, query := range []string{
		`mutation { deletePost(input: {id: "` + postGlobalID("absent") + `"}) { deletedPostId } }`,
		b.fill(`mutation { deleteComment(input: {id: "` +
			commentGlobalID(&blog.Comment{PostID: b.postID(t, "moths"), ID: "absent"}) + `"}) { deletedCommentId } }`),
	} {
		if a := post(t, b, token, query, nil); a.code() != "NOT_FOUND" {
			t.Error(a.body)
		}
	}
}

// With demo tokens, too, a moderator may delete posts of others but not edit them.
func TestDemoModerator(t *testing.T) {
	b := smallBlog(t, Options{})
	const remove, edit = `mutation { deletePost(input: {id: "<post:moths>"}) { deletedPostId } }`,
		`mutation { updatePost(input: {id: "<post:moths>", title: "t"}) { post { id } } }`
	for _, tt := range []struct{ token, query, code string }{
		{"demo:ada", remove, "FORBIDDEN"}, {"demo-moderator:ada", edit, "FORBIDDEN"},
		{"demo-moderator:ada", remove, ""},
	} {
		if a := post(t, b, tt.token, b.fill(tt.query), nil); a.code() != tt.code {
			t.Errorf("%s: %s", tt.token, a.body)
		}
	}
}
