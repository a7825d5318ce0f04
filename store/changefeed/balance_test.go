package changefeed

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestBalance(t *testing.T) {
	for name, c := range map[string]struct {
		leases string // owner of each: A and B live, X dead, - free, m this process in an earlier run, M this process
		take   int
		steal  string
	}{
		"alone -> everything":                              {"----", 4, ""},
		"nothing to do":                                    {"MMMM", 0, ""},
		"own from an earlier life, then free ones":         {"mm--AA", 3, ""},
		"own from an earlier life, beyond the share":       {"mmmA", 3, ""},
		"free ones up to the share":                        {"--AA", 2, ""},
		"a dead owner's, up to the share":                  {"XXXXAA", 3, ""},
		"free ones before stealing":                        {"-AAAAA", 1, ""},
		"one from the busiest":                             {"AAAB", 0, "A"},
		"one from who has the share, if two are missing":   {"AABB", 0, "AB"},
		"none from who has the share, if one is missing":   {"AABBM", 0, ""},
		"none if there are fewer leases than processes":    {"AB", 0, ""},
		"none from who has as many":                        {"AM", 0, ""},
		"enough with the share though others have more":    {"AAAMM", 0, ""},
		"two more than the share of three -> one":          {"AAAAAMM", 0, "A"},
		"dead owners do not count among who shares":        {"XXAM", 1, ""},
		"nothing at all":                                   {"", 0, ""},
		"a single lease of another that lives stays there": {"A", 0, ""},
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
				t.Errorf("takes %d, want %d", len(take), c.take)
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
func TestBalanceSettles(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		owners, n := 1+r.IntN(6), r.IntN(20)
		var all []*lease
		for i := range n {
			all = append(all, &lease{ID: fmt.Sprint(i), Owner: string(rune('A' + r.IntN(owners+1)))}) // the last is dead
		}
		turn := func(me string) bool {
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
		for range 20 { // rounds: each has its turn, in any order
			for _, i := range r.Perm(owners) {
				turn(string(rune('A' + i)))
			}
		}
		count := map[string]int{}
		for i := range owners {
			me := string(rune('A' + i))
			if turn(me) {
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
