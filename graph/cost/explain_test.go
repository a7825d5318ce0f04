package cost

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/fields"
)

// Every field with a price is explained.
func TestFields_EveryPriceHasAnAccess(t *testing.T) {
	want, got := map[string]bool{}, map[string]bool{}
	for typ, rows := range fields.Table {
		for name, row := range rows {
			if row.Price != (fields.Price{}) {
				want[typ+"."+name] = true
			}
			if len(row.Access.Requests) > 0 {
				got[typ+"."+name] = true
			}
		}
	}
	delete(want, "Query.node") // by its id
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
		"a malformed post id":   {`query F($id: ID!) { post(id: $id) { title comments { edges { cursor } } } viewer { username } }`, `{"id": "x"}`, []string{"F 1 !post", "viewer 1 (viewer)"}, ""},
		"a user that is a post": {`query F($id: ID!) { user(id: $id) { username } }`, `{"id": "` + postGlobalID("p") + `"}`, []string{"F 0 !user"}, ""},
		"a post that is a user": {`query F($id: ID!) { post(id: $id) { title } }`, `{"id": "` + ada + `"}`, []string{"F 0 !post"}, ""},
		"a malformed node id":   {`{ node(id: 1) { id } }`, "", []string{" 0 !node"}, ""},
		"malformed node ids":    {`{ nodes(ids: "x") { id } }`, "", []string{" 0 !nodes"}, ""},
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
		"an unpaired surrogate": {`{ userByUsername(username: "\ud83d") { id } }`, "", nil, "unpaired surrogate"},
		"variables of no use":   {`query F($n: Int!) { feed(first: $n) { edges { cursor } } }`, `{"n": "x"}`, nil, "cannot use string as Int"},
		"variables not JSON":    {`{ __typename }`, `n=1`, nil, "not a JSON object"},
		"variables a list":      {`{ __typename }`, `[]`, nil, "the variables are not a JSON object"},
		"more than is allowed":  {`{ ` + strings.Repeat("a: __typename ", 101) + `}`, "", nil, "101 aliases"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Explain(readSchema(t), tt.document, []byte(tt.variables), 0)
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
