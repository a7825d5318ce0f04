package graph

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
		"nothing given":              {want: store.Paging{First: 20}},
		"everything":                 {at(7), &after, &oldest, store.Paging{First: 7, After: "c", Order: store.OldestFirst}},
		"zero is not the default":    {first: at(0), want: store.Paging{First: 0}},
		"too many is for the store":  {first: at(101), want: store.Paging{First: 101}},
		"nothing before the first":   {first: at(-1), want: store.Paging{First: -1}},
		"an empty after is as if no": {after: new(string), want: store.Paging{First: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, pagingOf(tt.first, tt.after, tt.order)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
