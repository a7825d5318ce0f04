package emulator

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// queryRun executes one page of a query on one state of the database.
type queryRun struct {
	e     *Engine
	q     *request
	c     *container
	def   *definition
	bound *sql.Bound
	text  string
	scope scope
	plan  plan
	size  int
	limit int // length of the longest position
	from  continuation
	state view
	view  *pebble.Iterator // of state; later iterators are clones
	taken bool             // view is in use
	items *pebble.Iterator // for lookups; nil until the first

	item       *sql.Evaluator // at the current item
	rec        layout.Record  // the current item; doc is in scratch or in Pebble's memory
	ahead      int            // entries that fill the page if all match
	systemSize int            // unless 0: the query reads no system properties; their size without _ts
	scratch    *layout.Scratch
	out        []byte // the response body so far
	long       bool   // it has longPage bytes or more
	rows       int
	next       *continuation
	head       int // bytes of out before the first row
	entries    int // index entries and items read
	seeks      int
	filtered   int // items to which WHERE was applied
	loaded     int // their bytes
}

// runQuery serves a page of a query over items.
func (e *Engine) runQuery(q *request, c *container, b *sql.Bound, text string) (resp *response, err error) {
	began := time.Now()
	r := queryRun{e: e, q: q, c: c, bound: b, text: text, item: b.Evaluator(), scratch: layout.GetScratch()}
	defer r.scratch.Release()
	if r.size, err = pageSize(q); err != nil {
		return nil, err
	}
	if r.limit, err = positionLimit(q); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, err := r.begin()
	if err != nil {
		return nil, err
	}
	resp = (&response{container: c, partition: p}).at(e, r.state.at(p))
	partitions := []*partition{p}
	if r.plan.readsAllRanges() {
		partitions = r.scope.ranges
		resp.payers = partitions
	}
	if err := e.admit(q, partitions...); err != nil {
		return resp, err
	}
	for _, one := range partitions {
		if err := checkSession(one, one.applied.Load(), q.get("X-Ms-Session-Token")); err != nil {
			return resp, err
		}
	}
	if err := r.run(); err != nil {
		return resp, err
	}
	for _, p := range r.scope.ranges {
		if err := e.durable.waitSynced(q.ctx, p, p.applied.Load()); err != nil {
			return nil, err
		}
	}
	metrics := queryMetrics{retrieved: r.filtered, loaded: r.loaded, rows: r.rows, output: len(r.out) - r.head - max(0, r.rows-1)}
	resp.status, resp.body = http.StatusOK, r.scratch.Take(appendPageEnd(r.out, r.rows))
	resp.items, resp.counted = r.rows, true
	if resp.charge, err = r.charge(); err != nil {
		return nil, err
	}
	if r.next != nil {
		r.next.fingerprint = r.fingerprint()
		resp.continuation = r.next.encode()
	}
	metrics.took = time.Since(began)
	resp.extra = metrics.header(q)
	if q.is("X-Ms-Cosmos-Populateindexmetrics") {
		resp.extra = append(resp.extra, "X-Ms-Cosmos-Index-Utilization", base64.StdEncoding.EncodeToString([]byte(r.indexMetrics())))
	}
	return resp, nil
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
		return nil, apierror.OwnerNotFound()
	}
	r.def = r.c.def
	if err := r.resolveScope(); err != nil {
		return nil, err
	}
	var err error
	if token := r.q.get("X-Ms-Continuation"); token != "" { // after resolveScope: a client that has to merge partitions sends its own
		if r.from, err = decodeContinuation(token); err != nil {
			return nil, err
		}
	}
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
	if r.from.plan != 0 && (r.from.plan != r.plan.order() || r.from.fingerprint != r.fingerprint()) {
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
		if !s.p.Descends(r.from.span) {
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
	if slices.ContainsFunc(r.c.ranges, func(p *partition) bool { return p.Descends(r.from.span) }) {
		return 0, apierror.RangeGone() // split: the client has to query the children
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
	if r.long {
		<-r.e.longPages
	}
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
	r.out = appendPageStart(r.scratch.Value[:0], "Documents", r.c.rid)
	r.head = len(r.out)
	if names, all := r.bound.Reads(); !all && !slices.ContainsFunc(names, layout.IsSystemProperty) {
		var none layout.Record
		none.Finish(&r.c.Container, []byte("{}"), nil)
		r.systemSize = none.Size - none.Client - len("0")
	}
	switch {
	case r.plan.kind&planAggregated != 0:
		return r.runAggregation()
	case r.plan.kind&planSorted != 0:
		return r.runSorted()
	}
	return r.runStream()
}

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
	stopped, err := r.visit(&r.plan.spans[at], r.from, func(position, _ []byte, rec *layout.Record) (bool, error) {
		if full {
			last = r.plan.separator(last, position, r.limit)
			return false, nil
		}
		if emitted < uint64(offset) {
			emitted++
			setLast(position)
			return end < 0 || emitted < uint64(end), nil
		}
		if err := r.addRow(rec.Doc); err != nil {
			return false, err
		}
		emitted++
		setLast(position)
		if end >= 0 && emitted >= uint64(end) {
			return false, nil
		}
		full = r.rows >= r.size || len(r.out) >= maxPageBytes
		return !full || lookahead || len(last) > r.limit, nil
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
	if len(r.out)+len(doc) >= longPage && !r.long {
		if err := r.enterLong(); err != nil {
			return err
		}
	}
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

// longPage is the size in bytes from which a page is long. As many queries build long pages at a time as there are
// processors: more at a time would not be faster, and take as much more memory.
const longPage = 128 << 10

// enterLong waits until the query may build a long page.
func (r *queryRun) enterLong() error {
	select {
	case r.e.longPages <- struct{}{}:
		r.long = true
		return nil
	case <-r.q.ctx.Done():
		return r.q.ctx.Err()
	}
}

// continueAfter sets the continuation of the next page: after a position in a span.
func (r *queryRun) continueAfter(position []byte, span int, emitted uint64) error {
	if len(position) > r.limit {
		return apierror.BadRequest("The query cannot be continued: the position at the end of the page is longer than %d bytes, which is all that "+
			"a continuation token of the size in 'x-ms-documentdb-responsecontinuationtokenlimitinkb' has room for.", r.limit)
	}
	r.next = r.plan.continuation(span)
	r.next.emitted, r.next.started, r.next.after = emitted, true, position
	return nil
}

// charge returns the charge of the page. Without an index on the partition key, the service finds
// the items of a logical partition by a scan of the physical one, unless the query names their ids.
func (r *queryRun) charge() (float64, error) {
	entries, loaded := r.entries, r.loaded
	if r.scope.exact && !r.def.keyIndexed && r.plan.kind.withoutFlags() != planPoints {
		all, err := r.e.sizeOfPartition(r.c, r.scope.ranges[0])
		if err != nil {
			return 0, err
		}
		entries, loaded = max(entries, all.items), max(loaded, all.bytes)
	}
	if r.bound.Aggregates() { // the service computes them from the index
		loaded = 0
	}
	return charge.Query(entries, r.seeks, r.rows, loaded), nil
}
