package graph

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The requests of each access pattern to Cosmos DB.
func TestRequestsPerAccessPattern(t *testing.T) {
	b := smallBlog(t, Options{})
	for name, tt := range map[string]struct {
		query string
		token string
		want  []string
	}{
		"Q1, a user": {`{ user(id: "<user:ada>") { id username createdAt } }`, "",
			[]string{"read users"}},
		"Q1, by node": {`{ node(id: "<user:ada>") { ... on User { username } } }`, "",
			[]string{"read users"}},
		"Q1, the viewer":                 {`{ viewer { username } }`, "demo:ada", []string{"read users"}},
		"anonymous viewer -> no request": {`{ viewer { username } }`, "", []string{}},
		"a user by name":                 {`{ userByUsername(username: "ADA") { username posts { edges { node { title author { createdAt } } } } } }`, "", []string{"query users", "read users", "read users"}},
		"Q2, a post":                     {`{ post(id: "<post:engines>") { id title content author { id username } commentCount likeCount viewerHasLiked createdAt updatedAt version } }`, "", []string{"read posts"}},
		"Q2, by node": {`{ node(id: "<post:engines>") { __typename id ... on Post { title } } }`,
			"", []string{"read posts"}},
		"a comment by node": {`{ node(id: "<comment:Poor thing.>") { ... on Comment { content author { username } } } }`, "", []string{"read posts"}},
		"a like by node": {`{ node(id: "<like:ada>") { ... on Like { createdAt user { username } } } }`, "",
			[]string{"read posts"}},
		"Q3, a user's posts": {`{ user(id: "<user:ada>") { id posts { edges { node { id title excerpt commentCount likeCount author { id username } } } pageInfo { endCursor } } } }`, "", []string{"query users"}},
		"Q3, the viewer's": {`{ viewer { posts { edges { node { title } } } } }`, "demo:ada",
			[]string{"query users"}},
		"Q4, a post's comments": {`{ post(id: "<post:engines>") { id comments { edges { node { content author { id username } } } } } }`, "",
			[]string{"query posts"}},
		"Q4, oldest first": {`{ post(id: "<post:engines>") { comments(order: OLDEST_FIRST, first: 1) { edges { node { content } } } } }`, "",
			[]string{"query posts"}},
		"Q4, a page by node with fragments": {`query { node(id: "<post:engines>") { __typename ...Page id } } fragment Page on Post { comments(first: 1) { edges { node { content __typename } cursor } pageInfo { hasNextPage } } id }`, "",
			[]string{"query posts"}},
		"Q5, a post's likes": {`{ post(id: "<post:moths>") { likes { edges { node { createdAt user { id username } } } } } }`, "", []string{"query posts"}},
		"Q6, the feed":       {`{ feed { edges { node { id title excerpt commentCount likeCount createdAt author { id username } } } pageInfo { hasNextPage } } }`, "", []string{"query feed"}},

		"a post and a list of it": {`{ post(id: "<post:engines>") { title comments { edges { cursor } } } }`, "",
			[]string{"query posts", "read posts"}},
		"an empty list -> parent is read": {`{ post(id: "<post:notes>") { comments { edges { cursor } } } }`, "",
			[]string{"query posts", "read posts"}},
		"bad paging -> no request":           {`{ post(id: "<post:engines>") { comments(first: 0) { edges { cursor } } } }`, "", []string{}},
		"a bad id -> no request":             {`{ post(id: "<user:ada>") { title } }`, "", []string{}},
		"the same page twice -> one request": {`{ a: post(id: "<post:engines>") { comments { edges { cursor } } } b: post(id: "<post:engines>") { comments { pageInfo { endCursor } } } }`, "", []string{"query posts"}},
		"authors' createdAt -> one more": {`{ feed { edges { node { author { createdAt } } } } }`, "",
			[]string{"query feed", "read many users"}},
		"truncated content -> one more": {`{ feed { edges { node { content } } } }`, "",
			[]string{"query feed", "read posts"}},
		"viewerHasLiked -> one more": {`{ feed { edges { node { viewerHasLiked } } } }`, "demo:ada",
			[]string{"query feed", "read many posts"}},
		"anonymous viewerHasLiked -> none more": {`{ feed { edges { node { viewerHasLiked } } } }`, "",
			[]string{"query feed"}},
		"a user and contents of posts":          {`{ user(id: "<user:ada>") { username posts { edges { node { content } } } } }`, "", []string{"query users", "read posts", "read users"}},
		"a user by name and contents":           {`{ userByUsername(username: "ada") { username posts { edges { node { content } } } } }`, "", []string{"query users", "read posts", "read users", "read users"}},
		"bad paging of a list beside others":    {`{ post(id: "<post:engines>") { title comments(first: 0) { edges { cursor } } } }`, "", []string{"read posts"}},
		"a comment's post -> one more":          {`{ post(id: "<post:engines>") { comments { edges { node { post { title } } } } } }`, "", []string{"query posts", "read posts"}},
		"a comment's post that is read already": {`{ post(id: "<post:engines>") { title comments { edges { node { post { title } } } } } }`, "", []string{"query posts", "read posts"}},
		"a like's post and user":                {`{ post(id: "<post:moths>") { likes { edges { node { post { title } user { createdAt } } } } } }`, "", []string{"query posts", "read many users", "read posts"}},
		"a comment by node and its post":        {`{ node(id: "<comment:Poor thing.>") { ... on Comment { content post { title } } } }`, "", []string{"read posts", "read posts"}},
		"a like by node and its post":           {`{ node(id: "<like:ada>") { ... on Like { createdAt post { title } } } }`, "", []string{"read posts", "read posts"}},
		"nodes of two types -> two requests":    {`{ nodes(ids: ["<post:engines>", "<user:ada>", "<post:moths>", "<user:grace>", "<user:ada>"]) { id } }`, "", []string{"read many posts", "read many users"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.wire.reset()
			a := post(t, b, tt.token, b.fill(tt.query), nil)
			if a.code() != "" && !strings.HasPrefix(name, "bad") && !strings.HasPrefix(name, "a bad") {
				t.Fatal(a.body)
			}
			if diff := cmp.Diff(tt.want, b.wire.seen()); diff != "" {
				t.Errorf("requests (-want +got):\n%s\n%s", diff, a.body)
			}
			b.wire.checkPartitions(t)
		})
	}
}

// fill replaces names such as <post:engines> by global ids.
func (b *testBlog) fill(s string) string {
	for name, id := range b.names {
		s = strings.ReplaceAll(s, "<"+name+">", id)
	}
	return s
}

// The requests of each write by a cached author, including those to projections that it updates itself.
func TestRequestsPerWrite(t *testing.T) {
	b := smallBlog(t, Options{})
	for _, tt := range []struct {
		name, token, query string
		want               []string
	}{
		{"C1, create", "new", `mutation { createUser(input: {username: "new"}) { user { id username createdAt } } }`,
			[]string{"batch users", "post users", "post users", "read users"}}, // the reservation and the user
		{"C1, rename", "new", `mutation { updateUser(input: {username: "newer"}) { user { username createdAt } } }`,
			// both reservations
			[]string{"batch users", "patch users", "patch users", "patch users", "post users", "read users",
				"read users"}},
		{"C1, rename to another case", "new",
			`mutation { updateUser(input: {username: "Newer"}) { user { username } } }`,
			[]string{"patch users", "read users"}},
		{"C1, rename to the same", "new", `mutation { updateUser(input: {username: "Newer"}) { user { username } } }`,
			[]string{"read users"}},
		{"C2, create", "ada",
			`mutation { createPost(input: {title: "t", content: "c"}) { post { id title content author { username } } } }`,
			[]string{"post feed", "post posts", "post search", "post users"}},
		{"C2, edit", "ada",
			`mutation { updatePost(input: {id: "<post:notes>", title: "t"}) { post { title content version } } }`,
			[]string{"patch posts", "patch search", "put feed", "put users", "read feed", "read posts", // it has tags
				"read users"}},
		{"C3", "ada",
			`mutation { createComment(input: {postId: "<post:notes>", content: "c"}) { comment { id content post { title } } post { commentCount } } }`,
			[]string{"batch posts"}},
		{"C4", "ada",
			`mutation { likePost(input: {postId: "<post:notes>"}) { like { user { username } post { title } } post { likeCount viewerHasLiked } } }`,
			[]string{"batch posts"}},
		{"C4, again", "ada",
			`mutation { likePost(input: {postId: "<post:notes>"}) { like { createdAt } post { likeCount viewerHasLiked } } }`,
			[]string{"batch posts", "batch posts"}},
		{"C4, unlike", "ada",
			`mutation { unlikePost(input: {postId: "<post:notes>"}) { post { likeCount viewerHasLiked } } }`,
			[]string{"batch posts"}},
		{"C4, unlike again", "ada",
			`mutation { unlikePost(input: {postId: "<post:notes>"}) { post { likeCount viewerHasLiked } } }`,
			[]string{"batch posts", "read posts"}},
		{"an edit of a comment", "ada",
			`mutation { updateComment(input: {id: "<comment:All of them.>", content: "c"}) { comment { content updatedAt } } }`,
			[]string{"patch posts", "read posts"}},
		{"an edit of a comment without a change", "ada",
			`mutation { updateComment(input: {id: "<comment:All of them.>", content: "c"}) { comment { content } } }`,
			[]string{"batch posts", "read posts", "read posts"}}, // the primary replica's
		{"a delete of a comment", "ada",
			`mutation { deleteComment(input: {id: "<comment:All of them.>"}) { deletedCommentId post { commentCount } } }`,
			[]string{"batch posts", "read posts"}},
		{"a delete of a post with a comment and a like", "ada",
			`mutation { deletePost(input: {id: "<post:engines>"}) { deletedPostId } }`,
			// both projections, the comment and the like
			[]string{"batch posts", "put feed", "put posts", "put search", "put users", "query posts", "read feed",
				"read posts", "read users"}},
		{"a delete of a user", "ada", `mutation { deleteUser(input: {username: "ada"}) { deletedUserId } }`,
			[]string{"patch users", "read users"}},
		{"a delete of a user, again", "ada", `mutation { deleteUser(input: {username: "ada"}) { deletedUserId } }`,
			[]string{"read users"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.wire.reset()
			if a := post(t, b, "demo:"+tt.token, b.fill(tt.query), nil); a.code() != "" {
				t.Fatal(a.body)
			}
			if diff := cmp.Diff(tt.want, b.wire.seen()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			b.wire.checkPartitions(t)
		})
	}
}

// describeRequest detects requests that cross partitions.
func TestDescribeRequest(t *testing.T) {
	const (
		partition = "x-ms-documentdb-partitionkey"
		ranges    = "x-ms-documentdb-partitionkeyrangeid"
	)
	for name, tt := range map[string]struct {
		method, path, header, query string
		want                        wireRequest
	}{
		"a point read": {"GET", "/dbs/b/colls/users/docs/a", partition, "",
			wireRequest{what: "read users"}},
		"a point read without its partition": {"GET", "/dbs/b/colls/users/docs/a", "", "",
			wireRequest{"read users", "read users crosses partitions"}},
		"a create": {"POST", "/dbs/b/colls/users/docs", partition, "",
			wireRequest{what: "post users"}},
		"a query of a partition": {"POST", "/dbs/b/colls/feed/docs", partition, "SELECT * FROM c",
			wireRequest{what: "query feed"}},
		"a query of all partitions": {"POST", "/dbs/b/colls/feed/docs", "", "SELECT * FROM c",
			wireRequest{"query feed", "query feed crosses partitions"}},
		"a query of a range": {"POST", "/dbs/b/colls/feed/docs", ranges, "SELECT * FROM c WHERE c.id = @id",
			wireRequest{"query feed", "query feed crosses partitions"}},
		"ReadMany by id": {"POST", "/dbs/b/colls/users/docs", ranges,
			"SELECT * FROM c WHERE c.id IN (@param_id0, @param_id1)", wireRequest{what: "read many users"}},
		"ReadMany by id and partition": {"POST", "/dbs/b/colls/posts/docs", ranges,
			"SELECT * FROM c WHERE (c.id = @param_id0 AND c.postId = @param_pk00)",
			wireRequest{what: "read many posts"}},
		"ReadMany without a range": {"POST", "/dbs/b/colls/users/docs", "",
			"SELECT * FROM c WHERE c.id IN (@param_id0)", wireRequest{"query users", "query users crosses partitions"}},
		"a container": {"GET", "/dbs/b/colls/users", "", "",
			wireRequest{"metadata", "not about items: /dbs/b/colls/users"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, nil)
			if tt.query != "" {
				r = httptest.NewRequest(tt.method, tt.path, strings.NewReader(fmt.Sprintf(`{"query":%q}`, tt.query)))
				r.Header.Set("Content-Type", "application/query+json")
			}
			if tt.header != "" {
				r.Header.Set(tt.header, "0")
			}
			if got := describeRequest(r); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if body, err := io.ReadAll(r.Body); err != nil ||
				tt.query != "" && !strings.Contains(string(body), tt.query) {
				t.Errorf("the body is gone: %q, %v", body, err)
			}
		})
	}
}

// A list of 100 posts or comments takes one more request for a related field, however many items that reads.
func TestLoaders_TakeOneRequestPerField(t *testing.T) {
	b := newBlog(t, Options{})
	const authors = 40
	for i := range authors {
		b.user(t, fmt.Sprintf("user%02d", i))
	}
	first := ""
	for i := range 100 {
		id := b.post(t, fmt.Sprintf("user%02d", i%authors), fmt.Sprint("post ", i), strings.Repeat("long ", 100))
		if i == 0 {
			first = id
		}
	}
	for i := range 100 {
		b.comment(t, fmt.Sprintf("user%02d", i%authors), first, fmt.Sprint("comment ", i))
	}
	for name, tt := range map[string]struct {
		query string
		want  []string
		count string // a text that is in the response once per item
	}{
		"authors of a feed": {`{ feed(first: 100) { edges { node { author { createdAt } } } } }`,
			[]string{"query feed", "read many users"}, `"createdAt"`},
		"contents of a feed": {`{ feed(first: 100) { edges { node { content } } } }`,
			[]string{"query feed", "read many posts"}, `"content"`},
		"likes of a feed": {`{ feed(first: 100) { edges { node { viewerHasLiked } } } }`,
			[]string{"query feed", "read many posts"}, `"viewerHasLiked":false`},
		"authors of comments": {`{ post(id: "` + postGlobalID(first) +
			`") { comments(first: 100) { edges { node { author { createdAt } } } } } }`,
			[]string{"query posts", "read many users"}, `"createdAt"`},
		"the post of comments": {`{ post(id: "` + postGlobalID(first) +
			`") { comments(first: 100) { edges { node { post { title } } } } } }`,
			[]string{"query posts", "read posts"}, `"title":"post 0"`},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				b.wire.reset()
				a := post(t, b, "demo:user01", tt.query, nil)
				if n := strings.Count(a.body, tt.count); n != 100 || a.code() != "" {
					t.Fatalf("%d of 100: %.300s", n, a.body)
				}
				if diff := cmp.Diff(tt.want, b.wire.seen()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				b.wire.checkPartitions(t)
			}
		})
	}
}
