package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is explained of a field is what executing it does, and all of it.
func TestExplainIsTrue(t *testing.T) {
	b := smallBlog(t, Options{})
	seen := map[string]bool{}
	for _, document := range []string{
		`{ user(id: "<user:ada>") { username } }`,
		`{ viewer { username } }`,
		`{ userByUsername(username: "Ada") { username } }`,
		`{ post(id: "<post:engines>") { title } }`,
		`{ node(id: "<user:ada>") { ... on User { username } } }`,
		`{ node(id: "<post:engines>") { ... on Post { title } } }`,
		`{ node(id: "<comment:Poor thing.>") { id } }`,
		`{ node(id: "<like:ada>") { id } }`,
		`{ nodes(ids: ["<post:engines>", "<user:ada>", "<post:moths>", "<comment:Poor thing.>"]) { id } }`,
		`{ nodes(ids: "<post:engines>") { id } }`,
		`{ front: feed(first: 2) { edges { cursor } } }`,
		`{ user(id: "<user:ada>") { username posts { edges { cursor } } } }`,
		`{ feed(first: 2) { edges { node { author { createdAt } } } } }`,
		`{ feed(first: 1) { edges { node { author { createdAt } } } } }`,
		`{ post(id: "<post:engines>") { title comments { edges { cursor } } likes { edges { cursor } } } }`,
		`{ post(id: "<post:engines>") { title viewerHasLiked } }`,
		`{ feed(first: 2) { edges { node { viewerHasLiked } } } }`,
		`{ node(id: "<comment:Poor thing.>") { ... on Comment { post { title } } } }`,
		`{ node(id: "<like:ada>") { ... on Like { post { title } } } }`,
		`mutation { updateUser(input: {username: "countess"}) { user { username } } }`,
		`mutation { new: createPost(input: {title: "t", content: "c"}) { post { title } } }`,
		`mutation { updatePost(input: {id: "<post:engines>", title: "t"}) { post { title } } }`,
		`mutation { createComment(input: {postId: "<post:notes>", content: "c"}) { comment { content } } }`,
		`mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`,
		`mutation { unlikePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`,
		`mutation { updateComment(input: {id: "<comment:All of them.>", content: "c"}) { comment { content } } }`,
		`mutation { deleteComment(input: {id: "<comment:All of them.>"}) { post { commentCount } } }`,
		`mutation { deletePost(input: {id: "<post:engines>"}) { deletedPostId } }`,
	} {
		document = b.fill(document)
		explained, err := Explain(document, nil, 1)
		if err != nil {
			t.Fatal(document, err)
		}
		want := map[string]bool{}
		for _, f := range explained[0].Fields {
			for _, r := range f.Requests {
				want[fmt.Sprint(f.Path, " ", r.Kind, " ", r.Container)] = true
			}
			seen[f.Pattern] = true
		}
		a, c := withCost(t, b, "ada", document, "detail")
		if a.code() != "" {
			t.Fatal(a.body)
		}
		got, patterns := map[string]bool{}, explained[0].Fields
		for _, o := range c.Operations {
			got[fmt.Sprint(o.Path, " ", o.Kind, " ", o.Container)] = true
			if !slices.ContainsFunc(patterns, func(f ExplainedField) bool { return strings.Contains(f.Pattern, o.Pattern) }) {
				t.Errorf("%s: %s is not among %+v", document, o.Pattern, patterns)
			}
			// A partition key that is told is the one that is used.
			for _, f := range patterns {
				for _, r := range f.Requests {
					if f.Path == o.Path && len(patterns) == 1 && len(f.Requests) == 1 && !strings.HasPrefix(r.PartitionKey, "(") && o.PartitionKey[0] != r.PartitionKey {
						t.Errorf("%s: the partition %q, explained as %q", document, o.PartitionKey, r.PartitionKey)
					}
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-explained +done):\n%s", document, diff)
		}
	}
	for _, p := range []string{"Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "C1", "C2", "C3", "C4"} {
		if !seen[p] {
			t.Errorf("%s was not looked at", p)
		}
	}
}

// Every field with a price is explained.
func TestAllPricesAreExplained(t *testing.T) {
	want, got := map[string]bool{}, map[string]bool{}
	for typ, fields := range prices {
		for name := range fields {
			want[typ+"."+name] = true
		}
	}
	delete(want, "Query.node") // by its id
	for name := range accesses {
		got[name] = true
	}
	if !maps.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestExplain(t *testing.T) {
	ada := userGlobalID("a")
	for name, tt := range map[string]struct {
		document, variables string
		want                []string // operation, RU, path, times, partition keys
		says                string   // the error
	}{
		"variables":             {`query F($n: Int!, $id: ID!) { feed(first: $n) { edges { cursor } } user(id: $id) { username } }`, `{"n": 10, "id": "` + ada + `"}`, []string{"F 3.78", "feed 1 post", "user 1 a"}, ""},
		"their defaults":        {`query F($n: Int = 10) { feed(first: $n) { edges { cursor } } }`, "", []string{"F 2.78", "feed 1 post"}, ""},
		"none":                  {`query F($id: ID!) { post(id: $id) { title } node(id: $id) { id } }`, "", []string{"F 2.03 $id", "post 1 $id", "node 1 $id"}, ""},
		"of inputs":             {`mutation M($i: LikePostInput!) { likePost(input: $i) { post { title } } }`, "", []string{"M 19.6 $i", "likePost 1 (viewer) $i.postId"}, ""},
		"inside inputs":         {`mutation M($p: ID!) { likePost(input: {postId: $p}) { post { title } } }`, "", []string{"M 19.6 $p", "likePost 1 (viewer) $p"}, ""},
		"lists in lists":        {`{ feed(first: 2) { edges { node { comments(first: 10) { edges { cursor } } } } } }`, "", []string{" 7.81", "feed 1 post", "feed.edges.node.comments 2 (each of feed.edges.node)"}, ""},
		"too large a page":      {`query F($n: Int) { viewer { posts(first: $n) { edges { cursor } } } }`, `{"n": 1000}`, []string{"F 0 !viewer.posts"}, ""},
		"no page":               {`{ feed(first: 0) { edges { cursor } } viewer { username } }`, "", []string{" 1 !feed", "viewer 1 (viewer)"}, ""},
		"a post that is none":   {`query F($id: ID!) { post(id: $id) { title comments { edges { cursor } } } viewer { username } }`, `{"id": "x"}`, []string{"F 1 !post", "viewer 1 (viewer)"}, ""},
		"a user that is a post": {`query F($id: ID!) { user(id: $id) { username } }`, `{"id": "` + postGlobalID("p") + `"}`, []string{"F 0 !user"}, ""},
		"a post that is a user": {`query F($id: ID!) { post(id: $id) { title } }`, `{"id": "` + ada + `"}`, []string{"F 0 !post"}, ""},
		"a node that is none":   {`{ node(id: 1) { id } }`, "", []string{" 0 !node"}, ""},
		"nodes that are none":   {`{ nodes(ids: "x") { id } }`, "", []string{" 0 !nodes"}, ""},
		"nodes and nonsense":    {`{ nodes(ids: ["x", "` + ada + `"]) { id } }`, "", []string{" 1", "nodes 1 a"}, ""},
		"nodes without a value": {`query F($id: ID!) { nodes(ids: [$id]) { id } }`, "", []string{"F 0 $id"}, ""},
		"a text for a number":   {`query F($n: Int) { feed(first: $n) { edges { cursor } } }`, `{"n": "5"}`, nil, "$n: cannot use a String as Int"},
		"a null in its way":     {`query F($s: Boolean = false) { feed @skip(if: $s) { edges { cursor } } }`, `{"s": null}`, nil, "$s: cannot be null"},
		"no stream at all":      {`subscription F($s: Boolean!) { postPublished @skip(if: $s) { id } }`, `{"s": true}`, nil, "exactly one field"},
		"several operations":    {`query A { viewer { username } } query B { __typename }`, "", []string{"A 1", "viewer 1 (viewer)", "B 0"}, ""},
		"what is not the blog":  {`{ blog }`, "", nil, `line 1, column 3: Cannot query field "blog"`},
		"no GraphQL":            {`{`, "", nil, "line 1, column 2: "},
		"no document":           {``, "", nil, "no operations"},
		"two streams":           {`subscription { a: postPublished { id } b: postPublished { id } }`, "", nil, "line 1, column 40: a subscription must select exactly one field"},
		"half a character":      {`{ userByUsername(username: "\ud83d") { id } }`, "", nil, "unpaired surrogate"},
		"variables of no use":   {`query F($n: Int!) { feed(first: $n) { edges { cursor } } }`, `{"n": "x"}`, nil, "cannot use string as Int"},
		"variables not JSON":    {`{ __typename }`, `n=1`, nil, "not a JSON object"},
		"variables a list":      {`{ __typename }`, `[]`, nil, "the variables are not a JSON object"},
		"more than is allowed":  {`{ ` + strings.Repeat("a: __typename ", 101) + `}`, "", nil, "101 aliases"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Explain(tt.document, []byte(tt.variables), 0)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, want %s", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range all {
				line := fmt.Sprint(e.Operation, " ", e.PredictedRU)
				for _, v := range e.Missing {
					line += " $" + v
				}
				if e.Wrong != "" {
					line += " !" + e.Wrong
				}
				got = append(got, line)
				for _, f := range e.Fields {
					line := fmt.Sprint(f.Path, " ", f.Times)
					for _, r := range f.Requests {
						line += " " + r.PartitionKey
					}
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
