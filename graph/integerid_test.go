package graph

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// An integer of any size is an ID, by the specification. No object has it.
func TestIntegerIDs_AreOfNoObject(t *testing.T) {
	b := smallBlog(t, Options{})
	const missing = `"NOT_FOUND"`
	for query, want := range map[string]string{
		`{ node(id: %) { id } }`:                                                       `{"data":{"node":null}}`,
		`{ post(id: %) { id } }`:                                                       `{"data":{"post":null}}`,
		`{ post(id: %) { likes { totalCount } } }`:                                     `{"data":{"post":null}}`,
		`{ user(id: %) { username } }`:                                                 `{"data":{"user":null}}`,
		`{ nodes(ids: [%, %]) { id } }`:                                                `{"data":{"nodes":[null,null]}}`,
		`{ nodes(ids: %) { id } }`:                                                     `{"data":{"nodes":[null]}}`,
		`mutation { likePost(input: {postId: %}) { post { id } } }`:                    missing,
		`mutation { unlikePost(input: {postId: %}) { post { id } } }`:                  missing,
		`mutation { updatePost(input: {id: %, title: "t"}) { post { id } } }`:          missing,
		`mutation { publishPost(input: {id: %}) { post { id } } }`:                     missing,
		`mutation { deletePost(input: {id: %}) { deletedPostId } }`:                    missing,
		`mutation { createComment(input: {postId: %, content: "c"}) { post { id } } }`: missing,
		`mutation { updateComment(input: {id: %, content: "c"}) { comment { id } } }`:  missing,
		`mutation { deleteComment(input: {id: %}) { post { id } } }`:                   missing,
		`{ feed(first: %) { edges { cursor } } }`:                                      `"GRAPHQL_VALIDATION_FAILED"`,
	} {
		for _, id := range []string{"5", "-5", "99999999999999999999", "-99999999999999999999"} {
			if strings.Contains(query, "first") && len(id) < 9 {
				continue
			}
			for edge, h := range map[string]http.Handler{"plans": b, "executor": unplannedHandler{b}} {
				literal := strings.ReplaceAll(query, "%", id)
				if a := post(t, h, "demo:ada", literal, nil); !strings.Contains(a.body, want) {
					t.Errorf("%s, %s: %s", edge, literal, a.body)
				}
				if strings.Contains(query, "first") || strings.Contains(query, "ids: %") {
					continue // not of the type ID!
				}
				operation, fields, _ := strings.Cut(query, "{")
				if operation == "" {
					operation = "query"
				}
				document := operation + "($id: ID!) {" + strings.ReplaceAll(fields, "%", "$id")
				a := post(t, h, "demo:ada", document, map[string]any{"id": json.Number(id)})
				if !strings.Contains(a.body, want) {
					t.Errorf("%s, %s, %s: %s", edge, document, id, a.body)
				}
				document = operation + "($id: ID! = " + id + ") {" + strings.ReplaceAll(fields, "%", "$id")
				if a := post(t, h, "demo:ada", document, nil); !strings.Contains(a.body, want) {
					t.Errorf("%s, %s: %s", edge, document, a.body)
				}
			}
		}
	}
}
