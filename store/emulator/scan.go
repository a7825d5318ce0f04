package emulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"byline/store/emulator/internal/sql"

	"github.com/cockroachdb/pebble/v2"
)

// queryRun executes one page of a query on one state of the database.
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
	state view
	view  *pebble.Iterator // of state; later iterators are clones
	taken bool             // view is in use
	items *pebble.Iterator // for lookups; nil until the first

	item       *sql.Evaluator // at the current item
	rec        record         // the current item; doc is in scratch or in Pebble's memory
	ahead      int            // entries that fill the page if all match
	systemSize int            // unless 0: the query reads no system properties; their size without _ts
	scratch    *scratch
	out        []byte // the response body so far
	rows       int
	next       *continuation
	head       int // bytes of out before the first row
	entries    int // index entries and items read
	seeks      int
	filtered   int // items to which WHERE was applied
	loaded     int // their bytes
}

// begin opens a view of the container, chooses the plan, and returns the physical partition of the
// page. The run then holds no lock: splits and other changes of the container neither wait for it
// nor affect it.
func (r *queryRun) begin() (*partition, error) {
	if err := r.c.rLock(r.q.ctx); err != nil {
		return nil, err
	}
	defer r.c.mu.RUnlock()
	if r.c.deleted {
		return nil, ownerNotFound()
	}
	r.def = r.c.def
	if err := r.resolveScope(); err != nil {
		return nil, err
	}
	var err error
	if r.state, err = r.e.viewLocked(r.c, r.scope.ranges, r.q.get("X-Ms-Session-Token")); err != nil {
		return nil, err
	}
	r.view, err = r.state.NewIter(nil)
	r.state.release()
	if err != nil {
		return nil, err
	}
	if err := r.choosePlan(); err != nil {
		return nil, err
	}
	if r.from.plan != 0 && (r.from.plan != r.plan.kind || r.from.index != r.plan.index()) {
		return nil, invalidContinuation()
	}
	return r.currentPartition()
}

// currentPartition returns the physical partition of the page.
func (r *queryRun) currentPartition() (*partition, error) {
	at, err := r.currentSpan()
	if err != nil {
		return nil, err
	}
	return r.plan.spans[at].p, nil
}

// currentSpan returns the span of a continuation. After a split that is the child with the
// position, or the first child if the position is at the start.
func (r *queryRun) currentSpan() (int, error) {
	if r.from.plan == 0 {
		return 0, nil
	}
	for i, s := range r.plan.spans {
		if s.no == r.from.span {
			return i, nil
		}
	}
	found := -1
	for i, s := range r.plan.spans {
		if !s.p.descends(r.from.span) {
			continue
		}
		found = i
		if !r.from.started || bytes.Compare(s.key(r.from.after), s.high) < 0 {
			break
		}
	}
	if found >= 0 {
		return found, nil
	}
	if slices.ContainsFunc(r.c.ranges, func(p *partition) bool { return p.descends(r.from.span) }) {
		return 0, rangeGone() // split: the client has to query the children
	}
	return 0, invalidContinuation() // belongs to another range
}

// key returns the key of a position in the span.
func (s *span) key(position []byte) []byte {
	return append(append(make([]byte, 0, 128), s.low[:min(len(s.low), positionOffset)]...), position...)
}

// positionOffset is the length of the kind and container in a key, which positions omit.
const positionOffset = 5

// iterator returns an iterator in the view of the run. The first one is closed at the end of the
// run.
func (r *queryRun) iterator(low, high []byte) (*pebble.Iterator, error) {
	if !r.taken {
		r.taken = true
		r.view.SetBounds(low, high)
		return r.view, nil
	}
	return r.view.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: low, UpperBound: high}})
}

// limits returns the rows to skip and the most rows to return, -1 for no limit.
func (r *queryRun) limits() (offset, limit int) {
	offset, limit = 0, -1
	if o, l, ok := r.bound.OffsetLimit(); ok {
		offset, limit = o, l
	}
	if n, ok := r.bound.Top(); ok && (limit < 0 || n < limit) {
		limit = n
	}
	const plenty = 1 << 40 // prevents overflow
	return min(offset, plenty), min(limit, plenty)
}

func (r *queryRun) close() error {
	var err error
	if r.items != nil && r.items != r.view {
		err = r.items.Close()
	}
	if r.view != nil {
		err = errors.Join(err, r.view.Close())
	}
	return err
}

// run produces out and next.
func (r *queryRun) run() error {
	r.out = appendPageStart(r.scratch.value[:0], "Documents", r.c.rid)
	r.head = len(r.out)
	if names, all := r.bound.Reads(); !all && !slices.ContainsFunc(names, isSystemProperty) {
		var none record
		none.finish(r.c, []byte("{}"), nil)
		r.systemSize = none.size - none.client - len("0")
	}
	switch {
	case r.plan.kind&planRows != 0:
		return r.runAggregation()
	case r.plan.kind&planSorted != 0:
		return r.runSorted()
	}
	return r.runStream()
}

// visitor receives matching items. position identifies the item in its span, address in the
// container; all are valid only during the call. It returns false to stop.
type visitor func(position, address []byte, rec *record) (bool, error)

// runStream returns items in the order of the plan until the page is full.
func (r *queryRun) runStream() error {
	at, err := r.currentSpan()
	if err != nil {
		return err
	}
	offset, limit := r.limits()
	end := -1
	if limit >= 0 {
		end = offset + limit
	}
	emitted := r.from.emitted
	var last []byte // position of the last row
	full := false
	lookahead := r.plan.composite != nil || r.plan.kind == planPoints // read one item more to learn whether there is a next page
	setLast := func(position []byte) { last = append(last[:0], position...) }
	if end >= 0 && emitted >= uint64(end) {
		return nil
	}
	if r.ahead = r.size; lookahead {
		r.ahead++
	}
	if end >= 0 {
		r.ahead = min(r.ahead, int(uint64(end)-emitted))
	}
	stopped, err := r.visit(&r.plan.spans[at], r.from, func(position, _ []byte, rec *record) (bool, error) {
		if full {
			last = r.plan.separator(last, position)
			return false, nil
		}
		if emitted < uint64(offset) {
			emitted++
			setLast(position)
			return end < 0 || emitted < uint64(end), nil
		}
		if err := r.addRow(rec.doc); err != nil {
			return false, err
		}
		emitted++
		setLast(position)
		if end >= 0 && emitted >= uint64(end) {
			return false, nil
		}
		full = r.rows >= r.size || len(r.out) >= maxPageBytes
		return !full || lookahead, nil
	}, setLast)
	if err != nil {
		return err
	}
	switch {
	case end >= 0 && emitted >= uint64(end):
	case stopped:
		return r.continueAfter(last, at, emitted)
	case at+1 < len(r.plan.spans):
		r.next = r.plan.continuation(at + 1)
		r.next.emitted = emitted
	}
	return nil
}

// addRow projects the current item into the page.
func (r *queryRun) addRow(doc []byte) error {
	if r.rows > 0 {
		r.out = append(r.out, ',')
	}
	if r.bound.SelectsAll() {
		r.out = append(r.out, doc...)
	} else {
		var err error
		if r.out, _, err = r.item.Project(r.out); err != nil { // there is a row: see emit
			return queryError(err)
		}
	}
	r.rows++
	return nil
}

// visit calls fn for the matching items of a span after a position, and reports whether it stopped
// early: because of fn, or, unless pause is nil, after maxPageScan entries. It then calls pause
// with the last position.
func (r *queryRun) visit(s *span, from continuation, fn visitor, pause func(position []byte)) (stopped bool, err error) {
	if r.plan.kind&^(planSorted|planRows) == planPoints {
		return r.visitPoints(from, fn)
	}
	after, ended, err := r.resume(s, from)
	if err != nil || ended {
		return false, err
	}
	r.seeks++
	if s.empty() {
		return false, nil
	}
	it, err := r.iterator(s.low, s.high)
	if err != nil {
		return false, err
	}
	if it != r.view {
		defer it.Close()
	}
	valid, next := r.seek(it, after), it.Next
	if r.plan.reverse {
		next = it.Prev
	}
	common := min(len(s.low), positionOffset)
	if r.plan.kind&^(planSorted|planRows) == planPartition {
		return r.visitItems(it, valid, next, common, fn, pause)
	}
	return r.visitEntries(it, valid, next, common, fn, pause)
}

// resume returns the key in a span after which a visit begins, nil for the start of the span. ended reports
// that a split has left nothing of the span to visit.
func (r *queryRun) resume(s *span, from continuation) (after []byte, ended bool, err error) {
	if !from.started {
		return nil, false, nil
	}
	after = s.key(from.after)
	before, beyond := bytes.Compare(after, s.low) < 0, bytes.Compare(after, s.high) >= 0
	if r.plan.reverse {
		before, beyond = beyond, before
	}
	switch split := from.span != s.no; {
	case split && before: // the position is in another child
		return nil, false, nil
	case split && beyond:
		return nil, true, nil
	case before || beyond:
		return nil, false, invalidContinuation() // the index has changed
	}
	return after, false, nil
}

// seek moves an iterator to the first entry after a key in the order of the plan, or to the first of all if the
// key is nil.
func (r *queryRun) seek(it *pebble.Iterator, after []byte) (valid bool) {
	switch reverse := r.plan.reverse; {
	case after == nil && reverse:
		return it.Last()
	case after == nil:
		return it.First()
	case reverse:
		return it.SeekLT(after)
	}
	return it.SeekGE(append(after, 0))
}

// visitItems continues a scan over items, whose keys begin with common bytes that positions omit.
func (r *queryRun) visitItems(it *pebble.Iterator, valid bool, next func() bool, common int, fn visitor, pause func(position []byte)) (stopped bool, err error) {
	for seen := 1; valid; seen++ {
		position := it.Key()[common:]
		if err := r.countEntry(); err != nil {
			return false, err
		}
		more, err := r.visitItem(position, it.Value(), fn)
		if err != nil || !more {
			return true, err
		}
		if pause != nil && seen >= maxPageScan {
			pause(position)
			return true, nil
		}
		valid = next()
	}
	return false, it.Error()
}

// countEntry counts an entry that was read. It checks the context now and then.
func (r *queryRun) countEntry() error {
	if r.entries++; r.entries%16 == 0 {
		return r.q.ctx.Err()
	}
	return nil
}

// visitItem visits an item of a scan over items.
func (r *queryRun) visitItem(position, stored []byte, fn visitor) (more bool, err error) {
	if !r.scope.holds(&r.def.key, position) {
		return true, nil
	}
	if err := r.readRecord(stored); err != nil {
		return false, err
	}
	return r.emit(&r.rec, position, position, fn)
}

// inScope reports whether an address is in the scope of the query.
func (r *queryRun) inScope(address []byte) bool {
	return r.scope.holds(&r.def.key, address) && (!r.plan.outside || r.scope.contains(address))
}

// emit calls fn if the item is live, matches and yields a row: TOP, OFFSET and LIMIT count rows.
func (r *queryRun) emit(rec *record, position, address []byte, fn visitor) (more bool, err error) {
	if r.def.expired(rec, r.e.o.Clock) {
		return true, nil
	}
	r.filtered++
	r.loaded += rec.size
	r.item.Next(rec.doc)
	if !r.plan.covered {
		if ok, err := r.item.Matches(); err != nil {
			return false, queryError(err)
		} else if !ok {
			return true, nil
		}
	}
	if !r.bound.Aggregates() {
		if ok, err := r.item.HasRow(); err != nil {
			return false, queryError(err)
		} else if !ok {
			return true, nil
		}
	}
	return fn(position, address, rec)
}

// readRecord decodes a stored value, which must not change until the next call.
func (r *queryRun) readRecord(stored []byte) (err error) {
	if r.systemSize == 0 {
		r.rec, err = r.c.readRecord(stored, &r.scratch.doc)
		return err
	}
	if r.rec, err = readHeader(stored); err != nil {
		return err
	}
	r.rec.doc = stored[headerBytes:]
	r.rec.client = len(r.rec.doc) - 1
	var digits [20]byte
	r.rec.size = r.rec.client + r.systemSize + len(strconv.AppendInt(digits[:0], r.rec.ts, 10))
	return nil
}

func (r *queryRun) visitPoints(from continuation, fn visitor) (stopped bool, err error) {
	first := 0
	if from.started {
		if len(from.after) != 4 {
			return false, invalidContinuation()
		}
		first = int(binary.BigEndian.Uint32(from.after)) + 1
	}
	for i := first; i < len(r.plan.points); i++ {
		if err := r.q.ctx.Err(); err != nil {
			return false, err
		}
		if r.plan.points[i] == nil {
			continue
		}
		r.entries++
		rec, err := r.lookup(appendItemKey(r.scratch.item[:0], r.c.no, r.plan.points[i]))
		if err != nil {
			return false, err
		}
		if rec == nil {
			continue
		}
		more, err := r.emit(rec, binary.BigEndian.AppendUint32(nil, uint32(i)), r.plan.points[i], fn)
		if err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// eachItem visits every matching item of every span.
func (r *queryRun) eachItem(fn visitor) error {
	r.ahead = maxAhead
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
	var order []byte
	err := r.eachItem(func(_, _ []byte, rec *record) (bool, error) {
		order = r.sortValues(order[:0], rec.doc)
		if err := agg.Add(rec.doc, order); err != nil {
			return false, queryError(err)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	offset, limit := r.limits()
	emitted, more := r.from.emitted, false
	var after, next []byte
	if r.from.started {
		after = r.from.after
	}
	err = agg.Rows(r.q.ctx, after, func(row, position []byte) bool {
		if limit >= 0 && emitted >= uint64(offset+limit) {
			return false
		}
		if more = r.rows >= r.size || len(r.out) >= maxPageBytes; more {
			next = position
			return false
		}
		emitted, after = emitted+1, position
		if emitted <= uint64(offset) {
			return true
		}
		if r.rows > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(r.out, row...)
		r.rows++
		return true
	})
	if err != nil {
		return queryError(err)
	}
	if more {
		return r.continueAfter(r.plan.separator(after, next), 0, emitted)
	}
	return nil
}
