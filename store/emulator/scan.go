package emulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// queryRun is the execution of one page of a query. It sees one state of the
// database.
type queryRun struct {
	e     *Engine
	q     *request
	c     *container
	def   *definition
	bound *sql.Bound
	scope scope
	plan  plan
	size  int
	from  continuation
	view  *pebble.Iterator // the first one; the others are clones, and see the same
	items *pebble.Iterator // over all items, for lookups; nil until the first

	room    []byte // where the document that is looked at is made
	out     []byte // the answer as far as it is made
	rows    int
	next    *continuation
	entries int // index entries and items looked at
	seeks   int
	loaded  int // bytes of items
}

// currentPartition returns the physical partition that this page is read from.
func (r *queryRun) currentPartition() (*partition, error) {
	at, err := r.currentSpan()
	if err != nil {
		return nil, err
	}
	return r.plan.spans[at].p, nil
}

// currentSpan finds the span that a continuation goes on in. If its partition was
// split meanwhile, that is the child which holds the position, or the first child
// if all of them go on.
func (r *queryRun) currentSpan() (int, error) {
	if r.from.plan == 0 {
		return 0, nil
	}
	for i, s := range r.plan.spans {
		if s.p.no == r.from.span {
			return i, nil
		}
	}
	found := -1
	for i, s := range r.plan.spans {
		if !s.p.descends(r.from.span) {
			continue
		}
		found = i
		if !r.from.started || r.plan.kind == planOrder || bytes.Compare(s.key(r.from.after), s.high) < 0 {
			break
		}
	}
	if found < 0 {
		return 0, rangeGone()
	}
	return found, nil
}

// key is the key at a position of the span.
func (s *span) key(position []byte) []byte {
	return append(append(make([]byte, 0, 128), s.low[:min(len(s.low), positionOffset)]...), position...)
}

// positionOffset is what a position leaves out of its key: kind and container.
const positionOffset = 5

// resume returns the span to go on in, and where in it. Positions in key order
// mean the same in the children of a partition; an order of creation forks.
func (r *queryRun) resume() (at int, from continuation, err error) {
	from = r.from
	if at, err = r.currentSpan(); err != nil || r.plan.kind != planOrder || from.plan == 0 {
		return at, from, err
	}
	p := r.plan.spans[at].p
	if from.started && len(from.after) != forkBytes || len(from.forks) >= 255 {
		return 0, from, invalidContinuation()
	}
	if from.started && from.span != p.no {
		from.forks = append(from.forks, fork{from.span, binary.BigEndian.Uint64(from.after[4:])})
		from.started = false
	}
	for i := len(from.forks) - 1; i >= 0 && !from.started; i-- {
		if f := from.forks[i]; p.descends(f.no) {
			from.started = true
			from.after = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, p.no), f.rid)
		}
	}
	return at, from, nil
}

// iterator returns an iterator in this run's view. The first one is closed at the
// end of the run.
func (r *queryRun) iterator(low, high []byte) (it *pebble.Iterator, err error) {
	o := &pebble.IterOptions{LowerBound: low, UpperBound: high}
	if r.view != nil {
		return r.view.Clone(pebble.CloneOptions{IterOptions: o})
	}
	r.view, err = r.e.db.NewIter(o)
	return r.view, err
}

// limits returns how many rows to leave out at the start, and how many to return
// at most; -1 if there is no limit.
func (r *queryRun) limits() (offset, limit int) {
	offset, limit = 0, -1
	if o, l, ok := r.bound.OffsetLimit(); ok {
		offset, limit = o, l
	}
	if n, ok := r.bound.Top(); ok && (limit < 0 || n < limit) {
		limit = n
	}
	const plenty = 1 << 40 // so that sums stay in range
	return min(offset, plenty), min(limit, plenty)
}

// run fills out and next.
func (r *queryRun) run() (err error) {
	r.out = appendPageStart(make([]byte, 0, 512), "Documents", r.c.rid)
	defer func() {
		if r.items != nil && r.items != r.view {
			err = errors.Join(err, r.items.Close())
		}
		if r.view != nil {
			err = errors.Join(err, r.view.Close())
		}
	}()
	switch {
	case r.plan.kind&planRows != 0:
		return r.runAggregation()
	case r.plan.kind&planSorted != 0:
		return r.runSorted()
	}
	return r.runStream()
}

// visitor receives the items that match. position identifies the item in its
// span; doc is valid only during the call. It returns false to stop.
type visitor func(position, doc []byte) (bool, error)

// runStream returns items as the plan finds them, and stops when the page is
// full.
func (r *queryRun) runStream() error {
	at, from, err := r.resume()
	if err != nil {
		return err
	}
	offset, limit := r.limits()
	end := -1
	if limit >= 0 {
		end = offset + limit
	}
	emitted := r.from.emitted
	var last []byte
	full := false
	look := r.plan.composite != nil || r.plan.kind == planPoints // one item more, to know whether there is a next page
	remember := func(position []byte) { last = append(last[:0], position...) }
	if end >= 0 && emitted >= uint64(end) {
		return nil
	}
	stopped, err := r.visit(&r.plan.spans[at], from, func(position, doc []byte) (bool, error) {
		if full {
			return false, nil
		}
		if emitted < uint64(offset) {
			emitted++
			remember(position)
			return end < 0 || emitted < uint64(end), nil
		}
		r.addRow(doc)
		emitted++
		remember(position)
		if end >= 0 && emitted >= uint64(end) {
			return false, nil
		}
		full = r.rows >= r.size || len(r.out) >= maxPageBytes
		return !full || look, nil
	}, func(position []byte) { remember(position) })
	if err != nil {
		return err
	}
	switch {
	case end >= 0 && emitted >= uint64(end):
	case stopped:
		r.next = &continuation{plan: r.plan.kind, span: r.plan.spans[at].p.no, emitted: emitted, started: true, after: last, forks: from.forks}
	case at+1 < len(r.plan.spans):
		r.next = &continuation{plan: r.plan.kind, span: r.plan.spans[at+1].p.no, emitted: emitted, forks: from.forks}
	}
	return nil
}

// addRow projects an item into the page.
func (r *queryRun) addRow(doc []byte) {
	at := len(r.out)
	if r.rows > 0 {
		r.out = append(r.out, ',')
	}
	if r.bound.SelectsAll() {
		if r.rows == 0 { // the others will be alike
			r.out = slices.Grow(r.out, min(r.size, 64)*(len(doc)+16)+32)
		}
		r.out = append(r.out, doc...)
	} else {
		var ok bool
		if r.out, ok = r.bound.Project(r.out, doc); !ok {
			r.out = r.out[:at]
			return
		}
	}
	r.rows++
}

// visit calls fn for the items of a span that match, after a position. It
// reports whether fn stopped it. When it has looked at maxPageScan entries it
// stops, too, having told pause where; without pause it goes on.
func (r *queryRun) visit(s *span, from continuation, fn visitor, pause func(position []byte)) (stopped bool, err error) {
	if r.plan.kind&^(planSorted|planRows) == planPoints {
		return r.visitPoints(from, fn)
	}
	it, err := r.iterator(s.low, s.high)
	if err != nil {
		return false, err
	}
	if it != r.view {
		defer it.Close()
	}
	r.seeks++
	reverse := r.plan.reverse
	common := min(len(s.low), positionOffset)
	valid := false
	switch {
	case bytes.Compare(s.low, s.high) >= 0: // an empty range
	case !from.started && reverse:
		valid = it.Last()
	case !from.started:
		valid = it.First()
	case reverse:
		valid = it.SeekLT(s.key(from.after))
	default:
		valid = it.SeekGE(append(s.key(from.after), 0))
	}
	seen := 0
	for valid {
		key := it.Key()
		seen++
		r.entries++
		if seen%256 == 0 {
			if err := r.q.ctx.Err(); err != nil {
				return false, err
			}
		}
		more, err := r.visitEntry(it, key[common:], fn)
		if err != nil || !more {
			return true, err
		}
		if pause != nil && seen >= maxPageScan {
			pause(key[common:])
			return true, nil
		}
		if reverse {
			valid = it.Prev()
		} else {
			valid = it.Next()
		}
	}
	return false, it.Error()
}

// visitEntry looks at one entry of a scan.
func (r *queryRun) visitEntry(it *pebble.Iterator, position []byte, fn visitor) (more bool, err error) {
	var rec record
	kind := r.plan.kind &^ (planSorted | planRows)
	if kind == planPartition {
		if !r.scope.holds(&r.def.key, position) {
			return true, nil
		}
		if rec, err = r.readRecord(it.Value()); err != nil {
			return false, err
		}
	} else {
		var room [256]byte
		key := appendKind(room[:0], kindItem, r.c.no)
		switch kind {
		case planOrder:
			if !r.scope.holds(&r.def.key, it.Value()) {
				return true, nil
			}
			key = append(key, it.Value()...)
		case planRange:
			n := int(binary.BigEndian.Uint16(it.Value()))
			key = append(key, position[len(position)-n:]...)
			if !r.scope.holds(&r.def.key, key[5:]) {
				return true, nil
			}
		case planComposite:
			n := int(binary.BigEndian.Uint16(it.Value()))
			key = append(append(key, r.scope.prefix...), position[len(position)-n:]...)
		}
		found := false
		if rec, found, err = r.lookup(key); err != nil || !found {
			return true, err
		}
	}
	return r.offer(&rec, position, fn)
}

// offer calls fn if the item is live and matches.
func (r *queryRun) offer(rec *record, position []byte, fn visitor) (more bool, err error) {
	if r.def.expired(rec, r.e.clock) {
		return true, nil
	}
	r.loaded += len(rec.doc)
	if !r.plan.covered && !r.bound.Matches(rec.doc) {
		return true, nil
	}
	return fn(position, rec.doc)
}

// lookup reads an item in this run's view.
func (r *queryRun) lookup(key []byte) (record, bool, error) {
	if r.items == nil {
		var err error
		if r.items, err = r.iterator(appendKind(make([]byte, 0, 5), kindItem, r.c.no), appendKind(make([]byte, 0, 5), kindItem, r.c.no+1)); err != nil {
			return record{}, false, err
		}
	}
	if !r.items.SeekPrefixGE(key) || !bytes.Equal(r.items.Key(), key) {
		return record{}, false, r.items.Error()
	}
	rec, err := r.readRecord(r.items.Value())
	return rec, err == nil, err
}

// readRecord reads a record, which is valid until the next one is read.
func (r *queryRun) readRecord(b []byte) (record, error) {
	rec, err := r.c.readRecord(b, r.room)
	r.room = rec.doc
	return rec, err
}

func (r *queryRun) visitPoints(from continuation, fn visitor) (stopped bool, err error) {
	first := uint32(0)
	if from.started {
		if len(from.after) != 4 {
			return false, invalidContinuation()
		}
		first = binary.BigEndian.Uint32(from.after) + 1
	}
	for i := int(first); i < len(r.plan.points); i++ {
		var room [256]byte
		r.entries++
		rec, found, err := r.lookup(appendItemKey(room[:0], r.c.no, r.plan.points[i]))
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		more, err := r.offer(&rec, binary.BigEndian.AppendUint32(nil, uint32(i)), fn)
		if err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// sortedItem is an item that waits to be returned in order. Its key is the
// values of ORDER BY and then the address, so that no two are equal.
type sortedItem struct {
	key, doc []byte
}

// runSorted reads all items in scope and keeps the first ones after the position.
func (r *queryRun) runSorted() error {
	offset, limit := r.limits()
	if limit >= 0 && r.from.emitted >= uint64(offset+limit) {
		return nil
	}
	skip := max(0, offset-int(min(r.from.emitted, uint64(offset))))
	want := r.size
	if limit >= 0 {
		want = min(want, offset+limit-int(r.from.emitted)-skip)
	}
	keep := skip + want + 1
	var kept []sortedItem
	trim := func() {
		slices.SortFunc(kept, func(a, b sortedItem) int { return bytes.Compare(a.key, b.key) })
		clear(kept[min(keep, len(kept)):])
		kept = kept[:min(keep, len(kept))]
	}
	err := r.eachItem(func(position, doc []byte) (bool, error) {
		key := r.sortKey(doc, position)
		if r.from.started && bytes.Compare(key, r.from.after) <= 0 {
			return true, nil
		}
		kept = append(kept, sortedItem{key, bytes.Clone(doc)})
		if len(kept) >= 2*keep+64 {
			trim()
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	trim()
	emitted := r.from.emitted
	for i, it := range kept {
		if i < skip {
			emitted++
			continue
		}
		if i >= skip+want || len(r.out) >= maxPageBytes {
			if limit < 0 || emitted < uint64(offset+limit) {
				r.next = &continuation{plan: r.plan.kind, span: r.plan.spans[0].p.no, emitted: emitted, started: true, after: kept[i-1].key}
			}
			break
		}
		r.addRow(it.doc)
		emitted++
	}
	return nil
}

func (r *queryRun) sortKey(doc, position []byte) []byte {
	key := make([]byte, 0, 64)
	for _, o := range r.bound.OrderBy() {
		c := compositeColumn{path: o.Path, desc: o.Desc}
		key = c.appendValue(key, sql.Lookup(doc, o.Path))
	}
	return append(key, position...)
}

// eachItem visits every item of every span that matches.
func (r *queryRun) eachItem(fn visitor) error {
	for i := range r.plan.spans {
		if _, err := r.visit(&r.plan.spans[i], continuation{}, fn, nil); err != nil {
			return err
		}
	}
	return nil
}

// runAggregation computes all rows and returns a page of them.
func (r *queryRun) runAggregation() error {
	agg := r.bound.NewAggregation()
	var ordered []sortedItem
	inOrder := len(r.bound.OrderBy()) == 0 || r.plan.ordered()
	err := r.eachItem(func(position, doc []byte) (bool, error) {
		if inOrder {
			agg.Add(doc)
		} else {
			ordered = append(ordered, sortedItem{r.sortKey(doc, position), bytes.Clone(doc)})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(ordered, func(a, b sortedItem) int { return bytes.Compare(a.key, b.key) })
	for _, it := range ordered {
		agg.Add(it.doc)
	}
	rows := agg.Results()
	offset, limit := r.limits()
	rows = rows[min(offset, len(rows)):]
	if limit >= 0 {
		rows = rows[:min(limit, len(rows))]
	}
	at := int(min(r.from.emitted, uint64(len(rows))))
	rows = rows[at:]
	n := 0
	for n < min(len(rows), r.size) && len(r.out) < maxPageBytes {
		if n > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(r.out, rows[n]...)
		n++
	}
	r.rows = n
	if n < len(rows) {
		r.next = &continuation{plan: r.plan.kind, span: r.plan.spans[0].p.no, emitted: uint64(at + n), started: true}
	}
	return nil
}
