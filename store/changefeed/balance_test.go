package changefeed

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestBalance(t *testing.T) {
	for name, c := range map[string]struct {
		// owner of each: A and B live, X dead, - free, m this process in an earlier run, M this process now
		leases string
		take   int
		steal  string
	}{
		"only process -> takes all":                             {"----", 4, ""},
		"holds all -> nothing":                                  {"MMMM", 0, ""},
		"own of an earlier run -> first, then free ones":        {"mm--AA", 3, ""},
		"own of an earlier run -> beyond the share":             {"mmmA", 3, ""},
		"free -> up to the share":                               {"--AA", 2, ""},
		"dead owner -> up to the share":                         {"XXXXAA", 3, ""},
		"free -> no stealing":                                   {"-AAAAA", 1, ""},
		"none free -> steals one from the busiest":              {"AAAB", 0, "A"},
		"others at their share, two missing -> steals one":      {"AABB", 0, "AB"},
		"others at their share, one missing -> nothing":         {"AABBM", 0, ""},
		"fewer leases than processes -> nothing":                {"AB", 0, ""},
		"equal shares -> nothing":                               {"AM", 0, ""},
		"at the share, another has more -> nothing":             {"AAAMM", 0, ""},
		"another has two more than the share of three -> steal": {"AAAAAMM", 0, "A"},
		"dead owners -> not counted as processes":               {"XXAM", 1, ""},
		"no leases -> nothing":                                  {"", 0, ""},
		"single lease of a live process -> nothing":             {"A", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*lease
			for i, owner := range c.leases {
				v := &lease{ID: fmt.Sprint(i), Owner: map[rune]string{'-': "", 'm': "M"}[owner]}
				if v.Owner == "" && owner != '-' {
					v.Owner = string(owner)
				}
				all = append(all, v)
			}
			live := func(v *lease) bool {
				var i int
				fmt.Sscan(v.ID, &i)
				return c.leases[i] >= 'A' && c.leases[i] <= 'M'
			}
			take, steal := balance(all, "M", live)
			if len(take) != c.take {
				t.Errorf("takes %d leases, want %d", len(take), c.take)
			}
			if steal == nil && c.steal != "" || steal != nil && !contains(c.steal, steal.Owner) {
				t.Errorf("steals %+v, want one of %q", steal, c.steal)
			}
		})
	}
}

func contains(owners, owner string) bool {
	for _, o := range owners {
		if string(o) == owner {
			return true
		}
	}
	return false
}

// Whatever the initial owners, rebalancing in random order makes the shares equal, and then stops.
func TestBalance_Converges(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		owners, n := 1+r.IntN(6), r.IntN(20)
		var all []*lease
		for i := range n {
			// the last is dead
			all = append(all, &lease{ID: fmt.Sprint(i), Owner: string(rune('A' + r.IntN(owners+1)))})
		}
		rebalance := func(me string) bool {
			r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
			take, steal := balance(all, me, func(v *lease) bool { return v.Owner < string(rune('A'+owners)) })
			if steal != nil {
				take = append(take, steal)
			}
			for _, v := range take {
				v.Owner = me
			}
			return len(take) > 0
		}
		for range 20 { // rounds: each process rebalances once, in any order
			for _, i := range r.Perm(owners) {
				rebalance(string(rune('A' + i)))
			}
		}
		count := map[string]int{}
		for i := range owners {
			me := string(rune('A' + i))
			if rebalance(me) {
				t.Fatalf("seed %d: leases still move", seed)
			}
			count[me] = 0
		}
		least, most := n, 0
		for _, v := range all {
			count[v.Owner]++
		}
		for _, c := range count {
			least, most = min(least, c), max(most, c)
		}
		if most-least > 1 {
			t.Fatalf("seed %d: %d leases of %d owners are shared as %v", seed, n, owners, count)
		}
	}
}
