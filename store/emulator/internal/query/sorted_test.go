package query

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPage_MatchesFullSort compares a bounded page with a sort of all items.
func TestPage_MatchesFullSort(t *testing.T) {
	for most := range 20 {
		p := page{most: most}
		var all [][]byte
		for range rand.IntN(300) {
			key := []byte{byte(rand.IntN(250)), byte(rand.IntN(250)), byte(len(all)), byte(len(all) >> 8)}
			all = append(all, key)
			p.add(key, 0)
		}
		p.trim()
		slices.SortFunc(all, bytes.Compare)
		want := all[:min(most, len(all))]
		if len(p.items) != len(want) || p.more != (len(all) > most) {
			t.Fatalf("%d of %d items, more %v; want %d", len(p.items), len(all), p.more, len(want))
		}
		for i, it := range p.items {
			if !bytes.Equal(it.key, want[i]) {
				t.Fatalf("item %d of %d is %v, want %v", i, most, it.key, want[i])
			}
		}
	}
}
