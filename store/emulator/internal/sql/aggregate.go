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
)

var aggregateKinds = map[string]aggregateKind{
	"COUNT": aggCount, "SUM": aggSum, "MIN": aggMin, "MAX": aggMax, "AVG": aggAvg,
}

// aggregateExpr stands in a row for the result of an aggregate.
type aggregateExpr struct {
	kind  aggregateKind
	arg   expr
	index int
}

func (a *aggregateExpr) eval(e *env) Value { return e.aggs[a.index] }

// keyExpr stands in a row for an expression of GROUP BY.
type keyExpr struct{ index int }

func (k *keyExpr) eval(e *env) Value { return e.keys[k.index] }

// grouping finds out what rows are made of if they are made of several items:
// nothing outside the aggregates may depend on an item, save what GROUP BY names.
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

// tally is the running state of one aggregate.
type tally struct {
	count int
	sum   float64
	best  Value
	bad   bool // met a value that makes the result undefined
}

// add takes in one value; undefined ones do not count.
func (t *tally) add(kind aggregateKind, v Value) {
	if v.kind == Undefined {
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

func (t *tally) result(kind aggregateKind) Value {
	switch {
	case kind == aggCount:
		return number(float64(t.count))
	case t.bad:
		return Value{}
	case kind == aggSum:
		return number(t.sum)
	case kind == aggAvg:
		return number(t.sum / float64(t.count)) // of nothing: undefined
	}
	return t.best
}

// group is a row of an Aggregation.
type group struct {
	place   []byte // among the rows: see appendPlace
	keys    []Value
	tallies []tally
	row     []byte // of DISTINCT without groups
}

// Aggregates reports whether rows come from an Aggregation instead of Project:
// the query has aggregates, GROUP BY or DISTINCT.
func (b *Bound) Aggregates() bool { return b.q.grouped || b.q.distinct }

// maxKept is how many bytes the groups and rows of an Aggregation may take. What
// each takes beside its texts is about groupBytes and so on.
const (
	maxKept    = 64 << 20
	groupBytes = 250
	tallyBytes = 80
	valueBytes = 48
)

// Aggregation makes rows of many documents. What it keeps is bounded. It is not
// safe for concurrent use.
type Aggregation struct {
	b      *Bound
	groups []*group
	byKey  map[string]*group
	key    []byte // scratch
	place  []byte // scratch
	kept   int    // bytes
	err    error
}

// NewAggregation returns an empty Aggregation.
func (b *Bound) NewAggregation() *Aggregation {
	a := &Aggregation{b: b, byKey: map[string]*group{}}
	if b.q.grouped && len(b.q.groupBy) == 0 {
		a.group(nil, nil, nil) // aggregates have a row even of nothing
	}
	return a
}

// Add takes in one document that Matches. Rows come in the order of the lowest
// order that one of their documents has, and then of their keys. It keeps none of
// the bytes. The error, if any, is an *Error: a document takes too much, or all of
// them do.
func (a *Aggregation) Add(doc, order []byte) error {
	e := newEnv(a.b, doc)
	a.add(e, order)
	if err := e.release(); err != nil {
		return err
	}
	return a.err
}

func (a *Aggregation) add(e *env, order []byte) {
	q := a.b.q
	if !q.grouped {
		if row := appendRow(e, nil, q.row); len(row) > 0 && e.err == nil && e.spend("DISTINCT", ValueOf(row).comparing()) {
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
		t := &g.tallies[i]
		had := len(t.best.text)
		t.add(agg.kind, agg.arg.eval(e))
		a.keep(len(t.best.text) - had)
	}
}

// maxPlaceKey is how much of a group's key is in its place.
const maxPlaceKey = 256

// appendPlace appends where a group comes among the rows: behind the groups of a
// lower order, and among those of one order by its key. It does not depend on the
// other groups, so that a client which goes on behind it misses none and gets none
// twice, whatever was written meanwhile. A long key is cut and completed by its hash.
func appendPlace(dst, order, key []byte) []byte {
	dst = append(dst, order...)
	if len(key) <= maxPlaceKey {
		return append(dst, key...)
	}
	sum := sha256.Sum256(key)
	return append(append(dst, key[:maxPlaceKey]...), sum[:]...)
}

// group returns the group under the key. If there is none, it makes one.
func (a *Aggregation) group(order []byte, keys []Value, row []byte) *group {
	g := a.byKey[string(a.key)]
	if g != nil && len(order) == 0 {
		return g
	}
	a.place = appendPlace(a.place[:0], order, a.key)
	if g != nil {
		if bytes.Compare(a.place, g.place) < 0 {
			a.keep(len(a.place) - len(g.place))
			g.place = bytes.Clone(a.place)
		}
		return g
	}
	g = &group{place: bytes.Clone(a.place), keys: keys, tallies: make([]tally, len(a.b.q.aggregates)), row: row}
	a.keep(groupBytes + len(a.key) + len(a.place) + len(row) + tallyBytes*len(g.tallies) + valueBytes*len(keys))
	for i, k := range keys {
		keys[i] = k.clone()
		a.keep(len(k.text))
	}
	a.byKey[string(a.key)] = g
	a.groups = append(a.groups, g)
	return g
}

func (a *Aggregation) keep(n int) {
	if a.kept += n; a.kept > maxKept && a.err == nil {
		a.err = errorAt(0, a.b.q.end, "The groups or distinct rows of the query take more than %d bytes", maxKept)
	}
}

// Rows calls fn for each row behind a place, or for all of them if after is nil,
// until fn returns false. A row is valid only during the call, its place for ever.
// Top and OffsetLimit are the caller's. The error, if any, is an *Error, as a row takes
// too much, or that of ctx, which has ended.
func (a *Aggregation) Rows(ctx context.Context, after []byte, fn func(row, place []byte) bool) error {
	slices.SortFunc(a.groups, func(g, h *group) int { return bytes.Compare(g.place, h.place) })
	seen := map[string]struct{}{} // of DISTINCT beside groups: rows of those before the place, too
	var room []byte
	for _, g := range a.groups {
		behind := after == nil || bytes.Compare(g.place, after) > 0
		if !behind && !(a.b.q.grouped && a.b.q.distinct) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		row := g.row
		if a.b.q.grouped {
			var err error
			if room, err = a.groupRow(room[:0], g, seen); err != nil {
				return err
			}
			row = room
		}
		if len(row) > 0 && behind && !fn(row, g.place) {
			return nil
		}
	}
	return nil
}

// groupRow appends the row of a group: nothing if it is undefined, or, under
// DISTINCT, has been seen.
func (a *Aggregation) groupRow(dst []byte, g *group, seen map[string]struct{}) ([]byte, error) {
	e := newEnv(a.b, nil)
	e.keys = g.keys
	for i, agg := range a.b.q.aggregates {
		e.aggs = append(e.aggs, g.tallies[i].result(agg.kind))
	}
	row := appendRow(e, dst, a.b.q.row)
	if a.b.q.distinct && len(row) > 0 && e.spend("DISTINCT", ValueOf(row).comparing()) {
		a.key = AppendKey(a.key[:0], ValueOf(row))
		if _, ok := seen[string(a.key)]; ok {
			row = row[:0]
		} else {
			a.keep(len(a.key))
			seen[string(a.key)] = struct{}{}
		}
	}
	if err := e.release(); err != nil {
		return nil, err
	}
	return row, a.err
}
