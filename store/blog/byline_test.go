package blog

import (
	"reflect"
	"testing"
)

// properties has every field of a byline, in the order of the names.
func TestBylineProperties(t *testing.T) {
	var b Byline
	fields, properties := reflect.ValueOf(&b).Elem(), b.properties()
	if fields.NumField() != len(properties) || len(bylineNames) != len(properties) {
		t.Fatalf("%d fields, %d properties, %d names", fields.NumField(), len(properties), len(bylineNames))
	}
	for i := range fields.NumField() {
		if fields.Field(i).Addr().Interface() != any(properties[i]) {
			t.Errorf("property %d is not %s", i, fields.Type().Field(i).Name)
		}
	}
}
