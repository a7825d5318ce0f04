package query

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"
)

// Container is what a query needs to know of its container, as it is when the query begins.
type Container struct {
	*layout.Container
	ResourceID string
	Key        *partitionkey.Paths
	KeyIndexed bool // there is an index of the partition key
	Indexes    *index.Indexes
	TTL        layout.TTL
	Ranges     []*partitionkey.Range // sorted by Min, without gaps

	// Size returns the number of a range's items, and their bytes. Page may call it.
	Size func(*partitionkey.Range) (items, bytes int, err error)
}

// rangeOf returns the range of an effective partition key.
func (c *Container) rangeOf(epk []byte) *partitionkey.Range {
	return c.Ranges[partitionkey.Search(len(c.Ranges), func(i int) *partitionkey.Range { return c.Ranges[i] }, epk)]
}

// rangeByID finds a range by its id, or, for the .NET and Java SDKs, by "<container resource id>,<id>".
func (c *Container) rangeByID(id string) (*partitionkey.Range, error) {
	id = strings.TrimPrefix(id, c.ResourceID+",")
	for _, p := range c.Ranges {
		if p.ID() == id {
			return p, nil
		}
	}
	return nil, apierror.RangeGone()
}

// Query executes one page of a query on one state of the database: Open, Page, Close. It is not safe for concurrent
// use.
type Query struct {
	*Request
	c     Container
	scope scope
	plan  plan
	first *partitionkey.Range // of the page
	size  int
	limit int // length of the longest position
	from  continuation
	view  *pebble.Iterator // of the state; later iterators are clones
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
	head       int        // bytes of out before the first row
	entries    int        // index entries and items read
	postings   int        // of full-text indexes, read
	texts      *itemTexts // of the current item; nil if the query searches none
	values     [][]byte   // if it searches: see valuePrefixes
	seeks      int
	filtered   int // items to which WHERE was applied
	loaded     int // their bytes
	returned   int // bytes of the items of rows
}

// Page is one page of rows.
type Page struct {
	Body         []byte // the list, in the protocol's format
	Rows         int
	Charge       float64
	Continuation string   // of the next page; "" for none
	Header       []string // metrics that the client asked for: alternating canonical names and values
}

// On returns the query over a container, before it has read anything.
func (r *Request) On(c Container) (*Query, error) {
	own := *r
	own.bound = r.bound.WithTexts(c.Indexes.Analyzer)
	r = &own
	q := &Query{Request: r, c: c, item: r.bound.Evaluator()}
	var err error
	if q.size, err = PageSize(r.header); err != nil {
		return nil, err
	}
	if q.limit, err = positionLimit(r.header); err != nil {
		return nil, err
	}
	if err := q.resolveScope(); err != nil {
		return nil, err
	}
	if r.bound.Ranks() {
		return nil, rankError(r.bound, r.text)
	}
	// after resolveScope: a client that has to merge partitions sends its own
	if token := r.header.Get("X-Ms-Continuation"); token != "" {
		if q.from, err = decodeContinuation(token); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Scope returns the ranges that have the items of the query.
func (r *Query) Scope() []*partitionkey.Range { return r.scope.ranges }

// Open chooses the plan, and lets the query read a state of the database, which is not used afterwards. The query
// then needs no lock: splits and other changes of the container neither wait for it nor affect it.
func (r *Query) Open(db pebble.Reader) (err error) {
	if r.view, err = db.NewIter(nil); err != nil {
		return err
	}
	if r.bound.Searches() && r.c.Indexes.HasTexts() {
		r.texts = &itemTexts{r: r}
		if r.scope.exact {
			r.texts.low, r.texts.high = r.scope.prefix, layout.PrefixEnd(r.scope.prefix)
		}
		r.item.UseIndex(r.texts)
	}
	if err := r.choosePlan(); err != nil {
		return err
	}
	if r.from.plan != 0 && (r.from.plan != r.plan.order() || r.from.fingerprint != r.fingerprint()) {
		return invalidContinuation()
	}
	at, err := r.currentSpan()
	if err != nil {
		return err
	}
	r.first = r.plan.spans[at].p
	return nil
}

// Range returns the range of the page, or the first of several.
func (r *Query) Range() *partitionkey.Range { return r.first }

// Reads returns the ranges that the page reads.
func (r *Query) Reads() []*partitionkey.Range {
	if r.plan.readsAllRanges() {
		return r.scope.ranges
	}
	return []*partitionkey.Range{r.first}
}

// Page reads the page.
func (r *Query) Page(ctx context.Context) (*Page, error) {
	began := time.Now()
	r.scratch = layout.GetScratch()
	defer r.scratch.Release()
	defer r.leaveLong()
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	if r.texts != nil && r.texts.err != nil {
		return nil, r.texts.err
	}
	m := metrics{retrieved: r.filtered, loaded: r.loaded, rows: r.rows, output: len(r.out) - r.head - max(0, r.rows-1)}
	page := &Page{Body: r.scratch.Take(AppendListEnd(r.out, r.rows)), Rows: r.rows}
	var err error
	if page.Charge, err = r.charge(); err != nil {
		return nil, err
	}
	if r.next != nil {
		r.next.fingerprint = r.fingerprint()
		page.Continuation = r.next.encode()
	}
	m.took = time.Since(began)
	page.Header = m.header(r.header)
	if r.is("X-Ms-Cosmos-Populateindexmetrics") {
		page.Header = append(page.Header, "X-Ms-Cosmos-Index-Utilization",
			base64.StdEncoding.EncodeToString([]byte(r.indexMetrics())))
	}
	return page, nil
}

// Close releases the state of the database.
func (r *Query) Close() error {
	var err error
	if r.items != nil && r.items != r.view {
		err = r.items.Close()
	}
	if r.texts != nil {
		err = errors.Join(err, r.texts.close())
	}
	if r.view != nil {
		err = errors.Join(err, r.view.Close())
	}
	return err
}

// currentSpan returns the span of a continuation. After a split that is the child with the
// position, or the first child if the position is at the start.
func (r *Query) currentSpan() (int, error) {
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
	if slices.ContainsFunc(r.c.Ranges, func(p *partitionkey.Range) bool { return p.Descends(r.from.span) }) {
		return 0, apierror.RangeGone() // split: the client has to query the children
	}
	return 0, invalidContinuation() // belongs to another range
}

// key returns the key of a position in the span.
func (s *span) key(position []byte) []byte {
	return append(append(make([]byte, 0, 128), s.low[:min(len(s.low), positionOffset)]...), position...)
}

// positionOffset is the length of the kind and container in a key, which positions omit.
const positionOffset = layout.AddressOffset

// evaluate moves the evaluation to an item.
func (r *Query) evaluate(address, doc []byte) {
	if r.texts != nil {
		r.texts.address = address
	}
	r.item.Next(doc)
}

// iterator returns an iterator in the view of the run. The first one is closed at the end of the
// run.
func (r *Query) iterator(low, high []byte) (*pebble.Iterator, error) {
	if !r.taken {
		r.taken = true
		r.view.SetBounds(low, high)
		return r.view, nil
	}
	return r.view.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: low, UpperBound: high}})
}

// limits returns the rows to skip and the most rows to return, -1 for no limit.
func (r *Query) limits() (offset, limit int) {
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

// run produces out and next.
func (r *Query) run(ctx context.Context) error {
	r.out = AppendListStart(r.scratch.Value[:0], "Documents", r.c.ResourceID)
	r.head = len(r.out)
	if names, all := r.bound.Reads(); !all && !slices.ContainsFunc(names, layout.IsSystemProperty) {
		var none layout.Record
		none.Finish(r.c.Container, []byte("{}"), nil)
		r.systemSize = none.Size - none.Client - len("0")
	}
	switch {
	case r.plan.kind&planAggregated != 0:
		return r.runAggregation(ctx)
	case r.plan.kind&planSorted != 0:
		return r.runSorted(ctx)
	}
	return r.runStream(ctx)
}

// runStream returns items in the order of the plan until the page is full.
func (r *Query) runStream(ctx context.Context) error {
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
	// read one item more to learn whether there is a next page
	lookahead := r.plan.composite != nil || r.plan.kind == planPoints
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
	stopped, err := r.visit(ctx, &r.plan.spans[at], r.from, func(position, _ []byte, rec *layout.Record) (bool, error) {
		if full {
			last = r.plan.separator(last, position, r.limit)
			return false, nil
		}
		if emitted < uint64(offset) {
			emitted++
			setLast(position)
			return end < 0 || emitted < uint64(end), nil
		}
		if err := r.addRow(ctx, rec.Doc); err != nil {
			return false, err
		}
		emitted++
		setLast(position)
		if end >= 0 && emitted >= uint64(end) {
			return false, nil
		}
		full = r.rows >= r.size || len(r.out) >= MaxPageBytes
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
func (r *Query) addRow(ctx context.Context, doc []byte) error {
	if len(r.out)+len(doc) >= longPage && !r.long {
		if err := r.enterLong(ctx); err != nil {
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
			return apierror.Query(err)
		}
	}
	r.rows++
	r.returned += len(doc)
	return nil
}

// longPage is the size in bytes from which a page is long. As many queries build long pages at a time as there are
// processors: more at a time would not be faster, and take as much more memory.
const longPage = 128 << 10

// enterLong waits until the query may build a long page.
func (r *Query) enterLong(ctx context.Context) error {
	select {
	case r.engine.longPages <- struct{}{}:
		r.long = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leaveLong ends what enterLong began.
func (r *Query) leaveLong() {
	if r.long {
		<-r.engine.longPages
		r.long = false
	}
}

// continueAfter sets the continuation of the next page: after a position in a span.
func (r *Query) continueAfter(position []byte, span int, emitted uint64) error {
	if len(position) > r.limit {
		return apierror.BadRequest(
			"The query cannot be continued: the position at the end of the page is longer than %d bytes, "+
				"which is all that a continuation token of the size in "+
				"'x-ms-documentdb-responsecontinuationtokenlimitinkb' has room for.", r.limit)
	}
	r.next = r.plan.continuation(span)
	r.next.emitted, r.next.started, r.next.after = emitted, true, position
	return nil
}

// charge returns the charge of the page. Without an index on the partition key, the service finds
// the items of a logical partition by a scan of the physical one, unless the query names their ids.
func (r *Query) charge() (float64, error) {
	entries, loaded := r.entries, r.loaded
	if r.scope.exact && !r.c.KeyIndexed && r.plan.kind.withoutFlags() != planPoints {
		items, bytes, err := r.c.Size(r.scope.ranges[0])
		if err != nil {
			return 0, err
		}
		entries, loaded = max(entries, items), max(loaded, bytes)
	}
	if r.texts != nil { // others than the returned items are decided by postings
		loaded = min(loaded, r.returned)
	}
	if r.bound.Aggregates() { // the service computes them from the index
		loaded = 0
	}
	return charge.Query(entries+r.postings, r.seeks, r.rows, loaded), nil
}
