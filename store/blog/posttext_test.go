package blog

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Each text of PostTexts is the field of Post that it names, and each text of Post but for the content has its row.
func TestPostTexts(t *testing.T) {
	var rows []string
	for _, text := range PostTexts {
		rows = append(rows, text.Field)
		var p Post
		field, ok := reflect.TypeFor[Post]().FieldByName(text.Field)
		if !ok || field.Type.Kind() != reflect.String {
			t.Fatalf("Post.%s is no text", text.Field)
		}
		*text.Of(&p) = "set"
		if reflect.ValueOf(p).FieldByIndex(field.Index).String() != "set" {
			t.Errorf("the row of %s sets another field", text.Field)
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != text.Name || strings.Contains(options, "omitempty") != text.Optional || text.Max <= 0 {
			t.Errorf("%+v does not match %s", text, field.Tag)
		}
	}
	others := []string{"ID", "Content"}
	for field := range reflect.TypeFor[Post]().Fields() {
		if field.Type == reflect.TypeFor[string]() && !slices.Contains(append(others, rows...), field.Name) {
			t.Errorf("Post.%s has no row", field.Name)
		}
	}
}
