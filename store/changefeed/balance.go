package changefeed

import "slices"

// balance returns the leases that a process should take next, so that all live processes hold
// equally many. Free and expired leases come first. If there are none, and the process has less
// than its share, it steals exactly one from the busiest other process that holds more than its
// share. Processes that rebalance independently reach equal shares within as many rounds as the
// share is large.
//
// live reports whether a process, this one included, works on a lease. A lease of this owner that
// is not live is left over from an earlier run, and is always taken.
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
	// An owner of exactly its share gives one away only to a process that lacks two: otherwise the
	// shares would not come closer.
	if spare := count[busiest] - share; busiest == "" || spare < 0 || spare == 0 && need < 2 {
		return take, nil
	}
	return take, all[slices.IndexFunc(all, func(v *lease) bool { return v.Owner == busiest && live(v) })]
}
