package plan

import (
	"slices"
	"testing"

	"byline/graph/generated"
)

// Every field has an encoder, unless it needs a read of its own: without one, queries that select the field are
// executed without a plan.
func TestEncoders_CoverTheSchema(t *testing.T) {
	executed := []string{"Comment.post", "Like.post"}
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	check := func(typeName string, known func(field string) bool) {
		for _, f := range schema.Types[typeName].Fields {
			if name := typeName + "." + f.Name; known(f.Name) == slices.Contains(executed, name) {
				t.Errorf("%s has an encoder: %t", name, known(f.Name))
			}
		}
	}
	check("User", func(f string) bool { return userFields[f] != nil })
	check("Post", func(f string) bool { return postFields[f] != nil })
	check("Tag", func(f string) bool { return tagFields[f] != nil })
	check("Month", func(f string) bool { return monthFields[f] != nil })
	check("Comment", func(f string) bool { return commentFields[f] != nil })
	check("Like", func(f string) bool { return likeFields[f] != nil })
	check("PageInfo", func(f string) bool { return pageInfoFields[f] != nil })
}
