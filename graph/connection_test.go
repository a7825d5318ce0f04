package graph

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"byline/graph/plan"
	"byline/store"
)

func TestPagingOf(t *testing.T) {
	at := func(n int32) *int32 { return &n }
	after, oldest := "c", store.OldestFirst
	for name, tt := range map[string]struct {
		first *int32
		after *string
		order *store.Order
		want  store.Paging
	}{
		"no arguments -> defaults": {want: store.Paging{First: 20}},
		"all arguments": {at(7), &after, &oldest,
			store.Paging{First: 7, After: "c", Order: store.OldestFirst}},
		"first of 0 -> not the default":               {first: at(0), want: store.Paging{First: 0}},
		"first over the maximum -> left to the store": {first: at(101), want: store.Paging{First: 101}},
		"negative first -> left to the store":         {first: at(-1), want: store.Paging{First: -1}},
		"empty after -> none":                         {after: new(string), want: store.Paging{First: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, plan.PagingOf(tt.first, tt.after, tt.order)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
