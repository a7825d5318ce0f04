package graph

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"pgregory.net/rapid"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/graph/plan"
	"byline/graph/transport"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

// unplanned returns a handler on the same store that uses no plans.
func unplanned(t testing.TB, b *testBlog) http.Handler {
	t.Helper()
	h, err := NewHandler(Options{Store: b.store, Verifier: auth.DemoVerifier()})
	if err != nil {
		t.Fatal(err)
	}
	return unplannedHandler{h}
}

// plansOf returns the plans of a query's root fields, in order; nil for a field without one.
func plansOf(t rapid.TB, schema *ast.Schema, query string) (plans []*plan.Plan) {
	t.Helper()
	doc, err := gqlparser.LoadQueryWithRules(schema, query, nil)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	variables, invalid := validator.VariableValues(schema, doc.Operations[0], nil)
	if invalid != nil {
		t.Fatalf("%s: %v", query, invalid)
	}
	op := &graphql.OperationContext{RawQuery: query, Doc: doc, Operation: doc.Operations[0], Variables: variables}
	if plans = plan.Compile(op).Of(op); plans == nil {
		plans = make([]*plan.Plan, len(graphql.CollectFields(op, op.Operation.SelectionSet, nil)))
	}
	return plans
}

// checkSameResponse compares responses, except for request ids and for the order of errors, which varies.
func checkSameResponse(t rapid.TB, got, want testResponse) {
	t.Helper()
	text := func(a testResponse) string {
		if len(a.Errors) == 0 {
			return a.body
		}
		var all []string
		for _, e := range a.Errors {
			delete(e.Extensions, "requestId")
			all = append(all, fmt.Sprint(e))
		}
		slices.Sort(all)
		return fmt.Sprintf("%s %q", a.Data, all)
	}
	if text(got) != text(want) {
		t.Errorf("got  %s\nwant %s", got.body, want.body)
	}
}

// One document has another response for each combination of the variables of its conditions, as from the executor.
func TestPlans_Combinations(t *testing.T) {
	b := smallBlog(t, Options{})
	executor := unplanned(t, b)
	query := b.fill(`query($a: Boolean!, $b: Boolean!) {
		feed(first: 2) { edges { node { id @include(if: $a) title @skip(if: $b) ...F @include(if: $b) } } }
		post(id: "<post:engines>") @skip(if: $a) { title comments(first: 1) @include(if: $b) { totalCount } }
		viewer @include(if: $b) { postCount }
	} fragment F on Post { viewerHasLiked tags }`)
	for range 2 {
		for combination := range 4 {
			variables := map[string]any{"a": combination&1 == 1, "b": combination&2 == 2}
			got, want := post(t, b, "demo:ada", query, variables), post(t, executor, "demo:ada", query, variables)
			if checkSameResponse(t, got, want); t.Failed() {
				t.Fatal(variables)
			}
		}
	}
}

// Queries have plans as listed, and the same response as from the executor.
func TestPlans(t *testing.T) {
	b := smallBlog(t, Options{})
	for i := range 2 {
		post(t, b, "demo:ada", fmt.Sprintf(`mutation { createPost(input: {title: "draft %d", content: "x", draft: true}) { post { id } } }`, i), nil)
	}
	b.post(t, "ada", "escapes", "\"\\/\n\t\u00a0\u2028 \U0001F600 </script>")
	executor, schema := unplanned(t, b), readSchema(t)
	for name, tt := range map[string]struct {
		query   string
		planned bool
	}{
		"user":    {`{ user(id: "<user:ada>") { __typename id username createdAt } }`, true},
		"no user": {`{ user(id: "<no user>") { id } }`, true},
		"viewer":  {`{ viewer { id createdAt } }`, true},
		"by name": {`{ userByUsername(username: "ADA") { username posts { edges { node { id } } } } }`,
			true},
		"post":                  {`{ post(id: "<post:engines>") { id title excerpt content author { id username } commentCount likeCount viewerHasLiked createdAt updatedAt version tags } }`, true},
		"escapes":               {`{ post(id: "<post:escapes>") { content contentHtml excerpt } }`, true},
		"derived from the text": {`{ post(id: "<post:engines>") { slug readingMinutes contentHtml comments { edges { node { contentHtml } } } } }`, true},
		"by slug":               {`{ postBySlug(slug: "engines-a8tkstege8rbkje753idu992h4") { title } }`, true},
		"minutes of summaries":  {`{ feed { edges { node { slug readingMinutes excerpt } } } }`, true},
		"HTML of summaries":     {`{ feed { edges { node { contentHtml } } } }`, true}, // where they are short
		"a user's posts":        {`{ user(id: "<user:ada>") { posts(first: 1) { __typename edges { __typename cursor node { title author { username } } } pageInfo { __typename hasNextPage hasPreviousPage startCursor endCursor } } } }`, true},
		"an empty cursor":       {`{ user(id: "<user:ada>") { posts(first: 1, after: "") { edges { node { ... on Node { id } } } } } }`, true},
		"followed authors":      {`{ feed { edges { node { author { username viewerFollows } } } } post(id: "<post:engines>") { author { viewerFollows } } }`, true},
		"followed users":        {`{ user(id: "<user:ada>") { viewerFollows followers { edges { node { username viewerFollows } } } following { edges { node { viewerFollows } } } } }`, true},
		"comments":              {`{ post(id: "<post:engines>") { comments(order: OLDEST_FIRST) { edges { cursor node { id content author { id username __typename } createdAt updatedAt } } } } }`, true},
		"no comments":           {`{ post(id: "<post:notes>") { comments { edges { node { id } } pageInfo { startCursor endCursor } } } }`, true},
		"likes":                 {`{ post(id: "<post:engines>") { likes { edges { node { id user { id username } createdAt } } } } }`, true},
		"permissions":           {`{ viewerIsModerator post(id: "<post:engines>") { viewerCanUpdate viewerCanDelete comments { edges { node { viewerCanUpdate viewerCanDelete } } } } }`, true},
		"total counts":          {`{ post(id: "<post:engines>") { id comments(first: 1) { totalCount edges { cursor } } likes { ... on LikeConnection { totalCount } } } }`, true},
		"only a total count":    {`{ post(id: "<post:notes>") { comments { totalCount } } }`, true},
		"lists side by side":    {`{ post(id: "<post:moths>") { title a: comments(first: 1) { edges { cursor } } comments { edges { cursor } } likes { edges { cursor } } } }`, true},
		"a tag":                 {`{ tag(name: "Machines") { __typename name postCount posts(first: 1) { edges { cursor node { title tags viewerHasLiked } } pageInfo { hasNextPage } } } }`, true},
		"a tag by its id": {`{ node(id: "` + globalid.OfTag("machines").String() +
			`") { __typename id ... on Tag { name postCount posts(first: 1) { edges { node { title } } } } } }`, true},
		"months":                          {`{ months { __typename month postCount } a: months { n: postCount } }`, true},
		"a month":                         {`{ archive(month: "2026-03", first: 2) { totalCount edges { cursor node { title viewerHasLiked } } pageInfo { hasNextPage endCursor } } a: archive(month: "2026-03") { totalCount } b: archive(month: "2026-02") { totalCount edges { cursor } } }`, true},
		"an invalid month":                {`{ archive(month: "March") { totalCount edges { cursor } } }`, true},
		"no tag":                          {`{ tag(name: "no tag") { name } }`, true},
		"total counts of posts":           {`{ feed(first: 1) { totalCount } a: feed { n: totalCount edges { node { title } } } tag(name: "machines") { posts(first: 1) { totalCount } } user(id: "<user:ada>") { username posts(first: 1) { ... on PostConnection { totalCount } } all: posts { totalCount edges { cursor } } } }`, true},
		"the most used tags":              {`{ tags(first: 2) { __typename id name postCount } a: tags { name } }`, true},
		"a list of the most used tags":    {`{ tags(first: 2) { name posts { edges { node { title } } } } }`, false},
		"a number of posts":               {`{ userByUsername(username: "grace") { n: postCount posts(first: 1) { edges { cursor } } } viewer { postCount } }`, true},
		"drafts":                          {`{ viewer { drafts(first: 1) { totalCount edges { cursor node { id title excerpt content isDraft } } pageInfo { endCursor } } } user(id: "<user:ada>") { drafts { totalCount edges { node { title viewerHasLiked } } } } }`, true},
		"a home feed":                     {`{ viewer { home(first: 1) { edges { cursor node { id title content viewerHasLiked } } pageInfo { hasNextPage startCursor endCursor } } } user(id: "<user:grace>") { home { edges { cursor } } } }`, true},
		"the null length of a home feed":  {`{ viewer { home(first: 1) { totalCount edges { cursor } } } }`, false},
		"feed":                            {`query($n: Int = 3) { feed(first: $n) { edges { node { id title excerpt viewerHasLiked author { username } } } pageInfo { hasNextPage } } }`, true},
		"several root fields":             {`{ a: feed { edges { cursor } } viewer { id } b: feed(first: 1) { edges { cursor } } }`, true},
		"merged fields":                   {`{ feed { edges { cursor } } ...F } fragment F on Query { feed { edges { node { title } cursor } pageInfo { endCursor } } }`, true},
		"node":                            {`{ node(id: "<comment:All of them.>") { __typename id ... on Comment { content } ... on Post { title comments { edges { cursor } } } } }`, true},
		"node of another type":            {`{ node(id: "<like:ada>") { ... on Post { title } } }`, true},
		"content":                         {`{ feed { edges { node { content } } } }`, true}, // where it is short
		"an invalid cursor":               {`{ feed(after: "x") { edges { cursor } } }`, true},
		"first over the maximum":          {`{ post(id: "<post:engines>") { likes(first: 101) { edges { cursor } } } }`, true},
		"an invalid id":                   {`{ post(id: "x") { id } }`, true},
		"skip":                            {`{ feed { edges { node { id @skip(if: true) title } } } }`, false},
		"include in a fragment":           {`{ feed { edges { node { ...F } } } } fragment F on Post { id ... @include(if: true) { title } }`, false},
		"conditions":                      {`query($t: Boolean = true, $f: Boolean = false) { viewer @skip(if: $f) { id } feed(first: 2) { edges { node { id @include(if: $f) title @include(if: $t) ...F @skip(if: $f) ... @include(if: $t) { viewerHasLiked } } } } post(id: "<post:engines>") { id viewerCanUpdate @include(if: $t) comments(first: 1) @skip(if: $t) { edges { cursor } } } } fragment F on Post { author { username } }`, true},
		"a merged field with a condition": {`query($f: Boolean = false) { feed(first: 1) { edges { node { a: title } } } feed(first: 1) @include(if: $f) { edges { node { likes { edges { cursor } } } } } }`, true},
		"three conditions":                {`query($a: Boolean = true, $b: Boolean = true, $c: Boolean = true) { feed { edges { node { id @include(if: $a) title @include(if: $b) slug @include(if: $c) } } } }`, false},
		"a list in a list":                {`{ feed(first: 2) { edges { node { id comments { edges { cursor } } } } } }`, false},
		"an author's date":                {`{ feed { edges { node { author { createdAt } } } } }`, false},
		"a comment's post": {`{ post(id: "<post:engines>") { comments { edges { node { post { title } } } } } }`,
			false},
		"nodes":         {`{ nodes(ids: ["<post:engines>", "<user:ada>"]) { id } }`, false},
		"introspection": {`{ __typename }`, false},
	} {
		t.Run(name, func(t *testing.T) {
			query := strings.ReplaceAll(b.fill(tt.query), "<no user>", userGlobalID("nobody"))
			for _, p := range plansOf(t, schema, query) {
				if (p != nil) != tt.planned && name != "permissions" { // viewerIsModerator needs none
					t.Errorf("planned: %t, want %t", p != nil, tt.planned)
				}
			}
			for _, p := range plansOf(t, schema, withoutPlans(query)) {
				if p != nil {
					t.Error("withoutPlans leaves a plan")
				}
			}
			for _, token := range []string{"", "demo:ada", "demo:grace"} {
				for range 2 { // with a new plan and with a cached one
					checkSameResponse(t, post(t, b, token, query, nil), post(t, executor, token, query, nil))
				}
			}
		})
	}
}

// A failed plan costs one read; the executor then resolves the query once.
func TestPlan_FailedQueryIsExecutedWithoutPlan(t *testing.T) {
	b := smallBlog(t, Options{})
	b.wire.setFail(func(*http.Request) (*http.Response, error) {
		return newResponse(http.StatusGone, ""), nil // it is not repeated
	})
	b.wire.reset()
	if a := post(t, b, "", b.fill(`{ post(id: "<post:notes>") { title } }`), nil); a.code() != "UNAVAILABLE" ||
		len(b.wire.seen()) != 2 {
		t.Errorf("%v %s", b.wire.seen(), a.body)
	}
}

// secondResponse reads a second response of each operation into more.
type secondResponse struct {
	graphql.GraphExecutor
	more **graphql.Response
}

func (a secondResponse) DispatchOperation(
	ctx context.Context, op *graphql.OperationContext,
) (graphql.ResponseHandler, context.Context) {
	next, ctx := a.GraphExecutor.DispatchOperation(ctx, op)
	return func(ctx context.Context) *graphql.Response {
		first := next(ctx)
		*a.more = next(ctx)
		return first
	}, ctx
}

func TestPlan_OperationHasOneResponse(t *testing.T) {
	b := smallBlog(t, Options{})
	to, err := transportOptions(Options{Store: b.store, Verifier: auth.DemoVerifier(),
		Logger: testkit.Logger()}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	executor := to.Executor
	for _, query := range []string{`{ feed { edges { cursor } } }`,
		`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`} {
		more := &graphql.Response{}
		to.Executor, to.Metrics = secondResponse{executor, &more}, prometheus.NewRegistry()
		h, err := transport.New(to)
		if err != nil {
			t.Fatal(err)
		}
		if a := post(t, h, "demo:ada", b.fill(query), nil); a.code() != "" || more != nil {
			t.Errorf("%s, second response %v", a.body, more)
		}
	}
}

// Random queries have the same responses, byte for byte, with and without plans.
func TestPlans_ResponsesEqualTheExecutors(t *testing.T) {
	b := smallBlog(t, Options{})
	executor, schema := unplanned(t, b), readSchema(t)
	rapid.Check(t, func(rt *rapid.T) {
		query := randomQuery(b, schema, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)))
		token := rapid.SampledFrom([]string{"", "demo:ada", "demo:nobody"}).Draw(rt, "token")
		checkSameResponse(rt, post(t, b, token, query, nil), post(t, executor, token, query, nil))
		if rt.Failed() {
			rt.Fatalf("token %q, query %s", token, query)
		}
	})
	made, all := 0, 0
	for seed := range uint64(300) { // the same in each run
		for _, p := range plansOf(t, schema, randomQuery(b, schema, rand.New(rand.NewPCG(seed, 0)))) {
			all++
			if p != nil {
				made++
			}
		}
	}
	if t.Logf("%d of %d root fields have a plan", made, all); made < 50 || made == all {
		t.Errorf("%d of %d root fields have a plan", made, all)
	}
}

// randomQuery makes a valid query of some root fields.
func randomQuery(b *testBlog, schema *ast.Schema, r *rand.Rand) string {
	var ids []string
	for _, id := range b.names {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	argument := func(f *ast.FieldDefinition) string {
		switch {
		case f.Name == "nodes":
			return fmt.Sprintf("(ids: [%q, %q])", ids[r.IntN(len(ids))], ids[r.IntN(len(ids))])
		case f.Arguments.ForName("id") != nil: // often of another type
			return fmt.Sprintf("(id: %q)", ids[r.IntN(len(ids))])
		case f.Name == "postBySlug":
			parsed, _ := parseID("", ids[r.IntN(len(ids))])
			return fmt.Sprintf("(slug: %q)", (&blog.Post{ID: parsed.Key}).Slug())
		case f.Name == "renderMarkdown":
			return `(text: "*a* <b>\n\n> c")`
		case f.Name == "archive":
			return fmt.Sprintf("(month: %q, first: %d)", []string{"2026-03", "2026-02", "March"}[r.IntN(3)], r.IntN(4))
		case f.Name == "search":
			return fmt.Sprintf("(query: %q, order: %s, first: %d)", []string{"engine", "-moth", "the machine"}[r.IntN(3)],
				[]store.SearchOrder{store.ByRelevance, store.ByDate}[r.IntN(2)], r.IntN(4))
		case f.Arguments.ForName("username") != nil:
			return fmt.Sprintf("(username: %q)", []string{"ada", "Grace", "nobody"}[r.IntN(3)])
		case f.Arguments.ForName("name") != nil:
			return fmt.Sprintf("(name: %q)", []string{"Machines", "nothing", "no tag"}[r.IntN(3)])
		case f.Arguments.ForName("first") != nil && r.IntN(2) == 0:
			return fmt.Sprintf("(first: %d)", r.IntN(4))
		}
		return ""
	}
	aliases := 0
	var selection func(parent *ast.Definition, depth int) string
	selection = func(parent *ast.Definition, depth int) string {
		s := "{ __typename "
		for range 1 + r.IntN(5) {
			if types := schema.PossibleTypes[parent.Name]; r.IntN(5) == 0 && depth > 0 && len(types) > 0 &&
				parent != schema.Query {
				kind := types[r.IntN(len(types))]
				s += "... on " + kind.Name + " " + selection(kind, 0)
				continue
			}
			f := parent.Fields[r.IntN(len(parent.Fields))]
			inside := schema.Types[f.Type.Name()]
			if strings.HasPrefix(f.Name, "__") || inside.IsCompositeType() && depth == 0 {
				continue
			}
			aliases++ // so that nothing conflicts
			s += fmt.Sprintf("f%d: %s%s ", aliases, f.Name, argument(f))
			if inside.IsCompositeType() {
				s += selection(inside, depth-1)
			}
			if r.IntN(40) == 0 && !inside.IsCompositeType() {
				s += "@include(if: true) "
			}
		}
		return s + "} "
	}
	return selection(schema.Query, 4+r.IntN(3))
}
