package cost

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/fields"
	"byline/graph/globalid"
)

// Every field with a price has the requests that Explain lists.
func TestFields_EveryPriceHasAnAccess(t *testing.T) {
	want, got := map[string]bool{}, map[string]bool{}
	for typ, rows := range fields.Table {
		for name, row := range rows {
			if row.Price != (fields.Price{}) && !row.Price.Work {
				want[typ+"."+name] = true
			}
			if len(row.Access.Requests) > 0 {
				got[typ+"."+name] = true
			}
		}
	}
	delete(want, "Query.node") // explained by the kind of its id
	if !maps.Equal(want, got) {
		t.Errorf("fields with a price (-) and with requests (+):\n%s", cmp.Diff(want, got))
	}
}

func TestExplain(t *testing.T) {
	ada := userGlobalID("a")
	for name, tt := range map[string]struct {
		document, variables string
		want                []string // operation, RU, path, times, partition keys
		wantErr             string   // part of the error
	}{
		"variables": {`query F($n: Int!, $id: ID!) { feed(first: $n) { edges { cursor } } user(id: $id) { username } }`, `{"n": 10, "id": "` + ada + `"}`, []string{"F 3.82", "feed 1 post", "user 1 a"}, ""},
		"default values of variables": {`query F($n: Int = 10) { feed(first: $n) { edges { cursor } } }`,
			"", []string{"F 2.82", "feed 1 post"}, ""},
		"missing variables": {`query F($id: ID!) { post(id: $id) { title } node(id: $id) { id } }`, "",
			[]string{"F 2.03 $id", "post 1 $id", "node 1 $id"}, ""},
		"missing input variable":           {`mutation M($i: LikePostInput!) { likePost(input: $i) { post { title } } }`, "", []string{"M 18.6 $i", "likePost 1 $i.postId"}, ""},
		"missing variable inside an input": {`mutation M($p: ID!) { likePost(input: {postId: $p}) { post { title } } }`, "", []string{"M 18.6 $p", "likePost 1 $p"}, ""},
		"nested lists":                     {`{ feed(first: 2) { edges { node { comments(first: 10) { edges { cursor } } } } } }`, "", []string{" 7.85", "feed 1 post", "feed.edges.node.comments 2 (each of feed.edges.node)"}, ""},
		"page too large": {`query F($n: Int) { viewer { posts(first: $n) { edges { cursor } } } }`,
			`{"n": 1000}`, []string{"F 0 !viewer.posts"}, ""},
		"page of zero items": {`{ feed(first: 0) { edges { cursor } } viewer { username } }`, "",
			[]string{" 1 !feed", "viewer 1 (viewer)"}, ""},
		"malformed post id": {`query F($id: ID!) { post(id: $id) { title comments { edges { cursor } } } viewer { username } }`, `{"id": "x"}`, []string{"F 1 !post", "viewer 1 (viewer)"}, ""},
		"post id for a user": {`query F($id: ID!) { user(id: $id) { username } }`,
			`{"id": "` + postGlobalID("p") + `"}`, []string{"F 0 !user"}, ""},
		"user id for a post": {`query F($id: ID!) { post(id: $id) { title } }`,
			`{"id": "` + ada + `"}`, []string{"F 0 !post"}, ""},
		"malformed node id":  {`{ node(id: 1) { id } }`, "", []string{" 0 !node"}, ""},
		"malformed node ids": {`{ nodes(ids: "x") { id } }`, "", []string{" 0 !nodes"}, ""},
		"too many node ids": {`query F($ids: [ID!]!) { nodes(ids: $ids) { id } }`,
			`{"ids": ["` + ada + `"` + strings.Repeat(`, "`+ada+`"`, 100) + `]}`, []string{"F 0 !nodes"}, ""},
		"nodes with a malformed id": {`{ nodes(ids: ["x", "` + ada + `"]) { id } }`, "",
			[]string{" 1", "nodes 1 a"}, ""},
		"nodes that are tags": {`{ nodes(ids: ["` + globalid.OfTag("go").String() + `", "` +
			globalid.OfTag("sql").String() + `"]) { id } node(id: "` + globalid.OfTag("go").String() + `") { id } }`,
			"", []string{" 3", "nodes 2 (each of 2 ids)", "node 1 timelines"}, ""},
		"nodes with a missing variable": {`query F($id: ID!) { nodes(ids: [$id]) { id } }`, "",
			[]string{"F 0 $id"}, ""},
		"string for an Int variable": {`query F($n: Int) { feed(first: $n) { edges { cursor } } }`,
			`{"n": "5"}`, nil, "$n: cannot use a String as Int"},
		"null for a non-null position": {`query F($s: Boolean = false) { feed @skip(if: $s) { edges { cursor } } }`,
			`{"s": null}`, nil, "$s: cannot be null"},
		"subscription without a field": {`subscription F($s: Boolean!) { postPublished @skip(if: $s) { id } }`,
			`{"s": true}`, nil, "exactly one field"},
		"a user without a username": {`mutation M($b: String) { updateUser(input: {bio: $b, displayName: null}) { user { id } } }`, "",
			[]string{"M 11.3", "updateUser 1 (viewer) (viewer)"}, ""},
		"a user with a username": {`mutation { updateUser(input: {username: "abc"}) { user { id } } }`, "",
			[]string{" 41.2", "updateUser 1 (viewer) username:abc (username:<old name>) (username:<old name>) (viewer) username:abc (username:<old name>)"}, ""},
		"a username by an unknown variable": {`mutation M($n: String) { updateUser(input: {username: $n}) { user { username } } }`, "",
			[]string{"M 41.2", "updateUser 1 (viewer) username:$n (username:<old name>) (username:<old name>) (viewer) username:$n (username:<old name>)"}, ""},
		"a username by a variable without a value": {`mutation M($n: String, $b: String) { updateUser(input: {username: $n, bio: $b}) { user { username } } }`,
			`{"b": "x"}`, []string{"M 11.3", "updateUser 1 (viewer) (viewer)"}, ""},
		"an unknown input of a user": {`mutation M($i: UpdateUserInput!) { updateUser(input: $i) { user { username } } }`, "",
			[]string{"M 41.2 $i", "updateUser 1 (viewer) username:$i.username (username:<old name>) (username:<old name>) (viewer) username:$i.username (username:<old name>)"}, ""},
		"an input of a user": {`mutation M($i: UpdateUserInput!) { updateUser(input: $i) { user { username } } }`,
			`{"i": {"avatarUrl": "/a"}}`, []string{"M 11.3", "updateUser 1 (viewer) (viewer)"}, ""},
		"an empty input of a user": {`mutation M($i: UpdateUserInput!) { updateUser(input: $i) { user { username } } }`, `{"i": {}}`,
			[]string{"M 1", "updateUser 1 (viewer)"}, ""},
		"an edit of nothing": {`mutation { updatePost(input: {id: "` + postGlobalID("p") + `"}) { post { id } } }`, "",
			[]string{" 1", "updatePost 1 p"}, ""},
		"a draft": {`mutation { createPost(input: {title: "t", content: "c", draft: true}) { post { id } } }`, "",
			[]string{" 9.7", "createPost 1 (viewer) (viewer)"}, ""},
		"several operations": {`query A { viewer { username } } query B { __typename }`, "",
			[]string{"A 1", "viewer 1 (viewer)", "B 0"}, ""},
		"many fields": {`{ feed(first: 100) { edges { node { ` + aliases("title", 90) + ` } } } }`, "",
			[]string{" 40.29", "feed 1 post", "feed.edges 9201"}, ""},
		"unknown field":  {`{ blog }`, "", nil, `line 1, column 3: Cannot query field "blog"`},
		"syntax error":   {`{`, "", nil, "line 1, column 2: "},
		"empty document": {``, "", nil, "no operations"},
		"subscription with two fields": {`subscription { a: postPublished { id } b: postPublished { id } }`,
			"", nil, "line 1, column 40: a subscription must select exactly one field"},
		"unpaired surrogate": {`{ userByUsername(username: "\ud83d") { id } }`, "", nil,
			"unpaired surrogate"},
		"non-numeric string for an Int variable": {`query F($n: Int!) { feed(first: $n) { edges { cursor } } }`,
			`{"n": "x"}`, nil, "cannot use string as Int"},
		"variables are not JSON": {`{ __typename }`, `n=1`, nil, "not a JSON object"},
		"variables are a list":   {`{ __typename }`, `[]`, nil, "the variables are not a JSON object"},
		"too many aliases":       {`{ ` + strings.Repeat("a: __typename ", 101) + `}`, "", nil, "101 aliases"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Explain(readSchema(t), tt.document, []byte(tt.variables), 0)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got error %v, want %s", err, tt.wantErr)
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
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

// aliases returns a field with n aliases.
func aliases(field string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: %s ", i, field)
	}
	return b.String()
}
