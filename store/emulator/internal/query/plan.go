package query

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// planKind is a way to find items, and flags. Continuations contain it: do not renumber.
type planKind byte

const (
	planPoints     planKind = 1  // point lookups
	planPartition  planKind = 2  // the items of one logical partition, or of a prefix of a hierarchical key
	planOrder      planKind = 3  // all items of a physical partition, in order of creation
	planComposite  planKind = 4  // a composite index, within one logical partition
	planRange      planKind = 5  // the range index, for equality
	planInterval   planKind = 6  // the range index, for an interval of values
	planText       planKind = 7  // full-text indexes
	planSorted     planKind = 8  // flag: rows are sorted in memory
	planAggregated planKind = 16 // flag: rows come from an sql.Aggregation
)

// withoutFlags returns the kind without its flags.
func (k planKind) withoutFlags() planKind { return k &^ (planSorted | planAggregated) }

// order returns what orders the rows, and so gives positions their meaning: one flag, or a kind.
func (p *plan) order() planKind {
	switch {
	case p.kind&planAggregated != 0:
		return planAggregated
	case p.kind&planSorted != 0:
		return planSorted
	}
	return p.kind
}

// plan is how a query finds its items.
type plan struct {
	kind      planKind
	spans     []span
	points    [][]byte // addresses; nil if out of scope, so that positions do not depend on the scope
	reverse   bool
	covered   bool // every item found matches WHERE
	composite *index.Composite
	prefix    []byte              // of the keys in the composite index that have the pinned values
	path      sql.Path            // of the range index
	outside   bool                // the spans may have items of other physical partitions
	texts     []sql.TextCondition // of planText: those that its items fulfill
	check     []sql.TextCondition // of other plans: conditions to check by full-text indexes
	rest      *plan               // of planText: the plan if the query needs items that do not fulfill texts, too

	// Of planText: the query is evaluated without items, on this document, which has the properties that they share.
	// Their rows are read once they are sorted; unfiltered: and WHERE is applied then.
	shared     []byte
	unfiltered bool
}

// readsAllRanges reports whether a page reads all physical partitions in scope instead of one.
func (p *plan) readsAllRanges() bool {
	kind := p.kind.withoutFlags()
	return kind != p.kind || kind == planPoints || kind == planInterval
}

// continuation returns a continuation at the start of a span.
func (p *plan) continuation(span int) *continuation {
	return &continuation{plan: p.order(), span: p.spans[span].no}
}

// span is a range of keys with a common prefix, in one physical partition. In a scan by order of
// creation it has the items created in partition no, which p now holds at least in part.
type span struct {
	no        uint32 // of the physical partition
	p         *partitionkey.Range
	low, high []byte
}

func (s *span) empty() bool { return bytes.Compare(s.low, s.high) >= 0 }

// choosePlan prefers, in this order: point lookups; a composite index that serves ORDER BY; the
// composite index with the most pinned columns; a range index that is shorter than a scan; a scan.
func (r *Query) choosePlan() error {
	orders := r.bound.OrderBy()
	switch {
	case len(orders) >= 2 && !r.c.Indexes.HasComposite(orders):
		return apierror.BadRequest(
			"The order by query does not have a corresponding composite index that it can be served from.")
	case len(orders) == 1 && orders[0].Score == "" && !r.c.Indexes.SortsBy(orders[0].Path) && !r.pinnedCompositeOrders(orders[0]):
		return apierror.BadRequest("The index path corresponding to the specified order-by item is excluded.")
	}
	var err error
	if r.plan, err = r.findPlan(orders); err != nil {
		return err
	}
	if r.plan, err = r.chooseText(r.plan); err != nil {
		return err
	}
	switch {
	case r.bound.Aggregates():
		r.plan.kind |= planAggregated
	case len(orders) > 0 && !r.plan.ordered():
		r.plan.kind |= planSorted
	}
	return nil
}

// ordered reports whether a composite index delivers the order.
func (p *plan) ordered() bool { return p.composite != nil && p.kind&planSorted == 0 }

func (r *Query) findPlan(orders []sql.Order) (plan, error) {
	if p, ok := r.pointsPlan(); ok {
		return p, nil
	}
	if r.scope.exact {
		if p, ok := r.compositePlan(orders); ok {
			return p, nil
		}
	}
	if p, ok := r.rangePlan(); ok {
		return p, nil
	}
	scan := r.scanPlan()
	interval, ok := r.intervalPlan()
	if !ok {
		return scan, nil
	}
	if was := r.from.plan.withoutFlags(); was != 0 {
		if was == planInterval {
			return interval, nil
		}
		return scan, nil
	}
	if s := &r.scope; s.key == nil && !interval.outside && len(s.low) == 0 && len(s.high) == 0 {
		return interval, nil // never longer than the scan
	}
	shorter, err := r.shorter(&interval, &scan)
	if err != nil || !shorter {
		return scan, err
	}
	return interval, nil
}

// scanPlan reads everything in scope.
func (r *Query) scanPlan() plan {
	if r.scope.key == nil {
		return r.orderPlan()
	}
	p := plan{kind: planPartition}
	for _, part := range r.scope.ranges {
		low, high := r.clip(layout.AppendKind(nil, layout.KindItem, r.c.No), part)
		p.spans = append(p.spans, span{part.No, part, low, high})
	}
	return p
}

// orderPlan reads the items of physical partitions in order of creation: those created in each
// partition and in its ancestors. A split does not move these entries, so positions stay valid.
func (r *Query) orderPlan() plan {
	p := plan{kind: planOrder, outside: len(r.scope.ranges) < len(r.c.Ranges)}
	add := func(no uint32, part *partitionkey.Range) {
		if slices.ContainsFunc(p.spans, func(s span) bool { return s.no == no }) {
			return
		}
		low := binary.BigEndian.AppendUint32(layout.AppendKind(nil, layout.KindOrder, r.c.No), no)
		p.spans = append(p.spans, span{no, part, low, layout.PrefixEnd(low)})
	}
	for _, part := range r.scope.ranges {
		for _, no := range part.Parents {
			add(no, part)
		}
		add(part.No, part)
	}
	return p
}

// clip returns the bounds of the keys with a prefix and an address that is in scope and in a
// physical partition.
func (r *Query) clip(prefix []byte, part *partitionkey.Range) (low, high []byte) {
	n := len(prefix)
	low = append(append(make([]byte, 0, n+len(r.scope.prefix)), prefix...), r.scope.prefix...)
	high = layout.PrefixEnd(low)
	if r.scope.exact {
		return low, high
	}
	if from := append(append([]byte(nil), prefix...), part.Min...); bytes.Compare(from, low) > 0 {
		low = from
	}
	if to := append(append([]byte(nil), prefix...), part.Max...); bytes.Compare(to, high) < 0 {
		high = to
	}
	return low, high
}

// pointsPlan serves queries that name their items, like those of ReadMany.
func (r *Query) pointsPlan() (plan, bool) {
	idPath := sql.Path{"id"}
	var tuples [][]sql.Value
	var ok bool
	if r.scope.exact {
		tuples, ok = r.bound.Points(idPath)
	} else {
		tuples, ok = r.bound.Points(append(append([]sql.Path{}, r.c.Key.Paths...), idPath)...)
	}
	if !ok {
		return plan{}, false
	}
	p := plan{kind: planPoints}
	for _, t := range tuples {
		id := t[len(t)-1]
		if id.Kind() != sql.String || id.String() == "" {
			continue
		}
		address := r.scope.prefix
		if !r.scope.exact {
			key := make(partitionkey.Key, len(t)-1)
			valid := true
			for i, v := range t[:len(t)-1] {
				c, ok := partitionkey.ComponentOf(v)
				key[i], valid = c, valid && ok
			}
			if !valid {
				continue
			}
			address = r.c.Key.AppendPartition(nil, key)
			if !r.scope.contains(address[:r.c.Key.EPKLength()]) || !r.scope.holds(r.c.Key, address) {
				p.points = append(p.points, nil)
				continue
			}
		}
		address = append(address[:len(address):len(address)], id.String()...)
		p.points = append(p.points, address)
	}
	p.spans = []span{{no: r.scope.ranges[0].No, p: r.scope.ranges[0]}}
	return p, true
}

// pinnedCompositeOrders reports whether a composite index provides the order, given what WHERE pins. It
// does not depend on the scope: a query is accepted or refused alike for every part of the
// container.
func (r *Query) pinnedCompositeOrders(o sql.Order) bool {
	for i := range r.c.Indexes.Composites {
		columns := r.c.Indexes.Composites[i].Columns
		pinned := r.pinned(&r.c.Indexes.Composites[i])
		for _, c := range columns[:min(pinned+1, len(columns))] {
			if slices.Equal(c.Path, o.Path) {
				return true
			}
		}
	}
	return false
}

// pinned returns the number of leading columns that WHERE pins to a value.
func (r *Query) pinned(index *index.Composite) int {
	for i, c := range index.Columns {
		if _, ok := r.bound.Equal(c.Path); !ok {
			return i
		}
	}
	return len(index.Columns)
}

// compositePlan finds the best composite index: one that delivers ORDER BY, then the one with the
// most pinned columns.
func (r *Query) compositePlan(orders []sql.Order) (best plan, found bool) {
	bestScore := 0
	for i := range r.c.Indexes.Composites {
		index := &r.c.Indexes.Composites[i]
		pinned := r.pinned(index)
		ordered, reverse := r.delivers(index, pinned, orders)
		score := 2 * pinned
		if pinned < len(index.Columns) {
			if _, ok := r.bound.Range(index.Columns[pinned].Path); ok {
				score++
			}
		}
		if ordered {
			score += 1000
		}
		if score <= bestScore || len(orders) > 0 && !ordered && score < 2 {
			continue
		}
		bestScore, found = score, true
		best = r.scanComposite(index, pinned)
		best.reverse = reverse
		if len(orders) > 0 && !ordered {
			best.kind |= planSorted
		}
	}
	return best, found
}

// delivers reports whether an index with pinned leading columns yields the order of the query, and
// whether in reverse.
func (r *Query) delivers(index *index.Composite, pinned int, orders []sql.Order) (ordered, reverse bool) {
	at := pinned
	for _, o := range orders {
		if _, ok := r.bound.Equal(o.Path); ok {
			continue // constant
		}
		if at == len(index.Columns) || !slices.Equal(index.Columns[at].Path, o.Path) {
			return false, false
		}
		inverse := index.Columns[at].Desc != o.Desc
		if at > pinned && inverse != reverse {
			return false, false
		}
		reverse = inverse
		at++
	}
	return len(orders) > 0, reverse
}

// scanComposite returns the range scan: equality on the pinned columns and a range on the next one.
func (r *Query) scanComposite(index *index.Composite, pinned int) plan {
	low := layout.AppendCompositePrefix(make([]byte, 0, 128), r.c.No, index.No, r.scope.prefix)
	covered := r.pinnedPartition()
	for i := 0; i < pinned; i++ {
		c := &index.Columns[i]
		v, _ := r.bound.Equal(c.Path)
		low = c.AppendValue(low, v)
		covered = append(covered, c.Path)
	}
	prefix, high := low[:len(low):len(low)], layout.PrefixEnd(low)
	var ranged sql.Path
	if pinned < len(index.Columns) {
		c := &index.Columns[pinned]
		if rng, ok := r.bound.Range(c.Path); ok {
			ranged = c.Path
			low, high = c.Bounds(low, high, rng)
		}
	}
	return plan{kind: planComposite, composite: index, prefix: prefix, covered: r.bound.Covered(covered, ranged),
		spans: []span{{r.scope.ranges[0].No, r.scope.ranges[0], low, high}}}
}

// pinnedPartition returns the partition key paths that WHERE pins to the values of the scope: every
// item in scope matches them.
func (r *Query) pinnedPartition() []sql.Path {
	var paths []sql.Path
	for i, p := range r.c.Key.Paths {
		if v, ok := r.bound.Equal(p); ok {
			if c, ok := partitionkey.ComponentOf(v); ok && c == r.scope.key[i] {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// maxTriedPaths is how many paths of WHERE are considered for the range index. Each costs a pass
// over WHERE.
const maxTriedPaths = 100

func (r *Query) triedPaths() []sql.Path {
	paths := r.bound.Paths()
	return paths[:min(len(paths), maxTriedPaths)]
}

// rangePlan serves equality on an included path.
func (r *Query) rangePlan() (plan, bool) {
	for _, path := range r.triedPaths() {
		v, ok := r.bound.Equal(path)
		if !ok || !r.c.Indexes.Includes(path) || v.Kind() >= sql.Array || v.Kind() == sql.Undefined ||
			r.isPartitionKeyPath(path) {
			continue
		}
		prefix := index.AppendRangeValue(layout.AppendRangePrefix(nil, r.c.No, index.HashPath(path)), v)
		p := plan{kind: planRange, path: path}
		for _, part := range r.scope.ranges {
			low, high := r.clip(prefix, part)
			p.spans = append(p.spans, span{part.No, part, low, high})
		}
		return p, true
	}
	return plan{}, false
}

// intervalPlan serves an interval of values on an included path. Entries of different partitions
// are interleaved.
func (r *Query) intervalPlan() (plan, bool) {
	for _, path := range r.triedPaths() {
		rng, ok := r.bound.Range(path)
		if !ok || !r.c.Indexes.Includes(path) || r.isPartitionKeyPath(path) {
			continue
		}
		low, high := index.RangeBounds(layout.AppendRangePrefix(nil, r.c.No, index.HashPath(path)), rng)
		return plan{kind: planInterval, path: path, outside: len(r.scope.ranges) < len(r.c.Ranges),
			spans: []span{{r.scope.ranges[0].No, r.scope.ranges[0], low, high}}}, true
	}
	return plan{}, false
}

// indexes reports whether an entry, without its address, has the value of a document at the path.
// It may not, if path hashes collide or members share a name.
func (p *plan) indexes(doc, entry []byte) bool {
	const hash = 8
	return bytes.Equal(entry[hash:], index.AppendRangeValue(make([]byte, 0, 64), sql.Lookup(doc, p.path)))
}

// maxProbe is how many entries are read to choose a plan.
const maxProbe = 1000

// shorter reports whether an interval has fewer entries than a scan, by walking both. If both are
// long, the scan wins: it needs no lookups.
func (r *Query) shorter(interval, scan *plan) (bool, error) {
	if interval.spans[0].empty() {
		return true, nil
	}
	a, err := r.walk(interval)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := r.walk(scan)
	if err != nil {
		return false, err
	}
	defer b.Close()
	for range maxProbe {
		switch {
		case !b.Valid():
			return false, errors.Join(a.Error(), b.Error())
		case !a.Valid():
			return true, errors.Join(a.Error(), b.Error())
		}
		a.Next()
		b.Next()
	}
	return false, nil
}

// walk returns an iterator at the first entry of a plan's first span.
func (r *Query) walk(p *plan) (*pebble.Iterator, error) {
	s := p.spans[0]
	it, err := r.view.Clone(
		pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: s.low, UpperBound: s.high}})
	if err == nil {
		it.First()
	}
	return it, err
}

// isPartitionKeyPath reports whether the scope pins a path.
func (r *Query) isPartitionKeyPath(path sql.Path) bool {
	for i, p := range r.c.Key.Paths {
		if i < len(r.scope.key) && slices.Equal(p, path) {
			return true
		}
	}
	return false
}
