package graph

import (
	"fmt"
	"strings"
	"testing"

	"byline/graph/globalid"
)

// A repetition with the same key has the same response. It writes no comment, and neither does a refused mutation.
func TestMutations_Repeated(t *testing.T) {
	b := smallBlog(t, Options{})
	engines, err := parseIDOf(globalid.Post, "id", b.names["post:engines"])
	if err != nil {
		t.Fatal(err)
	}
	comments := func() int32 {
		p, err := b.store.Post(t.Context(), engines)
		if err != nil {
			t.Fatal(err)
		}
		return p.CommentCount
	}
	const comment = `mutation { createComment(input: {postId: "<post:engines>", content: "Two.\n", idempotencyKey: "%s"}) `
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		comments  int32 // that it creates
	}{
		"comment": {comment +
			`{ comment { id content author { id username } createdAt updatedAt __typename } post { id commentCount title } __typename } }`, nil, 1},
		"merged fields": {comment +
			`{ post { id } ...F } } fragment F on CreateCommentPayload { post { commentCount } comment { id } }`, nil,
			1},
		"alias":                      {`mutation { mine: createComment(input: {postId: "<post:engines>", content: "x", idempotencyKey: "%s"}) { is: comment { id } } }`, nil, 1},
		"variables":                  {`mutation($in: CreateCommentInput!) { createComment(input: $in) { comment { id } } }`, map[string]any{"postId": "<post:engines>", "content": "x", "idempotencyKey": "%s"}, 1},
		"variable in input":          {`mutation($in: String = "x") { createComment(input: {postId: "<post:engines>", content: $in, idempotencyKey: "%s"}) { comment { id } } }`, nil, 1},
		"two mutations":              {`mutation { createComment(input: {postId: "<post:engines>", content: "x", idempotencyKey: "%s"}) { comment { id } } likePost(input: {postId: "<post:moths>"}) { post { likeCount } } }`, nil, 1},
		"two mutations, one refused": {`mutation { createComment(input: {postId: "<post:engines>", content: "x", idempotencyKey: "%s"}) { comment { id } } likePost(input: {postId: "x"}) { post { likeCount } } }`, nil, 1},
		"post of the comment":        {comment + `{ comment { post { id } } } }`, nil, 1},
		"list of the post":           {comment + `{ post { comments(first: 1) { edges { cursor } } } } }`, nil, 1},
		"viewerHasLiked":             {comment + `{ post { viewerHasLiked } } }`, nil, 1},
		"content":                    {comment + `{ post { content } } }`, nil, 1},
		"skip":                       {comment + `{ comment { id @skip(if: true) content } } }`, nil, 1},
		"blank content":              {`mutation { createComment(input: {postId: "<post:engines>", content: " "}) { comment { id } } }`, nil, 0},
		"an empty key":               {`mutation { createComment(input: {postId: "<post:engines>", content: "x", idempotencyKey: ""}) { comment { id } } }`, nil, 0},
		"an invalid id":              {`mutation { createComment(input: {postId: "x", content: "x", idempotencyKey: null}) { comment { id } } }`, nil, 0},
		"a number as id":             {`mutation { createComment(input: {postId: 5, content: "x"}) { comment { id } } }`, nil, 0},
		"unknown post":               {`mutation { createComment(input: {postId: "<no post>", content: "x"}) { comment { id } } }`, nil, 0},
		"incomplete input":           {`mutation($in: CreateCommentInput!) { createComment(input: $in) { comment { id } } }`, map[string]any{"postId": "<post:engines>"}, 0},
		"like":                       {`mutation { likePost(input: {postId: "<post:moths>"}) { like { id user { username } createdAt } post { likeCount } } }`, nil, 0},
		"like, viewerHasLiked":       {`mutation { likePost(input: {postId: "<post:moths>"}) { post { viewerHasLiked } } }`, nil, 0},
		"unlike":                     {`mutation { unlikePost(input: {postId: "<post:notes>"}) { post { id likeCount } } }`, nil, 0},
		"unlike an unknown post":     {`mutation { unlikePost(input: {postId: "<no post>"}) { post { id likeCount } } }`, nil, 0},
		"createPost":                 {`mutation { createPost(input: {title: "x", content: "x", idempotencyKey: "%s"}) { post { id } } }`, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, token := range []string{"demo:ada", "demo:nobody", ""} {
				key := fmt.Sprint(name, token)
				fill := strings.NewReplacer("<no post>", postGlobalID("none"), "%s", key)
				query := fill.Replace(b.fill(tt.query))
				var variables map[string]any
				if tt.variables != nil {
					in := map[string]any{}
					for k, v := range tt.variables {
						in[k] = fill.Replace(b.fill(v.(string)))
					}
					variables = map[string]any{"in": in}
				}
				want := comments()
				if token == "demo:ada" {
					want += tt.comments
				}
				response := post(t, b, token, query, variables)
				checkSameResponse(t, response, post(t, b, token, query, variables)) // again, with the same key
				if got := comments(); got != want {
					t.Errorf("%d comments, want %d", got, want)
				}
			}
		})
	}
}
