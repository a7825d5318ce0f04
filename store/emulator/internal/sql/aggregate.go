package sql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"reflect"
	"slices"
)

type aggregateKind uint8

const (
	aggCount aggregateKind = iota
	aggSum
	aggMin
	aggMax
	aggAvg
	aggCountIf
)

var aggregateKinds = map[string]aggregateKind{
	"COUNT": aggCount, "SUM": aggSum, "MIN": aggMin, "MAX": aggMax, "AVG": aggAvg,
	"COUNTIF": aggCountIf,
}

// aggregateExpr is the result of an aggregate in a row.
type aggregateExpr struct {
	kind  aggregateKind
	arg   expr
	index int
}

func (a *aggregateExpr) eval(e *env) Value { return e.aggs[a.index] }

// keyExpr is the value of a GROUP BY expression in a row.
type keyExpr struct{ index int }

func (k *keyExpr) eval(e *env) Value { return e.keys[k.index] }

// grouping rewrites the row of a query with GROUP BY or aggregates: outside aggregates it may only
// use expressions of GROUP BY.
func (p *parser) grouping() {
	q := p.q
	q.grouped = len(q.groupBy) > 0 || len(q.aggregates) > 0
	if !q.grouped {
		return
	}
	q.row = rewrite(q.row, func(x expr) expr {
		if a, ok := x.(*aggregateExpr); ok {
			return a
		}
		for i, by := range q.groupBy {
			if reflect.DeepEqual(x, by) {
				return &keyExpr{i}
			}
		}
		if path, ok := x.(*pathExpr); ok {
			if len(path.steps) == 0 {
				panic(errorAt(path.pos, path.end, "The whole item beside GROUP BY or an aggregate is not supported"))
			}
			panic(errorAt(path.pos, path.end, "The property '%s' is neither in an aggregate nor in GROUP BY",
				p.text[path.pos:path.end]))
		}
		return nil
	})
}

// accumulator is the state of one aggregate in one group.
type accumulator struct {
	count int
	sum   float64
	best  Value
	bad   bool // a value makes the result undefined
}

// add adds a value. Undefined values do not count.
func (t *accumulator) add(kind aggregateKind, v Value) {
	if v.kind == Undefined || kind == aggCountIf && !(v.kind == Bool && v.yes) {
		return
	}
	t.count++
	switch kind {
	case aggSum, aggAvg:
		t.bad = t.bad || v.kind != Number
		t.sum += v.num
	case aggMin, aggMax:
		t.bad = t.bad || v.kind >= Array
		if t.bad {
			return
		}
		c := 0
		if t.count > 1 {
			c = Compare(v, t.best)
		}
		if t.count == 1 || kind == aggMin && c < 0 || kind == aggMax && c > 0 {
			t.best = v.clone()
		}
	}
}

func (t *accumulator) result(kind aggregateKind) Value {
	switch {
	case kind == aggCount || kind == aggCountIf:
		return number(float64(t.count))
	case t.bad:
		return Value{}
	case kind == aggSum:
		return number(t.sum)
	case kind == aggAvg:
		return number(t.sum / float64(t.count)) // 0/0 is undefined
	}
	return t.best
}

// group is a group of an Aggregation, or a distinct row.
type group struct {
	position     []byte // see appendPosition
	keys         []Value
	accumulators []accumulator
	row          []byte // of DISTINCT without groups
}

// Aggregates reports whether rows come from an Aggregation instead of Project: the query has
// aggregates, GROUP BY or DISTINCT.
func (b *Bound) Aggregates() bool { return b.q.grouped || b.q.distinct }

// maxAggregation bounds the memory of an Aggregation, in bytes. The others estimate what a group,
// accumulator or value takes besides its text.
const (
	maxAggregation   = 64 << 20
	groupBytes       = 250
	accumulatorBytes = 80
	valueBytes       = 48
)

// Aggregation computes groups or distinct rows. Its memory is bounded. It is not safe for
// concurrent use.
type Aggregation struct {
	b        *Bound
	groups   []*group
	byKey    map[string]*group
	key      []byte // scratch
	position []byte // scratch
	used     int    // bytes of memory, estimated
	index    TextIndex
	err      error
}

// NewAggregation returns an empty Aggregation.
func (b *Bound) NewAggregation() *Aggregation {
	a := &Aggregation{b: b, byKey: map[string]*group{}}
	if b.q.grouped && len(b.q.groupBy) == 0 {
		a.group(nil, nil, nil) // aggregates without GROUP BY always have a row
	}
	return a
}

// UseIndex makes an index answer for the texts of the documents.
func (a *Aggregation) UseIndex(x TextIndex) { a.index = x }

// Add adds a document that Matches. order is its encoded ORDER BY values: rows are ordered by the
// lowest order of their documents, then by their keys. It copies what it keeps. The error, if any,
// is an *Error: a limit is exceeded.
func (a *Aggregation) Add(doc, order []byte) error {
	e := newEnv(a.b, doc)
	e.index = a.index
	a.add(e, order)
	if err := e.release(); err != nil {
		return err
	}
	return a.err
}

func (a *Aggregation) add(e *env, order []byte) {
	q := a.b.q
	if !q.grouped {
		if row := appendRow(e, nil, q.row); len(row) > 0 && e.err == nil &&
			e.spend("DISTINCT", ValueOf(row).comparing()) {
			a.key = AppendKey(a.key[:0], ValueOf(row))
			a.group(order, nil, row)
		}
		return
	}
	keys := make([]Value, len(q.groupBy))
	a.key = a.key[:0]
	for i, x := range q.groupBy {
		keys[i] = x.eval(e)
		if !e.spend("GROUP BY", keys[i].comparing()) {
			return
		}
		a.key = AppendKey(a.key, keys[i])
	}
	g := a.group(order, keys, nil)
	for i, agg := range q.aggregates {
		t := &g.accumulators[i]
		had := len(t.best.text)
		t.add(agg.kind, agg.arg.eval(e))
		a.use(len(t.best.text) - had)
	}
}

// maxPositionKey is how many bytes of a group's key its position contains.
const maxPositionKey = 256

// appendPosition appends the position of a group among the rows: its order, then its key; a long key
// is cut and completed by its hash. It does not depend on other groups, so a client that continues
// after a position misses no row and gets none twice, despite concurrent writes.
func appendPosition(dst, order, key []byte) []byte {
	dst = append(dst, order...)
	if len(key) <= maxPositionKey {
		return append(dst, key...)
	}
	sum := sha256.Sum256(key)
	return append(append(dst, key[:maxPositionKey]...), sum[:]...)
}

// group returns the group of the current key, creating it if necessary.
func (a *Aggregation) group(order []byte, keys []Value, row []byte) *group {
	g := a.byKey[string(a.key)]
	if g != nil && len(order) == 0 {
		return g
	}
	a.position = appendPosition(a.position[:0], order, a.key)
	if g != nil {
		if bytes.Compare(a.position, g.position) < 0 {
			a.use(len(a.position) - len(g.position))
			g.position = bytes.Clone(a.position)
		}
		return g
	}
	g = &group{position: bytes.Clone(a.position), keys: keys, accumulators: make([]accumulator, len(a.b.q.aggregates)),
		row: row}
	a.use(groupBytes + len(a.key) + len(a.position) + len(row) +
		accumulatorBytes*len(g.accumulators) + valueBytes*len(keys))
	for i, k := range keys {
		keys[i] = k.clone()
		a.use(len(k.text))
	}
	a.byKey[string(a.key)] = g
	a.groups = append(a.groups, g)
	return g
}

// use counts n bytes of memory, and fails the Aggregation beyond maxAggregation.
func (a *Aggregation) use(n int) {
	if a.used += n; a.used > maxAggregation && a.err == nil {
		a.err = errorAt(0, a.b.q.end, "The groups or distinct rows of the query take more than %d bytes",
			maxAggregation)
	}
}

// Rows calls fn for each row after a position (nil: all rows) until fn returns false. The row is valid
// only during the call; the position stays valid. The caller applies Top and OffsetLimit. The error,
// if any, is an *Error, or that of ctx.
func (a *Aggregation) Rows(ctx context.Context, after []byte, fn func(row, position []byte) bool) error {
	slices.SortFunc(a.groups, func(g, h *group) int { return bytes.Compare(g.position, h.position) })
	seen := map[string]struct{}{} // with DISTINCT and groups: rows before after, too
	var buf []byte
	for _, g := range a.groups {
		beyond := after == nil || bytes.Compare(g.position, after) > 0
		if !beyond && !(a.b.q.grouped && a.b.q.distinct) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		row := g.row
		if a.b.q.grouped {
			var err error
			if buf, err = a.groupRow(buf[:0], g, seen); err != nil {
				return err
			}
			row = buf
		}
		if len(row) > 0 && beyond && !fn(row, g.position) {
			return nil
		}
	}
	return nil
}

// groupRow appends the row of a group: nothing if it is undefined, or a duplicate under DISTINCT.
func (a *Aggregation) groupRow(dst []byte, g *group, seen map[string]struct{}) ([]byte, error) {
	e := newEnv(a.b, nil)
	e.keys = g.keys
	for i, agg := range a.b.q.aggregates {
		e.aggs = append(e.aggs, g.accumulators[i].result(agg.kind))
	}
	row := appendRow(e, dst, a.b.q.row)
	if a.b.q.distinct && len(row) > 0 && e.spend("DISTINCT", ValueOf(row).comparing()) {
		a.key = AppendKey(a.key[:0], ValueOf(row))
		if _, ok := seen[string(a.key)]; ok {
			row = row[:0]
		} else {
			a.use(len(a.key))
			seen[string(a.key)] = struct{}{}
		}
	}
	if err := e.release(); err != nil {
		return nil, err
	}
	return row, a.err
}
