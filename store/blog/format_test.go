package blog

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A list selects every property of its items, or has it from the defaults: an item of a list has the same
// fields as one that is read alone.
func TestFormat_SelectsEveryProperty(t *testing.T) {
	for name, tt := range map[string]struct {
		item   any
		fields string
		blank  string
	}{
		"posts":    {Post{}, Summaries.Fields, ""},
		"drafts":   {Post{}, strings.Replace(Drafts.Fields, "c.postId AS id", "c.id", 1), ""},
		"comments": {Comment{}, Comments.Fields, "postId"},
		"likes":    {Like{}, Likes.Fields, "postId"},
	} {
		t.Run(name, func(t *testing.T) {
			selected := strings.Split(tt.fields, ", ")
			for _, f := range reflect.VisibleFields(reflect.TypeOf(tt.item)) {
				property, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !f.Anonymous && property != "-" && property != tt.blank &&
					!slices.Contains(selected, "c."+property) {
					t.Errorf("the list does not select %s (%s)", property, f.Name)
				}
			}
		})
	}
}
