package cost

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"byline/graph/fields"
	"byline/graph/generated"
	"byline/graph/globalid"
	"byline/internal/testmain"
)

func TestPrediction(t *testing.T) {
	schema := readSchema(t)
	of := func(typ, field string, first float64) float64 {
		p := fields.Lookup(typ, field).Price
		return p.Each + p.Item*first
	}
	feed := func(first float64) float64 { return of("Query", "feed", first) }
	posts := func(first float64) float64 { return of("User", "posts", first) }
	comments := func(first float64) float64 { return of("Post", "comments", first) }
	postRead, nodeRead := fields.Lookup("Query", "post").Price.Each, fields.Lookup("Query", "node").Price.Each
	userID, postID := userGlobalID("u"), postGlobalID("p")
	const nobody, somebody = false, true
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		signedIn  bool
		total     float64
		top       string
	}{
		"nothing is read":                 {`{ __typename }`, nil, nobody, 0, ""},
		"nobody":                          {`{ viewer { id posts { edges { cursor } } } }`, nil, nobody, 0, ""},
		"the viewer":                      {`{ viewer { username } }`, nil, somebody, 1, "viewer"},
		"the default page":                {`{ feed { edges { cursor } } }`, nil, nobody, feed(20), "feed"},
		"null is the default page":        {`{ feed(first: null) { edges { cursor } } }`, nil, nobody, feed(20), "feed"},
		"a page":                          {`{ feed(first: 7) { edges { cursor } } }`, nil, nobody, feed(7), "feed"},
		"a page from a variable":          {`query($n: Int) { feed(first: $n) { edges { cursor } } }`, map[string]any{"n": int64(9)}, nobody, feed(9), "feed"},
		"lists side by side":              {`{ a: feed(first: 7) { edges { cursor } } b: feed(first: 9) { edges { cursor } } }`, nil, nobody, feed(7) + feed(9), "b"},
		"lists in lists":                  {`{ feed(first: 10) { edges { node { comments(first: 5) { edges { cursor } } } } } }`, nil, nobody, feed(10) + 10*comments(5), "feed.edges.node.comments"},
		"lists in lists in lists":         {`{ feed(first: 10) { edges { p: node { author { posts(first: 5) { edges { node { c: comments(first: 2) { edges { cursor } } } } } } } } } }`, nil, nobody, feed(10) + 10*posts(5) + 50*comments(2), "feed.edges.p.author.posts.edges.node.c"},
		"a fragment in two places":        {`{ a: feed(first: 3) { ...F } b: feed(first: 4) { ...F } } fragment F on PostConnection { edges { node { ...G ...G } } } fragment G on Post { comments(first: 5) { edges { cursor } } }`, nil, nobody, feed(3) + feed(4) + 14*comments(5), "a.edges.node.comments"},
		"inline fragments":                {`{ ... on Query { ... { feed(first: 7) { edges { cursor } } } } }`, nil, nobody, feed(7), "feed"},
		"left out":                        {`query($n: Boolean!) { a: feed @include(if: $n) { edges { cursor } } b: feed @skip(if: true) { edges { cursor } } ...F @include(if: false) ... @skip(if: true) { c: feed { edges { cursor } } } } fragment F on Query { d: feed { edges { cursor } } }`, map[string]any{"n": false}, nobody, 0, ""},
		"not left out":                    {`query($n: Boolean!) { feed(first: 1) @include(if: $n) @skip(if: false) { edges { cursor } } }`, map[string]any{"n": true}, nobody, feed(1), "feed"},
		"a page that will be refused":     {`{ feed(first: 1000000) { edges { node { comments { edges { cursor } } } } } }`, nil, nobody, 0, ""},
		"the largest page there is":       {`{ feed(first: 2147483647) { edges { cursor } } }`, nil, nobody, 0, ""},
		"a page of less than nothing":     {`{ feed(first: -2147483648) { edges { cursor } } }`, nil, nobody, 0, ""},
		"a page from a variable too big":  {`query($n: Int) { feed(first: $n) { edges { cursor } } }`, map[string]any{"n": int64(math.MaxInt64)}, nobody, 0, ""},
		"a post":                          {`{ post(id: "` + postID + `") { title content author { username } } }`, nil, nobody, postRead, "post"},
		"a reference and its list":        {`{ post(id: "` + postID + `") { id ...F comments(first: 5) { edges { cursor } } } } fragment F on Post { __typename comments(first: 5) { pageInfo { hasNextPage } } }`, nil, nobody, 2 * comments(5), "post.comments"},
		"a node and its list":             {`{ node(id: "` + postID + `") { ... on Post { comments(first: 5) { edges { cursor } } } } }`, nil, nobody, comments(5), "node.comments"},
		"two lists":                       {`{ post(id: "` + postID + `") { id a: comments(first: 5) { edges { cursor } } b: comments(first: 5) { edges { cursor } } } }`, nil, nobody, postRead + 2*comments(5), "post.a"},
		"a list and more":                 {`{ node(id: "` + postID + `") { ... on Post { title comments(first: 5) { edges { cursor } } } } }`, nil, nobody, nodeRead + comments(5), "node.comments"},
		"only the id":                     {`{ post(id: "` + postID + `") { id } }`, nil, nobody, postRead, "post"},
		"one key is a point read":         {`{ post(id: "` + postID + `") { title author { createdAt } viewerHasLiked } }`, nil, somebody, postRead + 1 + 1, "post"},
		"nobody likes anything":           {`{ post(id: "` + postID + `") { title viewerHasLiked } }`, nil, nobody, postRead, "post"},
		"keys of one loader":              {`{ a: feed(first: 5) { ...F } b: feed(first: 6) { ...F } } fragment F on PostConnection { edges { node { author { createdAt } } } }`, nil, nobody, feed(5) + feed(6) + fields.Users.Of(11), "b"},
		"more keys than a batch":          {`{ a: feed(first: 100) { ...F } b: feed(first: 30) { ...F } } fragment F on PostConnection { edges { node { content } } }`, nil, nobody, feed(100) + feed(30) + 2*fields.Posts.Each + 130*fields.Posts.Key, "a.edges.node.content"},
		"whole posts have their contents": {`{ user(id: "` + userID + `") { createdAt posts(first: 2) { edges { node { comments(first: 3) { edges { node { post { content } } } } } } } } }`, nil, nobody, 1 + posts(2) + 2*comments(3) + fields.Posts.Of(2), "user.posts.edges.node.comments"},
		"nodes": {`{ nodes(ids: ["` + userID + `", "` + postID + `", "` + postID + `"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, nobody,
			fields.Users.Of(1) + fields.Posts.Of(2) + 3*comments(10), "nodes.comments"},
		"one of nodes": {`{ nodes(ids: "` + userID + `") { id } }`, nil, nobody, fields.Users.Of(1), "nodes"},
		"nodes and nonsense": {`{ nodes(ids: ["` + userID + `", "nonsense"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, nobody,
			fields.Users.Of(1) + comments(10), "nodes.comments"},
		"nonsense for nodes":        {`{ nodes(ids: ["nonsense"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, nobody, 0, ""},
		"more nodes than there may": {`query($ids: [ID!]!) { nodes(ids: $ids) { id } }`, map[string]any{"ids": make([]any, 101)}, nobody, 0, ""},
		"a malformed id":            {`query($id: ID!) { post(id: "x") { title comments { edges { cursor } } } user(id: "` + postID + `") { username } node(id: $id) { id } }`, map[string]any{"id": "x"}, nobody, 0, ""},
		"writes":                    {`mutation { a: likePost(input: {postId: "x"}) { post { title comments(first: 1) { edges { cursor } } } } b: createComment(input: {postId: "x", content: "c"}) { comment { id } } }`, nil, somebody, of("Mutation", "likePost", 0) + of("Mutation", "createComment", 0) + comments(1), "a"},
		"an event":                  {`subscription { commentAdded(postId: "x") { content author { createdAt } post { title content } } }`, nil, nobody, fields.Users.Of(1) + fields.Posts.Of(1), "commentAdded.post"},
		"an event at hand":          {`subscription { postPublished { title content author { username } } }`, nil, nobody, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := predicted(t, schema, tt.query, tt.variables, tt.signedIn)
			if math.Abs(got.RU-tt.total) > 1e-6 {
				t.Errorf("%f RU, want %f", got.RU, tt.total)
			}
			top, sum := "", 0.0
			if f := got.mostExpensive(); f != nil {
				top = f.path()
			}
			for _, f := range got.fields {
				sum += f.ru
			}
			if top != tt.top {
				t.Errorf("the most expensive is %q, want %q", top, tt.top)
			}
			if math.Abs(sum-got.RU) > 1e-6 {
				t.Errorf("the fields cost %f, all together %f", sum, got.RU)
			}
		})
	}
}

// Every field that the resolvers read or write for has its price, and no other.
func TestFields_MatchTheSchema(t *testing.T) {
	schema := readSchema(t)
	for typ, rows := range fields.Table {
		for name, row := range rows {
			f := schema.Types[typ].Fields.ForName(name)
			if f == nil {
				t.Errorf("there is no %s.%s", typ, name)
				continue
			}
			if list := f.Arguments.ForName("first") != nil; list != (row.Price.Item > 0) {
				t.Errorf("%s.%s is a list: %t, has a price by item: %t", typ, name, list, row.Price.Item > 0)
			}
		}
	}
	for name, definition := range schema.Types {
		for _, f := range definition.Fields {
			priced := fields.Lookup(name, f.Name).Price != (fields.Price{})
			root := name == "Query" && !strings.HasPrefix(f.Name, "__") && f.Name != "nodes" || name == "Mutation"
			if (root || f.Arguments.ForName("first") != nil) && !priced {
				t.Errorf("%s.%s has no price", name, f.Name)
			}
		}
	}
}

// Each fragment spreads the next one twice, so that they unfold to 2^200 lists: a
// prediction that walks them at each spread, or counts in integers that wrap, does not
// come to an end or to nothing.
func TestFragmentsThatDoubleAreWalkedOnce(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	for name, inside := range map[string]string{
		"side by side":        "...F%[1]d ...F%[1]d",
		"below lists":         "a: posts { edges { node { author { ...F%[1]d } } } } b: posts { edges { node { author { ...F%[1]d } } } }",
		"of a sole reference": "id posts(first: 100) { __typename } ...F%[1]d ...F%[1]d",
	} {
		t.Run(name, func(t *testing.T) {
			const n = 200
			var query strings.Builder
			query.WriteString(`{ user(id: "` + userGlobalID("u") + `") { ...F0 } }`)
			for i := range n {
				fmt.Fprintf(&query, " fragment F%d on User { %s }", i, fmt.Sprintf(inside, i+1))
			}
			fmt.Fprintf(&query, " fragment F%d on User { posts(first: 100) { __typename } }", n)
			document, err := gqlparser.LoadQueryWithRules(schema, query.String(), &rules.Rules{}) // the rules would walk them at each spread
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			p := Predict(document.Operations[0], nil, false, 1)
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %s", took)
			}
			if p.RU != math.MaxInt32 || p.mostExpensive().ru != math.MaxInt32 {
				t.Errorf("%f RU, %f of them %s", p.RU, p.mostExpensive().ru, p.mostExpensive().path())
			}
		})
	}
}

func readSchema(t testing.TB) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile("../../schema.graphqls")
	if err != nil {
		t.Fatal(err)
	}
	return gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(text)})
}

// predicted is the prediction of a query's only operation.
func predicted(t testing.TB, schema *ast.Schema, query string, variables map[string]any, signedIn bool) Prediction {
	t.Helper()
	document, err := gqlparser.LoadQueryWithRules(schema, query, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Predict(document.Operations[0], variables, signedIn, 1)
}

func userGlobalID(id string) string { return globalid.ID{Kind: globalid.User, Key: id}.String() }
func postGlobalID(id string) string { return globalid.ID{Kind: globalid.Post, Key: id}.String() }

func TestMain(m *testing.M) { testmain.Run(m) }
