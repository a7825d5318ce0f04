package sql

import (
	"math"
	"slices"
	"strings"
)

// atom is a restriction that a part of WHERE puts on one property, for planning.
type atom struct {
	op     atomOp
	path   Path
	list   []expr // literals and parameters
	escape rune   // of a pattern
}

type atomOp uint8

const (
	opaque   atomOp = iota // no use for planning
	contains               // ARRAY_CONTAINS: the array has list[0]
	pins                   // = or IN: one of list
	less                   // < list[0], and so on
	lessEqual
	greater
	greaterEqual
	startsWith
	matches // LIKE
)

var atomOps = [...]atomOp{opEqual: pins, opLess: less, opLessEqual: lessEqual,
	opGreater: greater, opGreaterEqual: greaterEqual}

// finish analyses a parsed query.
func (q *Query) finish() {
	if q.searches {
		q.besides = q.readsBesides()
	}
	if q.where == nil {
		return
	}
	q.filterPaths, q.textConditions = filterPaths(q.where), textConditions(q.where)
	if o, ok := q.where.(*orExpr); ok {
		for _, c := range o.list {
			q.branches = append(q.branches, conjuncts(c))
		}
		q.conjuncts = []atom{disjunction(q.branches)}
	} else {
		q.conjuncts = conjuncts(q.where)
		q.branches = [][]atom{q.conjuncts}
	}
	q.where = asCond(rewrite(q.where, fastCompare))
}

func filterPaths(where cond) []Path {
	var paths []Path
	seen := map[string]bool{}
	rewrite(where, func(x expr) expr {
		p, ok := x.(*pathExpr)
		if !ok {
			return nil
		}
		var path Path
		for _, s := range p.steps {
			if s.index >= 0 {
				break
			}
			path = append(path, s.name)
		}
		if name := strings.Join(path, "\x00"); path != nil && !seen[name] {
			seen[name] = true
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// fastCompare replaces comparisons by pathCompare where possible.
func fastCompare(x expr) expr {
	c, ok := x.(*compareExpr)
	if !ok {
		return nil
	}
	op, l, r := c.op, c.l, c.r
	if isOperand(l) {
		op, l, r = op.flip(), r, l
	}
	path, ok := l.(*pathExpr)
	if !ok || !isOperand(r) {
		return nil
	}
	quick := &pathCompare{op: op, path: path, param: -1}
	if p, ok := r.(*paramExpr); ok {
		quick.param = p.index
	} else {
		quick.lit = r.(*constExpr).v
	}
	return quick
}

// conjuncts returns the atoms of an AND.
func conjuncts(c cond) []atom {
	and, ok := c.(*andExpr)
	if !ok {
		return []atom{atomOf(c)}
	}
	atoms := make([]atom, 0, len(and.list))
	for _, c := range and.list {
		if inner, ok := c.(*andExpr); ok {
			atoms = append(atoms, conjuncts(inner)...)
		} else {
			atoms = append(atoms, atomOf(c))
		}
	}
	return atoms
}

func atomOf(c cond) atom {
	switch c := c.(type) {
	case *compareExpr:
		op, l, r := c.op, c.l, c.r
		if isOperand(l) {
			op, l, r = op.flip(), r, l
		}
		if isOperand(r) && op != opNotEqual {
			return onPath(l, atom{op: atomOps[op], list: []expr{r}})
		}
	case *inExpr:
		if !slices.ContainsFunc(c.list, func(x expr) bool { return !isOperand(x) }) {
			return onPath(c.x, atom{op: pins, list: c.list})
		}
	case *likeExpr:
		if isOperand(c.pattern) {
			return onPath(c.x, atom{op: matches, list: []expr{c.pattern}, escape: c.escape})
		}
	case *truthExpr:
		call, ok := c.x.(*callExpr)
		switch {
		case ok && call.name == "IS_NULL":
			return onPath(call.args[0], atom{op: pins, list: []expr{&constExpr{Value{kind: Null}}}})
		case ok && call.name == "STARTSWITH" && len(call.args) == 2 && isOperand(call.args[1]):
			return onPath(call.args[0], atom{op: startsWith, list: call.args[1:]})
		case ok && call.name == "ARRAY_CONTAINS" && len(call.args) == 2 && isOperand(call.args[1]):
			return onPath(call.args[0], atom{op: contains, list: call.args[1:]})
		}
	case *orExpr:
		branches := make([][]atom, len(c.list))
		for i, part := range c.list {
			branches[i] = conjuncts(part)
		}
		return disjunction(branches)
	}
	return atom{}
}

func onPath(x expr, a atom) atom {
	path, ok := x.(*pathExpr)
	if !ok || path.path == nil {
		return atom{}
	}
	a.path = path.path
	return a
}

// disjunction merges branches that all pin the same property into one atom.
func disjunction(branches [][]atom) atom {
	var all atom
	for i, b := range branches {
		if len(b) != 1 || b[0].op != pins || i > 0 && !slices.Equal(b[0].path, all.path) {
			return atom{}
		}
		all.op, all.path = pins, b[0].path
		all.list = append(all.list, b[0].list...)
	}
	return all
}

// pinned returns the distinct values of a pins atom. Nothing equals undefined.
func (b *Bound) pinned(a atom) []Value {
	values := make([]Value, 0, len(a.list))
	if len(a.list) <= 8 {
		for _, x := range a.list {
			v := b.operand(x)
			same := func(w Value) bool { return Compare(v, w) == 0 }
			if v.kind != Undefined && !slices.ContainsFunc(values, same) {
				values = append(values, v)
			}
		}
		return values
	}
	seen := make(map[string]struct{}, len(a.list))
	var key []byte
	for _, x := range a.list {
		v := b.operand(x)
		key = AppendKey(key[:0], v)
		if _, ok := seen[string(key)]; !ok && v.kind != Undefined {
			seen[string(key)] = struct{}{}
			values = append(values, v)
		}
	}
	return values
}

// single returns the value of a pins atom that has only one.
func (b *Bound) single(a atom) (Value, bool) {
	var one Value
	for _, x := range a.list {
		v := b.operand(x)
		switch {
		case v.kind == Undefined:
		case one.kind == Undefined:
			one = v
		case Compare(one, v) != 0:
			return Value{}, false
		}
	}
	return one, one.kind != Undefined
}

// equal returns the value to which a conjunct pins p, and the index of the conjunct, or -1.
func (b *Bound) equal(p Path) (Value, int) {
	for i, a := range b.q.conjuncts {
		if a.op == pins && slices.Equal(a.path, p) {
			if v, ok := b.single(a); ok {
				return v, i
			}
		}
	}
	return Value{}, -1
}

// Equal returns the value to which WHERE, as a conjunction, pins p.
func (b *Bound) Equal(p Path) (Value, bool) {
	v, at := b.equal(p)
	return v, at >= 0
}

// Elements returns the values that WHERE, as a conjunction, requires the array at p to have.
func (b *Bound) Elements(p Path) (values []Value) {
	for _, a := range b.q.conjuncts {
		if a.op == contains && slices.Equal(a.path, p) {
			values = append(values, b.operand(a.list[0]))
		}
	}
	return values
}

// Range is an interval of values. It may be empty: Low above High.
type Range struct {
	Low, High                   Value
	LowSet, HighSet             bool
	LowInclusive, HighInclusive bool
}

// Range returns the interval to which the comparisons, STARTSWITH and LIKE in WHERE restrict p.
// Comparisons hold within one type, so both ends are set: the low end of p < 5 is the lowest
// number.
func (b *Bound) Range(p Path) (Range, bool) {
	var r Range
	found := false
	for _, a := range b.q.conjuncts {
		if !slices.Equal(a.path, p) {
			continue
		}
		if s, _, ok := b.interval(a); ok {
			r, found = r.and(s), true
		}
	}
	return r, found
}

// interval returns an interval with all values that an atom accepts. exact reports whether it
// accepts all values in it.
func (b *Bound) interval(a atom) (r Range, exact, ok bool) {
	if a.op <= pins {
		return r, false, false
	}
	v := b.operand(a.list[0])
	if v.kind == Undefined || v.kind >= Array {
		return r, false, false
	}
	if a.op >= startsWith {
		if v.kind != String {
			return r, false, false
		}
		prefix, open, exact := v.text, true, true
		if a.op == matches {
			if prefix, open, exact, ok = likePrefix(v.text, a.escape); !ok {
				return r, false, false
			}
		}
		low := text(prefix)
		if !open {
			return Range{low, low, true, true, true, true}, exact, true
		}
		return Range{low, after(prefix), true, true, true, false}, exact, true
	}
	r = typeRange(v.kind)
	switch a.op {
	case less:
		r.High, r.HighInclusive = v, false
	case lessEqual:
		r.High, r.HighInclusive = v, true
	case greater:
		r.Low, r.LowInclusive = v, false
	case greaterEqual:
		r.Low, r.LowInclusive = v, true
	}
	return r, true, true
}

// typeRange returns the interval of a primitive type.
func typeRange(k Kind) Range {
	r := Range{LowSet: true, HighSet: true, LowInclusive: true, HighInclusive: true}
	switch k {
	case Null:
		r.Low, r.High = Value{kind: Null}, Value{kind: Null}
	case Bool:
		r.Low, r.High = boolean(false), boolean(true)
	case Number:
		r.Low = Value{kind: Number, num: math.Inf(-1)}
		r.High = Value{kind: Number, num: math.Inf(1)}
	case String:
		r.Low = text(nil)
		r.High, r.HighInclusive = Value{kind: Array, text: []byte("[]")}, false
	}
	return r
}

// after returns the lowest value above all strings with a prefix.
func after(prefix []byte) Value {
	for n := len(prefix); n > 0; n-- {
		if c := prefix[n-1]; c < 0xFF {
			s := append(slices.Clone(prefix[:n-1]), c+1)
			return text(s)
		}
	}
	return Value{kind: Array, text: []byte("[]")}
}

// and returns the intersection.
func (r Range) and(s Range) Range {
	if !r.LowSet {
		return s
	}
	if c := Compare(s.Low, r.Low); c > 0 || c == 0 && !s.LowInclusive {
		r.Low, r.LowInclusive = s.Low, s.LowInclusive
	}
	if c := Compare(s.High, r.High); c < 0 || c == 0 && !s.HighInclusive {
		r.High, r.HighInclusive = s.High, s.HighInclusive
	}
	return r
}

// Covered reports whether a document matches if and only if it has the values of Equal on eq and is
// within Range of rng, which may be nil. Items of such an index scan need no Matches.
func (b *Bound) Covered(eq []Path, rng Path) bool {
	for _, p := range eq {
		if _, at := b.equal(p); at < 0 {
			return false
		}
	}
	if _, ok := b.Range(rng); !ok && len(rng) > 0 {
		return false
	}
	for i, a := range b.q.conjuncts {
		onEq := slices.ContainsFunc(eq, func(p Path) bool { return slices.Equal(p, a.path) })
		switch {
		case a.op == opaque:
			return false
		case onEq:
			if _, at := b.equal(a.path); at != i {
				return false
			}
		case slices.Equal(a.path, rng):
			if _, exact, ok := b.interval(a); !ok || !exact {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// maxPoints bounds the points from combining lists, besides the number of values in the text.
const maxPoints = 10_000

// Points returns the distinct tuples of values that paths can have in matching documents, if every
// branch of WHERE (an OR, or a single branch) pins every path. Documents found there still have to
// match.
func (b *Bound) Points(paths ...Path) ([][]Value, bool) {
	if len(paths) == 0 || len(b.q.branches) == 0 {
		return nil, false
	}
	points := make([][]Value, 0, len(b.q.branches))
	arena := make([]Value, 0, len(b.q.branches)*len(paths))
	lists := make([][]Value, len(paths))
	singles := make([]Value, len(paths))
	named := 0 // values
	for _, branch := range b.q.branches {
		product := 1
		for i, p := range paths {
			at := slices.IndexFunc(branch, func(a atom) bool { return a.op == pins && slices.Equal(a.path, p) })
			if at < 0 {
				return nil, false
			}
			if v, ok := b.single(branch[at]); ok {
				singles[i] = v
				lists[i] = singles[i : i+1]
			} else {
				lists[i] = b.pinned(branch[at])
			}
			named += len(lists[i])
			if product *= len(lists[i]); product > maxPoints+named {
				return nil, false
			}
		}
		if len(points)+product > maxPoints+named {
			return nil, false
		}
		for n := range product {
			from := len(arena)
			for _, values := range lists {
				arena = append(arena, values[n%len(values)])
				n /= len(values)
			}
			points = append(points, arena[from:len(arena):len(arena)])
		}
	}
	return distinctPoints(points), true
}

func distinctPoints(points [][]Value) [][]Value {
	if len(points) < 2 {
		return points
	}
	// One string for all keys: no allocation per key.
	var keys []byte
	ends := make([]int, len(points))
	for i, point := range points {
		for _, v := range point {
			keys = AppendKey(keys, v)
		}
		ends[i] = len(keys)
	}
	all, from := string(keys), 0
	seen := make(map[string]struct{}, len(points))
	out := points[:0]
	for i, point := range points {
		key := all[from:ends[i]]
		from = ends[i]
		if _, ok := seen[key]; !ok {
			seen[key] = struct{}{}
			out = append(out, point)
		}
	}
	return out
}
