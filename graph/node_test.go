package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/globalid"
)

func TestNodes_InvalidIDIsAnErrorAtItsIndex(t *testing.T) {
	unknownKind := "RHJhZnQveA" // Draft/x
	for _, unplanned := range []bool{false, true} {
		b := smallBlog(t, Options{})
		if unplanned {
			b.Handler = unplannedHandler{b.Handler}
		}
		for name, tt := range map[string]struct {
			query    string
			data     string
			problems []string
		}{
			"malformed": {`{ nodes(ids: ["<user:ada>", "nonsense", "<post:engines>"]) { __typename } }`,
				`{"nodes":[{"__typename":"User"},null,{"__typename":"Post"}]}`,
				[]string{"BAD_USER_INPUT ids[1] [nodes 1]"}},
			"beside tags": {`{ nodes(ids: ["` + globalid.OfTag("machines").String() + `", "x", "` +
				globalid.OfTag("nothing").String() + `"]) { ... on Tag { name postCount } } }`,
				`{"nodes":[{"name":"machines","postCount":2},null,{"name":"nothing","postCount":0}]}`,
				[]string{"BAD_USER_INPUT ids[1] [nodes 1]"}},
			"of an unknown kind, with an alias": {`{ mine: nodes(ids: ["<user:ada>", "<post:engines>", "<user:grace>", "` + unknownKind + `"]) { __typename } }`,
				`{"mine":[{"__typename":"User"},{"__typename":"Post"},{"__typename":"User"},null]}`,
				[]string{"BAD_USER_INPUT ids[3] [mine 3]"}},
			"all": {`{ nodes(ids: ["", "x"]) { __typename } }`,
				`{"nodes":[null,null]}`,
				[]string{"BAD_USER_INPUT ids[0] [nodes 0]", "BAD_USER_INPUT ids[1] [nodes 1]"}},
			"a single id for the list": {`{ nodes(ids: "x") { __typename } }`,
				`{"nodes":[null]}`, []string{"BAD_USER_INPUT ids[0] [nodes 0]"}},
			"beside a field with a plan": {`{ post(id: "<post:engines>") { title } nodes(ids: ["x", "<user:ada>"]) { __typename } }`,
				`{"post":{"title":"engines"},"nodes":[null,{"__typename":"User"}]}`,
				[]string{"BAD_USER_INPUT ids[0] [nodes 0]"}},
			"too many": {`{ nodes(ids: [` + strings.Repeat(`"x",`, 101) + `]) { __typename } }`,
				`null`, []string{"BAD_USER_INPUT ids [nodes]"}},
		} {
			t.Run(fmt.Sprintf("%s, unplanned=%t", name, unplanned), func(t *testing.T) {
				a := post(t, b, "", b.fill(tt.query), nil)
				if diff := cmp.Diff(tt.data, string(a.Data)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(tt.problems, a.problems()); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(a.body, `"locations"`) {
					t.Errorf("no locations: %s", a.body)
				}
				if field := a.field(); field != "ids" &&
					!strings.HasPrefix(a.Errors[0].Message, "is not a valid global id") {
					t.Errorf("message %q", a.Errors[0].Message)
				}
			})
		}
	}
}
