package cost

import (
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"byline/graph/fields"
	"byline/graph/generated"
	"byline/graph/globalid"
	"byline/internal/testkit"
	"byline/store"
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
	createPost := fields.Lookup("Mutation", "createPost").Price
	userID, postID := userGlobalID("u"), postGlobalID("p")
	commentID := globalid.ID{Kind: globalid.Comment, Parent: "p", Key: "c"}.String()
	const anonymous, signedIn = false, true
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		signedIn  bool
		total     float64
		top       string
	}{
		"nothing is read": {`{ __typename }`, nil, anonymous, 0, ""},
		"viewer of an anonymous caller": {`{ viewer { id posts { edges { cursor } } } }`, nil, anonymous, 0,
			""},
		"viewer":       {`{ viewer { username } }`, nil, signedIn, 1, "viewer"},
		"default page": {`{ feed { edges { cursor } } }`, nil, anonymous, feed(20), "feed"},
		"null page size -> default page": {`{ feed(first: null) { edges { cursor } } }`, nil, anonymous,
			feed(20), "feed"},
		"page": {`{ feed(first: 7) { edges { cursor } } }`, nil, anonymous,
			feed(7), "feed"},
		"page size from a variable": {`query($n: Int) { feed(first: $n) { edges { cursor } } }`,
			map[string]any{"n": int64(9)}, anonymous, feed(9), "feed"},
		"months, as many as in ten years": {
			`{ months { ...F ...F } } fragment F on Month { ` + strings.Repeat("month postCount ", 10) + `}`,
			nil, anonymous, 2 + fields.Evaluations(1+40*fields.Months), "months.month"},
		"lists side by side":            {`{ a: feed(first: 7) { edges { cursor } } b: feed(first: 9) { edges { cursor } } }`, nil, anonymous, feed(7) + feed(9), "b"},
		"nested lists":                  {`{ feed(first: 10) { edges { node { comments(first: 5) { edges { cursor } } } } } }`, nil, anonymous, feed(10) + 10*comments(5), "feed.edges.node.comments"},
		"three nested lists":            {`{ feed(first: 10) { edges { p: node { author { posts(first: 5) { edges { node { c: comments(first: 2) { edges { cursor } } } } } } } } } }`, nil, anonymous, feed(10) + 10*posts(5) + 50*comments(2), "feed.edges.p.author.posts.edges.node.c"},
		"fragment spread in two places": {`{ a: feed(first: 3) { ...F } b: feed(first: 4) { ...F } } fragment F on PostConnection { edges { node { ...G ...G } } } fragment G on Post { comments(first: 5) { edges { cursor } } }`, nil, anonymous, feed(3) + feed(4) + 14*comments(5), "a.edges.node.comments"},
		"inline fragments": {`{ ... on Query { ... { feed(first: 7) { edges { cursor } } } } }`, nil,
			anonymous, feed(7), "feed"},
		"excluded by @skip and @include": {`query($n: Boolean!) { a: feed @include(if: $n) { edges { cursor } } b: feed @skip(if: true) { edges { cursor } } ...F @include(if: false) ... @skip(if: true) { c: feed { edges { cursor } } } } fragment F on Query { d: feed { edges { cursor } } }`, map[string]any{"n": false}, anonymous, 0, ""},
		"included by @skip and @include": {`query($n: Boolean!) { feed(first: 1) @include(if: $n) @skip(if: false) { edges { cursor } } }`, map[string]any{"n": true}, anonymous, feed(1), "feed"},
		"page too large -> not executed": {`{ feed(first: 1000000) { edges { node { comments { edges { cursor } } } } } }`, nil, anonymous, 0, ""},
		"page of the largest Int": {`{ feed(first: 2147483647) { edges { cursor } } }`, nil,
			anonymous, 0, ""},
		"negative page": {`{ feed(first: -2147483648) { edges { cursor } } }`, nil, anonymous, 0, ""},
		"page size from a variable beyond 32 bits": {`query($n: Int) { feed(first: $n) { edges { cursor } } }`,
			map[string]any{"n": int64(math.MaxInt64)}, anonymous, 0, ""},
		"post": {`{ post(id: "` + postID + `") { title content author { username } } }`, nil, anonymous, postRead,
			"post"},
		"post with only id and list -> list only": {`{ post(id: "` + postID +
			`") { id ...F comments(first: 5) { edges { cursor } } } } fragment F on Post { __typename comments(first: 5) { pageInfo { hasNextPage } } }`, nil, anonymous, 2 * comments(5), "post.comments"},
		"node with only a list -> list only": {`{ node(id: "` + postID +
			`") { ... on Post { comments(first: 5) { edges { cursor } } } } }`, nil, anonymous, comments(5),
			"node.comments"},
		"post with two lists -> read": {`{ post(id: "` + postID +
			`") { id a: comments(first: 5) { edges { cursor } } b: comments(first: 5) { edges { cursor } } } }`, nil,
			anonymous, postRead + 2*comments(5), "post.a"},
		"node with a list and a title -> read": {`{ node(id: "` + postID +
			`") { ... on Post { title comments(first: 5) { edges { cursor } } } } }`, nil, anonymous,
			nodeRead + comments(5), "node.comments"},
		"userByUsername with only a list -> read": {`{ userByUsername(username: "ada") { id posts(first: 5) { edges { cursor } } } }`, nil, anonymous, 2 + posts(5), "userByUsername.posts"},
		"post with an excluded title -> list only": {`{ post(id: "` + postID +
			`") { title @skip(if: true) ... @include(if: false) { title } comments(first: 5) { edges { cursor } } } }`,
			nil, anonymous, comments(5), "post.comments"},
		"largest page": {`{ feed(first: 100) { edges { cursor } } }`, nil, anonymous, feed(100),
			"feed"},
		"page of one item too many": {`{ feed(first: 101) { edges { cursor } } }`, nil, anonymous, 0, ""},
		"viewerHasLiked of a page": {`{ feed(first: 5) { edges { node { viewerHasLiked } } } }`, nil, signedIn,
			feed(5) + fields.Liked.Of(5), "feed"},
		"most nodes": {`query($ids: [ID!]!) { nodes(ids: $ids) { id } }`,
			map[string]any{"ids": slices.Repeat([]any{userID}, 100)}, anonymous, fields.Users.Of(100), "nodes"},
		"nodes that are read one by one": {`query($ids: [ID!]!) { nodes(ids: $ids) { id } }`,
			map[string]any{"ids": []any{userID, commentID, commentID}}, anonymous, fields.Users.Of(1) + 2, "nodes"},
		"short text": {`mutation($text: String!) { createPost(input: {title: "t", content: $text}) { post { id } } }`,
			map[string]any{"text": strings.Repeat("a", 2046)}, signedIn, of("Mutation", "createPost", 0), "createPost"},
		"long text": {`mutation($text: String!) { createPost(input: {title: "t", content: $text}) { post { id } } }`,
			map[string]any{"text": strings.Repeat("a", 16<<10)}, signedIn,
			of("Mutation", "createPost", 0) + createPost.Long + 16*createPost.KB, "createPost"},
		"long comment": {`mutation($text: String!) { createComment(input: {postId: "x", content: $text}) { comment { id } } }`, map[string]any{"text": strings.Repeat("a", 4096)}, signedIn, of("Mutation", "createComment", 0), "createComment"},
		"post with only the id -> read": {`{ post(id: "` + postID + `") { id } }`, nil, anonymous, postRead,
			"post"},
		"batch of one key -> point read": {`{ post(id: "` + postID +
			`") { title author { createdAt } viewerHasLiked } }`, nil, signedIn, postRead + 1 + 1, "post"},
		"viewerHasLiked of an anonymous caller": {`{ post(id: "` + postID + `") { title viewerHasLiked } }`, nil,
			anonymous, postRead, "post"},
		"keys of two lists -> one batch":        {`{ a: feed(first: 5) { ...F } b: feed(first: 6) { ...F } } fragment F on PostConnection { edges { node { author { createdAt } } } }`, nil, anonymous, feed(5) + feed(6) + fields.Users.Of(11), "b"},
		"more keys than a batch -> two batches": {`{ a: feed(first: 100) { ...F } b: feed(first: 30) { ...F } } fragment F on PostConnection { edges { node { content } } }`, nil, anonymous, feed(100) + feed(30) + 2*fields.Posts.Each + 130*fields.Posts.Key, "a.edges.node.content"},
		"parent posts are not truncated": {`{ user(id: "` + userID +
			`") { createdAt posts(first: 2) { edges { node { comments(first: 3) { edges { node { post { content } } } } } } } } }`, nil, anonymous, 1 + posts(2) + 2*comments(3) + fields.Posts.Of(2), "user.posts.edges.node.comments"},
		"nodes": {`{ nodes(ids: ["` + userID + `", "` + postID + `", "` + postID +
			`"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, anonymous,
			fields.Users.Of(1) + fields.Posts.Of(2) + 3*comments(10), "nodes.comments"},
		"single id for nodes": {`{ nodes(ids: "` + userID + `") { id } }`, nil, anonymous, fields.Users.Of(1), "nodes"},
		"nodes with a malformed id": {`{ nodes(ids: ["` + userID +
			`", "nonsense"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, anonymous,
			fields.Users.Of(1) + comments(10), "nodes.comments"},
		"nodes with only a malformed id": {`{ nodes(ids: ["nonsense"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, anonymous, 0, ""},
		"too many nodes": {`query($ids: [ID!]!) { nodes(ids: $ids) { id } }`,
			map[string]any{"ids": make([]any, 101)}, anonymous, 0, ""},
		"malformed ids":            {`query($id: ID!) { post(id: "x") { title comments { edges { cursor } } } user(id: "` + postID + `") { username } node(id: $id) { id } }`, map[string]any{"id": "x"}, anonymous, 0, ""},
		"mutations":                {`mutation { a: likePost(input: {postId: "x"}) { post { title comments(first: 1) { edges { cursor } } } } b: createComment(input: {postId: "x", content: "c"}) { comment { id } } }`, nil, signedIn, of("Mutation", "likePost", 0) + of("Mutation", "createComment", 0) + comments(1), "a"},
		"event with batched reads": {`subscription { commentAdded(postId: "x") { content author { createdAt } post { title content } } }`, nil, anonymous, fields.Users.Of(1) + fields.Posts.Of(1), "commentAdded.post"},
		"event without reads": {`subscription { postPublished { title content author { username } } }`, nil,
			anonymous, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := predicted(t, schema, tt.query, tt.variables, tt.signedIn)
			if math.Abs(got.RU-tt.total) > 1e-6 {
				t.Errorf("predicted %f RU, want %f", got.RU, tt.total)
			}
			top, sum := "", 0.0
			if f := got.mostExpensive(); f != nil {
				top = f.path()
			}
			for _, f := range got.fields {
				sum += f.ru
			}
			if top != tt.top {
				t.Errorf("most expensive field %q, want %q", top, tt.top)
			}
			if math.Abs(sum-got.RU) > 1e-6 {
				t.Errorf("the fields cost %f RU in sum, the operation %f", sum, got.RU)
			}
		})
	}
}

func TestPredict_FeedPartitions(t *testing.T) {
	document, err := gqlparser.LoadQueryWithRules(readSchema(t),
		`mutation { deletePost(input: {id: "x"}) { __typename } }`, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := fields.Lookup("Mutation", "deletePost").Price
	for partitions, want := range map[int]float64{0: p.Each, 1: p.Each, 3: p.Each + 2*p.FeedPartition} {
		got := Predict(document.Operations[0], nil, true, Blog{FeedPartitions: partitions}).RU
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("with %d partitions of the feed: %f RU, want %f", partitions, got, want)
		}
	}
}

// A search is predicted by what is known about its words. By relevance, a page reads those before it, too.
func TestPredict_Search(t *testing.T) {
	schema := readSchema(t)
	after := base64.RawURLEncoding.EncodeToString([]byte("1|digest|40|2026-11-29T10:00:00.000Z|post"))
	author := globalid.OfUser("u1").String()
	p := fields.Lookup("Query", "search").Price
	for arguments, want := range map[string]struct {
		search store.Search
		first  int
		ru     float64
	}{
		`query: "known"`: {store.Search{Query: "known", Order: store.ByRelevance}, 20,
			1 + 7 + fields.Posts.Of(21)},
		`query: "known", first: 5, tag: "go", author: "` + author + `"`: {
			store.Search{Query: "known", Order: store.ByRelevance, Tag: "go", AuthorID: "u1"}, 5, 1 + 7 + fields.Posts.Of(6)},
		`query: "known", order: NEWEST, after: "` + after + `"`: {
			store.Search{Query: "known", Order: store.ByDate}, 20, 1 + 7 + fields.Posts.Of(21)},
		`query: "known", after: "` + after + `"`: {
			store.Search{Query: "known", Order: store.ByRelevance}, 60, 1 + 7 + fields.Posts.Of(21)},
		`query: "unknown", first: 10`: {
			store.Search{Query: "unknown", Order: store.ByRelevance}, 10, p.Each + 10*p.Item},
	} {
		query := "{ search(" + arguments + ") { edges { cursor } } }"
		document, err := gqlparser.LoadQueryWithRules(schema, query, nil)
		if err != nil {
			t.Fatal(err)
		}
		var asked store.Search
		var first int
		got := Predict(document.Operations[0], nil, false, Blog{SearchRU: func(q store.Search, n int) (float64, bool) {
			asked, first = q, n
			return 7, q.Query == "known"
		}})
		if asked != want.search || first != want.first || math.Abs(got.RU-want.ru) > 1e-6 {
			t.Errorf("%s: %f RU, want %f; asked for %+v, %d posts", arguments, got.RU, want.ru, asked, first)
		}
	}
}

// Exactly the fields whose resolvers read or write have a price.
func TestFields_MatchTheSchema(t *testing.T) {
	schema := readSchema(t)
	for typ, rows := range fields.Table {
		for name, row := range rows {
			f := schema.Types[typ].Fields.ForName(name)
			if f == nil {
				t.Errorf("the schema has no field %s.%s", typ, name)
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
			root := name == "Query" && !strings.HasPrefix(f.Name, "__") && f.Name != "nodes" &&
				f.Name != "viewerIsModerator" || name == "Mutation"
			if (root || f.Arguments.ForName("first") != nil) && !priced {
				t.Errorf("%s.%s has no price", name, f.Name)
			}
		}
	}
}

// A text that an input takes, and that may be longer than defaultMaxBytes, has MaxBytes where it is read, so that
// responses are predicted with it.
func TestFields_LongTexts(t *testing.T) {
	schema, input := readSchema(t), regexp.MustCompile(`^(?:Create|Update)(\w+)Input$`)
	length := regexp.MustCompile(`to ([0-9,]+) characters`)
	long := 0
	for name, definition := range schema.Types {
		of := input.FindStringSubmatch(name)
		if of == nil {
			continue
		}
		for _, f := range definition.Fields {
			m := length.FindStringSubmatch(f.Description)
			if m == nil || schema.Types[of[1]].Fields.ForName(f.Name) == nil {
				continue
			}
			n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			if n*fields.TextBytes <= defaultMaxBytes {
				continue
			}
			long++
			if row := fields.Lookup(of[1], f.Name); row.MaxBytes < float64(n*fields.TextBytes) {
				t.Errorf("%s.%s may have %d characters: its row in graph/fields/table.go needs MaxBytes", of[1],
					f.Name, n)
			}
		}
	}
	if long < 3 {
		t.Errorf("%d long texts", long)
	}
}

// Each fragment spreads the next one twice, so that they expand to 2^200 lists. A prediction that
// walks fragments at each spread would not end, and one that counts in integers would overflow.
func TestPredict_ExponentialFragments(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	for name, inside := range map[string]string{
		"side by side": "...F%[1]d ...F%[1]d",
		"below lists": "a: posts { edges { node { author { ...F%[1]d } } } } b: posts { edges { node { author " +
			"{ ...F%[1]d } } } }",
		"beside a sole list": "id posts(first: 100) { __typename } ...F%[1]d ...F%[1]d",
	} {
		t.Run(name, func(t *testing.T) {
			const n = 200
			var query strings.Builder
			query.WriteString(`{ user(id: "` + userGlobalID("u") + `") { ...F0 } }`)
			for i := range n {
				fmt.Fprintf(&query, " fragment F%d on User { %s }", i, fmt.Sprintf(inside, i+1))
			}
			fmt.Fprintf(&query, " fragment F%d on User { posts(first: 100) { __typename } }", n)
			// without rules, which walk fragments at each spread
			document, err := gqlparser.LoadQueryWithRules(schema, query.String(), &rules.Rules{})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			p := Predict(document.Operations[0], nil, false, Blog{})
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %s, want less than 1s", took)
			}
			if p.RU != math.MaxInt32 || p.mostExpensive().ru != math.MaxInt32 {
				t.Errorf("predicted %f RU, %f of them for %s; want %d for both", p.RU, p.mostExpensive().ru,
					p.mostExpensive().path(), math.MaxInt32)
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

// predicted returns the prediction of a document's only operation.
func predicted(t testing.TB, schema *ast.Schema, query string, variables map[string]any, signedIn bool) Prediction {
	t.Helper()
	document, err := gqlparser.LoadQueryWithRules(schema, query, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Predict(document.Operations[0], variables, signedIn, Blog{})
}

func userGlobalID(id string) string { return globalid.ID{Kind: globalid.User, Key: id}.String() }
func postGlobalID(id string) string { return globalid.ID{Kind: globalid.Post, Key: id}.String() }

func TestMain(m *testing.M) { testkit.Main(m) }
