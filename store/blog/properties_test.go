package blog

import (
	"reflect"
	"strings"
	"testing"
)

// The fast path reads every property of an item: otherwise the property would be lost without an error.
func TestReadProperty_Every(t *testing.T) {
	for _, item := range []fastReadable{&Authored{}, &AnyItem{}, &Change{}, &PostItem{}, &SummaryItem{}, &DraftItem{},
		&TextItem{}, &UserItem{}} {
		typ := reflect.TypeOf(item).Elem()
		read := 0
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "" || name == "-" {
				continue
			}
			read++
			if !item.readProperty(&fastReader{rest: "x"}, name) {
				t.Errorf("%s.readProperty does not read %s (%s)", typ.Name(), name, f.Name)
			}
		}
		if read == 0 {
			t.Errorf("%s has no properties", typ.Name())
		}
	}
}
