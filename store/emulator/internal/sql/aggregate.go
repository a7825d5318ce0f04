package sql

import "reflect"

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

type group struct {
	keys    []Value
	tallies []tally
}

// Aggregates reports whether rows come from an Aggregation instead of Project:
// the query has aggregates, GROUP BY or DISTINCT.
func (b *Bound) Aggregates() bool { return b.q.grouped || b.q.distinct }

// Aggregation makes rows of many documents. It is not safe for concurrent use.
type Aggregation struct {
	b      *Bound
	groups []*group
	byKey  map[string]*group
	rows   [][]byte // of DISTINCT without groups
	seen   map[string]struct{}
	key    []byte
}

// NewAggregation returns an empty Aggregation.
func (b *Bound) NewAggregation() *Aggregation {
	a := &Aggregation{b: b, byKey: map[string]*group{}, seen: map[string]struct{}{}}
	if b.q.grouped && len(b.q.groupBy) == 0 {
		a.group(nil) // aggregates have a row even of nothing
	}
	return a
}

// Add takes in one document that Matches. Documents come in the order of OrderBy.
// It keeps none of doc's bytes.
func (a *Aggregation) Add(doc []byte) {
	q := a.b.q
	e := newEnv(a.b, doc)
	defer e.release()
	if !q.grouped {
		if row := appendExpr(e, nil, q.row); len(row) > 0 && a.first(row) {
			a.rows = append(a.rows, row)
		}
		return
	}
	var g *group
	if len(q.groupBy) == 0 {
		g = a.groups[0]
	} else {
		keys := make([]Value, len(q.groupBy))
		for i, x := range q.groupBy {
			keys[i] = x.eval(e)
		}
		g = a.group(keys)
	}
	for i, agg := range q.aggregates {
		g.tallies[i].add(agg.kind, agg.arg.eval(e))
	}
}

// group returns the group with these keys.
func (a *Aggregation) group(keys []Value) *group {
	a.key = a.key[:0]
	for _, k := range keys {
		a.key = AppendKey(a.key, k)
	}
	g := a.byKey[string(a.key)]
	if g == nil {
		for i := range keys {
			keys[i] = keys[i].clone()
		}
		g = &group{keys: keys, tallies: make([]tally, len(a.b.q.aggregates))}
		a.byKey[string(a.key)] = g
		a.groups = append(a.groups, g)
	}
	return g
}

// first reports whether DISTINCT has not met the row yet.
func (a *Aggregation) first(row []byte) bool {
	a.key = AppendKey(a.key[:0], valueOf(row))
	if _, ok := a.seen[string(a.key)]; ok {
		return false
	}
	a.seen[string(a.key)] = struct{}{}
	return true
}

// Results returns the rows: groups in the order of their first documents, each
// row of DISTINCT where it came first. Top and OffsetLimit are the caller's.
func (a *Aggregation) Results() [][]byte {
	if !a.b.q.grouped {
		return a.rows
	}
	clear(a.seen)
	rows := make([][]byte, 0, len(a.groups))
	e := newEnv(a.b, nil)
	defer e.release()
	for _, g := range a.groups {
		e.keys = g.keys
		e.aggs = e.aggs[:0]
		for i, agg := range a.b.q.aggregates {
			e.aggs = append(e.aggs, g.tallies[i].result(agg.kind))
		}
		row := appendExpr(e, nil, a.b.q.row)
		if len(row) > 0 && (!a.b.q.distinct || a.first(row)) {
			rows = append(rows, row)
		}
	}
	return rows
}
