package sql

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"

	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/jsonpart"
)

// expr is an expression. It is immutable after parsing; the state of an evaluation is in env.
type expr interface {
	eval(e *env) Value
}

// truth is the value of a condition. Anything but a boolean is unknown.
type truth uint8

const (
	unknown truth = iota
	no
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// value returns a truth as a Value.
func (t truth) value() Value {
	if t == unknown {
		return Value{}
	}
	return boolean(t == yes)
}

// cond is an expression whose values are booleans or undefined.
type cond interface {
	expr
	test(e *env) truth
}

// asCond converts an expression to a condition.
func asCond(x expr) cond {
	if c, ok := x.(cond); ok {
		return c
	}
	return &truthExpr{x}
}

type truthExpr struct{ x expr }

func (t *truthExpr) eval(e *env) Value { return t.test(e).value() }

func (t *truthExpr) test(e *env) truth {
	if v := t.x.eval(e); v.kind == Bool {
		return truthOf(v.yes)
	}
	return unknown
}

// maxSlots is the number of properties whose positions in the document an env caches.
const maxSlots = 16

// env is the state of an evaluation on one document. It finds the properties that the query names
// in one pass over the document, which goes no further than needed.
type env struct {
	doc    []byte
	slots  []string // names of the properties with a slot
	params []Value
	prep   []prepared
	aggs   []Value // results of the aggregates
	keys   []Value // values of GROUP BY
	end    int     // length of the query's text
	work   int     // see spend
	err    *Error  // set once the evaluation has failed

	enclosing int // nesting depth of array and object constructors
	outermost int // offset of the outermost

	at    int // position of the pass over doc: 0 not started, -1 at the end
	found uint32
	spans [maxSlots]struct{ start, end int }
	stack []Value // arguments of active calls

	analyzer func(Path) fulltext.Analyzer // see Bound
	index    TextIndex                    // nil: none
	texts    []itemText                   // of the current document
}

var envs = sync.Pool{New: func() any { return new(env) }}

func newEnv(b *Bound, doc []byte) *env {
	e := envs.Get().(*env)
	e.begin(b)
	e.reset(doc)
	return e
}

func (e *env) begin(b *Bound) {
	e.slots, e.params, e.prep, e.end = b.q.slots, b.params, b.prep, b.q.end
	e.analyzer = b.analyzer
}

func (e *env) reset(doc []byte) {
	e.doc, e.at, e.found, e.texts = doc, 0, 0, e.texts[:0]
}

// release returns e to the pool. Its error is that of failure.
func (e *env) release() error {
	failed := e.failure()
	clear(e.stack[:cap(e.stack)])
	*e = env{stack: e.stack[:0]}
	envs.Put(e)
	return failed
}

// failure returns why the evaluation failed, or nil.
func (e *env) failure() error {
	if e.err != nil { // avoids a non-nil error with a nil *Error
		return e.err
	}
	return nil
}

// property returns the document's property in a slot, or nil.
func (e *env) property(slot int) []byte {
	if e.found&(1<<slot) != 0 {
		return e.doc[e.spans[slot].start:e.spans[slot].end]
	}
	switch {
	case e.at < 0:
		return nil
	case e.at == 0:
		e.at = jsonpart.SkipSpace(e.doc, 0)
		if e.at >= len(e.doc) || e.doc[e.at] != '{' {
			e.at = -1
			return nil
		}
		e.at++
	}
	m := jsonpart.Members{Text: e.doc, At: e.at}
	for {
		key, start, end, ok := m.Next()
		if !ok {
			e.at = -1
			return nil
		}
		if m.Escaped {
			key = unescapeName(key)
		}
		for i, name := range e.slots {
			if string(key) == name && e.found&(1<<i) == 0 {
				e.found |= 1 << i
				e.spans[i].start, e.spans[i].end = start, end
				if i == slot {
					e.at = m.At
					return e.doc[start:end]
				}
				break
			}
		}
	}
}

type constExpr struct{ v Value }

func (c *constExpr) eval(*env) Value { return c.v }

type paramExpr struct {
	index int // index among the query's parameters
}

func (p *paramExpr) eval(e *env) Value { return e.params[p.index] }

type andExpr struct{ list []cond }

func (a *andExpr) eval(e *env) Value { return a.test(e).value() }

func (a *andExpr) test(e *env) truth {
	result := yes
	for _, c := range a.list {
		switch c.test(e) {
		case no:
			return no
		case unknown:
			result = unknown
		}
	}
	return result
}

type orExpr struct{ list []cond }

func (o *orExpr) eval(e *env) Value { return o.test(e).value() }

func (o *orExpr) test(e *env) truth {
	result := no
	for _, c := range o.list {
		switch c.test(e) {
		case yes:
			return yes
		case unknown:
			result = unknown
		}
	}
	return result
}

type notExpr struct{ x cond }

func (n *notExpr) eval(e *env) Value { return n.test(e).value() }

func (n *notExpr) test(e *env) truth {
	switch n.x.test(e) {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

type compareOp uint8

const (
	opEqual compareOp = iota
	opNotEqual
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
)

// holds applies the operator to a result of Compare.
func (op compareOp) holds(c int) truth {
	switch op {
	case opEqual:
		return truthOf(c == 0)
	case opNotEqual:
		return truthOf(c != 0)
	case opLess:
		return truthOf(c < 0)
	case opLessEqual:
		return truthOf(c <= 0)
	case opGreater:
		return truthOf(c > 0)
	}
	return truthOf(c >= 0)
}

// across applies the operator to values of different types.
func (op compareOp) across() truth {
	switch op {
	case opEqual:
		return no
	case opNotEqual:
		return yes
	}
	return unknown
}

// flip returns the operator for swapped operands.
func (op compareOp) flip() compareOp {
	switch op {
	case opLess:
		return opGreater
	case opLessEqual:
		return opGreaterEqual
	case opGreater:
		return opLess
	case opGreaterEqual:
		return opLessEqual
	}
	return op
}

func (op compareOp) compare(l, r Value) truth {
	switch {
	case l.kind == Undefined || r.kind == Undefined:
		return unknown
	case l.kind != r.kind:
		return op.across()
	case l.kind >= Array && op > opNotEqual:
		return unknown
	}
	return op.holds(Compare(l, r))
}

type compareExpr struct {
	op   compareOp
	l, r expr
}

func (c *compareExpr) eval(e *env) Value { return c.test(e).value() }
func (c *compareExpr) test(e *env) truth { return e.compare(c.op, c.l.eval(e), c.r.eval(e)) }

// compare counts the work and compares.
func (e *env) compare(op compareOp, l, r Value) truth {
	if l.kind == r.kind && l.kind >= String {
		n := min(len(l.text), len(r.text))
		if l.kind >= Array {
			n = l.comparing() + r.comparing()
		}
		if !e.spend("A comparison", n) {
			return unknown
		}
	}
	return op.compare(l, r)
}

// betweenExpr is x BETWEEN low AND high.
type betweenExpr struct{ x, low, high expr }

func (b *betweenExpr) eval(e *env) Value { return b.test(e).value() }

func (b *betweenExpr) test(e *env) truth {
	x := b.x.eval(e)
	above := e.compare(opGreaterEqual, x, b.low.eval(e))
	if above == no {
		return no
	}
	if below := e.compare(opLessEqual, x, b.high.eval(e)); below != yes {
		return below
	}
	return above
}

// pathCompare compares a property with a parameter or literal, without a Value for the property.
type pathCompare struct {
	op    compareOp
	path  *pathExpr
	param int // the parameter's index, or -1
	lit   Value
}

func (c *pathCompare) eval(e *env) Value { return c.test(e).value() }

func (c *pathCompare) test(e *env) truth {
	raw := c.path.raw(e)
	r := &c.lit
	if c.param >= 0 {
		r = &e.params[c.param]
	}
	if len(raw) == 0 || r.kind == Undefined || !e.spend("A comparison", len(raw)) {
		return unknown
	}
	if raw[0] == '"' && r.kind == String {
		s := stringText(raw)
		if c.op == opEqual {
			return truthOf(string(s) == string(r.text))
		}
		return c.op.holds(bytes.Compare(s, r.text))
	}
	if kindOf(raw[0]) != r.kind {
		return c.op.across()
	}
	return e.compare(c.op, ValueOf(raw), *r)
}

// inExpr is x IN (...). Long lists of constants use a set.
type inExpr struct {
	x    expr
	list []expr
	prep *int // index of the prepared set, or nil
}

func (in *inExpr) eval(e *env) Value { return in.test(e).value() }

func (in *inExpr) test(e *env) truth {
	v := in.x.eval(e)
	if v.kind == Undefined {
		return unknown
	}
	if in.prep != nil {
		if !e.spend("IN", v.comparing()) {
			return unknown
		}
		var buf [64]byte
		_, ok := in.set(e)[string(AppendKey(buf[:0], v))]
		return truthOf(ok)
	}
	for _, x := range in.list {
		if e.compare(opEqual, v, x.eval(e)) == yes {
			return yes
		}
	}
	return no
}

// set returns the set of encoded list values.
func (in *inExpr) set(e *env) map[string]struct{} {
	p := &e.prep[*in.prep]
	if set, ok := p.Load().(map[string]struct{}); ok {
		return set
	}
	set := make(map[string]struct{}, len(in.list))
	for _, x := range in.list {
		set[string(AppendKey(nil, x.eval(e)))] = struct{}{}
	}
	p.Store(set)
	return set
}

// prepared holds a value derived from literals and parameters, computed on first use, once per
// Bound or a few times if concurrently.
type prepared = atomic.Value

type arithmetic struct {
	op   byte
	l, r expr
}

func (a *arithmetic) eval(e *env) Value {
	l, r := a.l.eval(e), a.r.eval(e)
	if l.kind != Number || r.kind != Number {
		return Value{}
	}
	switch a.op {
	case '+':
		return number(l.num + r.num)
	case '-':
		return number(l.num - r.num)
	case '*':
		return number(l.num * r.num)
	case '/':
		return number(l.num / r.num)
	}
	return number(math.Mod(l.num, r.num))
}

type signExpr struct {
	x        expr
	negative bool
}

func (s *signExpr) eval(e *env) Value {
	v := s.x.eval(e)
	switch {
	case v.kind != Number:
		return Value{}
	case s.negative:
		return number(-v.num)
	}
	return v
}

type concatExpr struct{ list []expr }

func (c *concatExpr) eval(e *env) Value {
	var s []byte
	for _, x := range c.list {
		v := x.eval(e)
		if v.kind != String || !e.spend("||", len(v.text)) || !e.fits("||", len(s)+len(v.text), maxValue) {
			return Value{}
		}
		s = append(s, v.text...)
	}
	return text(s)
}

type coalesceExpr struct{ list []expr }

func (c *coalesceExpr) eval(e *env) Value {
	for _, x := range c.list {
		if v := x.eval(e); v.kind != Undefined {
			return v
		}
	}
	return Value{}
}

type ternaryExpr struct {
	if_         cond
	then, else_ expr
}

func (t *ternaryExpr) eval(e *env) Value {
	if t.if_.test(e) == yes {
		return t.then.eval(e)
	}
	return t.else_.eval(e)
}

type arrayExpr struct{ list []expr }

func (a *arrayExpr) eval(e *env) Value {
	return Value{kind: Array, text: e.standalone(a)}
}

type objectExpr struct {
	names []string // as JSON, with the colon
	list  []expr
}

func (o *objectExpr) eval(e *env) Value {
	return Value{kind: Object, text: e.standalone(o)}
}

// callExpr calls a function. Its arguments are on the env's stack.
type callExpr struct {
	name string
	f    *function
	args []expr
	cost *cost // nil: proportional to the arguments
}

func (c *callExpr) eval(e *env) Value {
	base := len(e.stack)
	for _, x := range c.args {
		v := x.eval(e)
		e.stack = append(e.stack, v)
	}
	v := c.call(e, e.stack[base:])
	e.stack = e.stack[:base]
	return v
}

func (c *callExpr) call(e *env, args []Value) Value {
	if !e.spend(c.name, sizes(args)) {
		return Value{}
	}
	if c.cost != nil {
		if c.cost.work != nil && !e.spend(c.name, c.cost.work(args)) || c.cost.size != nil &&
			!e.fits(c.name, c.cost.size(args), maxValue) {
			return Value{}
		}
	}
	v := c.f.fn(args)
	if !e.fits(c.name, len(v.text), maxValue) || !e.spend(c.name, len(v.text)) {
		return Value{}
	}
	return v
}
