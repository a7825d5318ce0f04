package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/cost"
	"byline/store/blog"
)

// The explained requests of each field are exactly those that its execution sends.
func TestExplain_MatchesExecution(t *testing.T) {
	b := smallBlog(t, Options{})
	b.names["slug:engines"] = (&blog.Post{ID: b.postID(t, "engines")}).Slug()
	seen := map[string]bool{}
	for _, document := range []string{
		`{ user(id: "<user:ada>") { username } }`,
		`{ viewer { username } }`,
		`{ userByUsername(username: "Ada") { username } }`,
		`{ post(id: "<post:engines>") { title } }`,
		`{ postBySlug(slug: "<slug:engines>") { title } }`,
		`{ postBySlug(slug: "<slug:engines>") { title comments { edges { cursor } } } }`,
		`{ renderMarkdown(text: "a") }`,
		`{ feed(first: 2) { edges { node { readingMinutes } } } }`,
		`{ node(id: "<user:ada>") { ... on User { username } } }`,
		`{ node(id: "<post:engines>") { ... on Post { title } } }`,
		`{ node(id: "<comment:Poor thing.>") { id } }`,
		`{ node(id: "<like:ada>") { id } }`,
		`{ nodes(ids: ["<post:engines>", "<user:ada>", "<post:moths>", "<comment:Poor thing.>"]) { id } }`,
		`{ nodes(ids: "<post:engines>") { id } }`,
		`{ front: feed(first: 2) { edges { cursor } } }`,
		`{ months { month postCount } }`,
		`{ archive(month: "2026-03", first: 2) { totalCount edges { node { title } } } }`,
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
		`mutation { deleteUser(input: {username: "countess"}) { deletedUserId } }`,
	} {
		document = b.fill(document)
		explained, err := cost.Explain(Schema(true), document, nil, 1)
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
			if o.Pattern == "userItems" || o.Pattern == "oneUser" && o.Path == "updateUser" ||
				o.Pattern == "onePost" && o.Path == "deletePost" { // to report laterRU
				continue
			}
			got[fmt.Sprint(o.Path, " ", o.Kind, " ", o.Container)] = true
			if !slices.ContainsFunc(patterns, func(f cost.ExplainedField) bool {
				return strings.Contains(f.Pattern, o.Pattern)
			}) {
				t.Errorf("%s: %s is not among %+v", document, o.Pattern, patterns)
			}
			// An explained partition key is the one in use.
			for _, f := range patterns {
				for _, r := range f.Requests {
					if f.Path == o.Path && len(patterns) == 1 && len(f.Requests) == 1 &&
						!strings.HasPrefix(r.PartitionKey, "(") && o.PartitionKey[0] != r.PartitionKey {
						t.Errorf("%s: the partition %q, explained as %q", document, o.PartitionKey, r.PartitionKey)
					}
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-explained +executed):\n%s", document, diff)
		}
	}
	for _, p := range []string{"oneUser", "onePost", "userPosts", "comments", "likes", "feed",
		"writeUser", "writePost", "createComment", "likePost"} {
		if !seen[p] {
			t.Errorf("no document covers pattern %s", p)
		}
	}
}
