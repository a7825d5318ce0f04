package changefeed

import "slices"

// balance says which leases a process should take next, so that all that live
// have equally many. Those that nobody works on come first; if there are none,
// and the process has less than its share, it steals exactly one from the busiest
// other that has more than its own. Processes that decide so at their own times
// come to an equal share within as many rounds as the share is large.
//
// live tells which leases somebody works on, this process included. Leases that
// are this process's without being worked on are from an earlier life of it, and
// are always taken.
func balance(all []*lease, me string, live func(*lease) bool) (take []*lease, steal *lease) {
	count := map[string]int{me: 0}
	var free []*lease
	for _, v := range all {
		switch {
		case live(v):
			count[v.Owner]++
		case v.Owner == me:
			count[me]++
			take = append(take, v)
		default:
			free = append(free, v)
		}
	}
	share := (len(all) + len(count) - 1) / len(count)
	need := share - count[me]
	if need <= 0 {
		return take, nil
	}
	if len(free) > 0 {
		return append(take, free[:min(need, len(free))]...), nil
	}
	busiest := ""
	for owner, n := range count {
		if owner != me && (busiest == "" || n > count[busiest]) {
			busiest = owner
		}
	}
	// Who has just its share gives one away only if this process lacks two: then
	// the shares of all come no further apart.
	if spare := count[busiest] - share; busiest == "" || spare < 0 || spare == 0 && need < 2 {
		return take, nil
	}
	return take, all[slices.IndexFunc(all, func(v *lease) bool { return v.Owner == busiest && live(v) })]
}
