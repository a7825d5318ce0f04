package graph

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"byline/graph/generated"
	"byline/store"
)

// predicted is the prediction of a query's only operation.
func predicted(t testing.TB, schema *ast.Schema, query string, variables map[string]any, signedIn bool) prediction {
	t.Helper()
	document, err := gqlparser.LoadQuery(schema, query)
	if err != nil {
		t.Fatal(err)
	}
	return predict(document.Operations[0], variables, signedIn, 1)
}

// What is predicted of the access patterns, and of what batches add to them, is within
// a fifth of what is charged on the wire.
func TestPredictedCost(t *testing.T) {
	b, patterns := accessPatterns(t)
	read := func(subject, format string, args ...any) func(int) (string, string) {
		return func(int) (string, string) { return subject, b.fill(fmt.Sprintf(format, args...)) }
	}
	patterns = append(patterns,
		accessPattern{"Q1, the viewer", read("user0001", `{ viewer { username createdAt posts(first: 1) { edges { cursor } } } }`)},
		accessPattern{"Q2, by node", read("", `{ node(id: "<post:post 0>") { ... on Post { title content } } }`)},
		accessPattern{"Q2 and Q4", read("", `{ post(id: "<post:post 0>") { title comments(first: 10) { edges { node { content } } } } }`)},
		accessPattern{"a user by name", read("", `{ userByUsername(username: "user0002") { id createdAt } }`)},
		accessPattern{"Q5 and its users", read("", `{ post(id: "<post:post 0>") { likes(first: 100) { edges { node { user { createdAt } } } } } }`)},
		accessPattern{"Q4 and the post of all", read("", `{ post(id: "<post:post 0>") { comments(first: 25) { edges { node { post { title } } } } } }`)},
		accessPattern{"Q4 of several posts", read("", `{ feed(first: 5) { edges { node { comments(first: 1) { edges { cursor } } likes(first: 1) { edges { cursor } } } } } }`)},
		accessPattern{"nodes of all types", read("", `{ nodes(ids: ["<user:user0001>", "<user:user0002>", "<post:post 0>", "<post:post 1>", "<post:post 2>", "<like:user0001>", "<like:user0002>"]) { id } }`)},
		accessPattern{"what hides behind @skip", read("", `{ post(id: "<post:post 0>") { title comments(first: 25) @skip(if: true) { edges { cursor } } } }`)},
		accessPattern{"updateUser", read("user0009", `mutation { updateUser(input: {username: "other0009"}) { user { id } } }`)},
		accessPattern{"updatePost", read("user0000", `mutation { updatePost(input: {id: "<post:post 3>", title: "t"}) { post { title content } } }`)},
		accessPattern{"deletePost", read("user0000", `mutation { deletePost(input: {id: "<post:post 4>"}) { deletedPostId } }`)},
		accessPattern{"updateComment", read("user0001", `mutation { updateComment(input: {id: "<comment:of user0001>", content: "c"}) { comment { content } } }`)},
		accessPattern{"deleteComment", read("user0001", `mutation { deleteComment(input: {id: "<comment:of user0001>"}) { deletedCommentId } }`)},
		accessPattern{"unlikePost", read("user0001", `mutation { unlikePost(input: {postId: "<post:post 0>"}) { post { likeCount } } }`)},
	)
	for _, n := range []int{1, 2, 10, 100} {
		patterns = append(patterns,
			accessPattern{fmt.Sprintf("Q6 of %d", n), read("", `{ feed(first: %d) { edges { node { title } } } }`, n)},
			accessPattern{fmt.Sprintf("Q6 and %d contents", n), read("", `{ feed(first: %d) { edges { node { content } } } }`, n)},
			accessPattern{fmt.Sprintf("Q6 and %d likes of the viewer", n), read("user0001", `{ feed(first: %d) { edges { node { viewerHasLiked } } } }`, n)})
	}
	post0, err := parseID("", b.names["post:post 0"])
	if err != nil {
		t.Fatal(err)
	}
	b.comment(t, "user0001", post0.Key, "of user0001")
	schema := readSchema(t)
	for _, p := range patterns {
		t.Run(p.name, func(t *testing.T) {
			subject, query := p.query(0)
			token := ""
			if subject != "" {
				token = "demo:" + subject
			}
			b.wire.reset()
			if a := post(t, b, token, query, nil); a.code() != "" {
				t.Fatal(a.body)
			}
			want, got := b.wire.charged(), predicted(t, schema, query, nil, subject != "").total
			t.Logf("charged %.2f RU, predicted %.2f", want, got)
			if math.Abs(got-want) > want/5 {
				t.Errorf("charged %.2f RU, predicted %.2f: %v", want, got, b.wire.seen())
			}
		})
	}
}

// A feed that is spread is written in each of its partitions, and read in one: the
// predictions know, and so does what is explained.
func TestCostOfASpreadFeed(t *testing.T) {
	const partitions = 4
	b := newBlogOf(t, Options{}, store.Options{FeedPartitions: partitions}, 0)
	b.user(t, "ada")
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	for _, title := range []string{"one", "two"} {
		b.post(t, "ada", title, text)
	}
	b.settle(t)
	for _, query := range []string{
		`mutation { createPost(input: {title: "t", content: "` + text + `"}) { post { title } } }`,
		`mutation { updatePost(input: {id: "<post:one>", title: "t"}) { post { title } } }`,
		`mutation { deletePost(input: {id: "<post:two>"}) { deletedPostId } }`,
		`{ feed(first: 1) { edges { node { title } } } }`,
	} {
		query = b.fill(query)
		a, c := withCost(t, b, "ada", query, "detail")
		if a.code() != "" {
			t.Fatal(a.body)
		}
		t.Logf("charged %.2f RU, predicted %.2f", c.ActualRU, c.PredictedRU)
		if math.Abs(c.PredictedRU-c.ActualRU) > c.ActualRU/5 {
			t.Errorf("%.30s: charged %.2f RU, predicted %.2f", query, c.ActualRU, c.PredictedRU)
		}
		explained, err := Explain(query, nil, partitions)
		if err != nil {
			t.Fatal(err)
		}
		if explained[0].PredictedRU != c.PredictedRU {
			t.Errorf("%.30s: explained as %.2f RU, predicted %.2f", query, explained[0].PredictedRU, c.PredictedRU)
		}
		told, want := "", 0
		for _, r := range explained[0].Fields[0].Requests {
			if r.Container == "feed" {
				told = r.PartitionKey
			}
		}
		switch told {
		case "(one of post.0 to post.3)":
			want = 1
		case "(each of post.0 to post.3)":
			want = partitions
		}
		used := map[string]bool{}
		for _, o := range c.Operations {
			if o.Container == "feed" {
				used[o.PartitionKey[0]] = true
			}
		}
		if len(used) != want {
			t.Errorf("%.30s: explained as %q, done in %v", query, told, used)
		}
	}
}

func TestPrediction(t *testing.T) {
	schema := readSchema(t)
	of := func(typ, field string, first float64) float64 {
		p := prices[typ][field]
		return p.each + p.item*first
	}
	feed := func(first float64) float64 { return of("Query", "feed", first) }
	posts := func(first float64) float64 { return of("User", "posts", first) }
	comments := func(first float64) float64 { return of("Post", "comments", first) }
	postRead, nodeRead := prices["Query"]["post"].each, prices["Query"]["node"].each
	userID, postID := userGlobalID("u"), postGlobalID("p")
	const nobody, somebody = false, true
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		signedIn  bool
		total     float64
		dearest   string
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
		"keys of one loader":              {`{ a: feed(first: 5) { ...F } b: feed(first: 6) { ...F } } fragment F on PostConnection { edges { node { author { createdAt } } } }`, nil, nobody, feed(5) + feed(6) + usersBatch.of(11), "b"},
		"more keys than a batch":          {`{ a: feed(first: 100) { ...F } b: feed(first: 30) { ...F } } fragment F on PostConnection { edges { node { content } } }`, nil, nobody, feed(100) + feed(30) + 2*postsBatch.each + 130*postsBatch.key, "a.edges.node.content"},
		"whole posts have their contents": {`{ user(id: "` + userID + `") { createdAt posts(first: 2) { edges { node { comments(first: 3) { edges { node { post { content } } } } } } } } }`, nil, nobody, 1 + posts(2) + 2*comments(3) + postsBatch.of(2), "user.posts.edges.node.comments"},
		"nodes": {`{ nodes(ids: ["` + userID + `", "` + postID + `", "` + postID + `"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, nobody,
			usersBatch.of(1) + postsBatch.of(2) + 3*comments(10), "nodes.comments"},
		"one of nodes": {`{ nodes(ids: "` + userID + `") { id } }`, nil, nobody, usersBatch.of(1), "nodes"},
		"nodes and nonsense": {`{ nodes(ids: ["` + userID + `", "nonsense"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, nobody,
			usersBatch.of(1) + comments(10), "nodes.comments"},
		"nonsense for nodes":        {`{ nodes(ids: ["nonsense"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, nobody, 0, ""},
		"more nodes than there may": {`query($ids: [ID!]!) { nodes(ids: $ids) { id } }`, map[string]any{"ids": make([]any, 101)}, nobody, 0, ""},
		"an id of nothing":          {`query($id: ID!) { post(id: "x") { title comments { edges { cursor } } } user(id: "` + postID + `") { username } node(id: $id) { id } }`, map[string]any{"id": "x"}, nobody, 0, ""},
		"writes":                    {`mutation { a: likePost(input: {postId: "x"}) { post { title comments(first: 1) { edges { cursor } } } } b: createComment(input: {postId: "x", content: "c"}) { comment { id } } }`, nil, somebody, of("Mutation", "likePost", 0) + of("Mutation", "createComment", 0) + comments(1), "a"},
		"an event":                  {`subscription { commentAdded(postId: "x") { content author { createdAt } post { title content } } }`, nil, nobody, usersBatch.of(1) + postsBatch.of(1), "commentAdded.post"},
		"an event at hand":          {`subscription { postPublished { title content author { username } } }`, nil, nobody, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := predicted(t, schema, tt.query, tt.variables, tt.signedIn)
			if math.Abs(got.total-tt.total) > 1e-6 {
				t.Errorf("%f RU, want %f", got.total, tt.total)
			}
			dearest, sum := "", 0.0
			if f := got.dearest(); f != nil {
				dearest = f.path()
			}
			for _, f := range got.fields {
				sum += f.ru
			}
			if dearest != tt.dearest {
				t.Errorf("the dearest is %q, want %q", dearest, tt.dearest)
			}
			if math.Abs(sum-got.total) > 1e-6 {
				t.Errorf("the fields cost %f, all together %f", sum, got.total)
			}
		})
	}
}

// Every field that the resolvers read or write for has its price, and no other.
func TestPricesAreOfTheSchema(t *testing.T) {
	schema := readSchema(t)
	for typ, fields := range prices {
		for name, p := range fields {
			f := schema.Types[typ].Fields.ForName(name)
			if f == nil {
				t.Errorf("there is no %s.%s", typ, name)
				continue
			}
			if list := f.Arguments.ForName("first") != nil; list != (p.item > 0) {
				t.Errorf("%s.%s is a list: %t, has a price by item: %t", typ, name, list, p.item > 0)
			}
		}
	}
	for name, definition := range schema.Types {
		for _, f := range definition.Fields {
			_, priced := prices[name][f.Name]
			root := name == "Query" && !strings.HasPrefix(f.Name, "__") && f.Name != "nodes" || name == "Mutation"
			if (root || f.Arguments.ForName("first") != nil) && !priced {
				t.Errorf("%s.%s has no price", name, f.Name)
			}
		}
	}
	for typ, field := range onCopies {
		if schema.Types[typ] == nil || schema.Types[typ].Fields.ForName(field) == nil {
			t.Errorf("there is no %s.%s", typ, field)
		}
	}
}

func TestCostLimit(t *testing.T) {
	a := post(t, deaf(t, Options{}), "", `{ front: feed(first: 100) { edges { node { likes(first: 1) { edges { cursor } } comments(first: 100) { edges { cursor } } } } } }`, nil)
	if a.code() != "QUERY_TOO_EXPENSIVE" || a.Data != nil || a.field() != "front.edges.node.comments" {
		t.Error(a.body)
	}
	for _, says := range []string{"841 RU", "the limit of 400 RU", "front.edges.node.comments with 602 RU"} {
		if !strings.Contains(a.Errors[0].Message, says) {
			t.Errorf("does not say %q: %s", says, a.Errors[0].Message)
		}
	}
	const nodes = `(ids: $ids) { ... on User { posts(first: 100) { edges { node { comments(first: 100) { edges { cursor } } } } } } } }`
	for name, tt := range map[string]struct {
		query string
		ids   any
	}{
		"a list of one":           {`query($ids: [ID!]!) { nodes` + nodes, []any{userGlobalID("u")}},
		"one for a list of it":    {`query($ids: [ID!]!) { nodes` + nodes, userGlobalID("u")},
		"one for a list, default": {`query($ids: [ID!]! = "` + userGlobalID("u") + `") { nodes` + nodes, nil},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]any{}
			if tt.ids != nil {
				variables["ids"] = tt.ids
			}
			if a := post(t, deaf(t, Options{}), "", tt.query, variables); a.code() != "QUERY_TOO_EXPENSIVE" || a.field() != "nodes.posts.edges.node.comments" {
				t.Error(a.body)
			}
		})
	}
	long := strings.Repeat("a", maxAlias)
	a = post(t, deaf(t, Options{}), "", `{ `+long+`: feed(first: 100) { `+long+`: edges { `+long+`: node { comments(first: 100) { edges { cursor } } } } } }`, nil)
	if a.code() != "QUERY_TOO_EXPENSIVE" || a.field() != (long + "." + long)[:maxMessage]+"..." || len(a.body) > 3*maxMessage {
		t.Errorf("%d bytes: %.300s", len(a.body), a.body)
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
			p := predict(document.Operations[0], nil, false, 1)
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %s", took)
			}
			if p.total != math.MaxInt32 || p.dearest().ru != math.MaxInt32 {
				t.Errorf("%f RU, %f of them %s", p.total, p.dearest().ru, p.dearest().path())
			}
		})
	}
}
