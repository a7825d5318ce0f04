package sql

// jsonExpr is an expression that writes JSON without building a Value. It appends nothing if it is
// undefined.
type jsonExpr interface {
	appendJSON(e *env, dst []byte) []byte
}

func appendExpr(e *env, dst []byte, x expr) []byte {
	if j, ok := x.(jsonExpr); ok {
		return j.appendJSON(e, dst)
	}
	return x.eval(e).AppendJSON(dst)
}

// appendRow appends the row of SELECT.
func appendRow(e *env, dst []byte, x expr) []byte {
	from := len(dst)
	dst = appendExpr(e, dst, x)
	e.fits("SELECT", len(dst)-from, maxRow)
	return dst
}

func (p *pathExpr) appendJSON(e *env, dst []byte) []byte {
	raw := p.raw(e)
	if !e.spend("A property", len(raw)) {
		return dst
	}
	return append(dst, raw...)
}

func (a *arrayExpr) appendJSON(e *env, dst []byte) []byte {
	e.enclose(dst)
	dst = append(dst, '[')
	first := len(dst)
	for _, x := range a.list {
		mark := len(dst)
		if mark > first {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = e.appendMember("[...]", dst, x); !ok {
			dst = dst[:mark]
		}
	}
	e.enclosing--
	return append(dst, ']')
}

func (o *objectExpr) appendJSON(e *env, dst []byte) []byte {
	e.enclose(dst)
	dst = append(dst, '{')
	first := len(dst)
	for i, x := range o.list {
		mark := len(dst)
		if mark > first {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = e.appendMember("SELECT or {...}", append(dst, o.names[i]...), x); !ok {
			dst = dst[:mark]
		}
	}
	e.enclosing--
	return append(dst, '}')
}

// enclose begins an array or object.
func (e *env) enclose(dst []byte) {
	if e.enclosing == 0 {
		e.outermost = len(dst)
	}
	e.enclosing++
}

// appendMember appends an element of an array or a value of an object. ok is false if it is
// undefined, or if the outermost array or object became too large.
func (e *env) appendMember(of string, dst []byte, x expr) (out []byte, ok bool) {
	from := len(dst)
	if !e.fits(of, from-e.outermost, maxRow) {
		return dst, false
	}
	dst = appendExpr(e, dst, x)
	return dst, len(dst) > from && e.fits(of, len(dst)-e.outermost, maxRow)
}

// standalone evaluates an array or object as if it were outside of any other.
func (e *env) standalone(x jsonExpr) []byte {
	outermost, enclosing := e.outermost, e.enclosing
	e.enclosing = 0
	out := x.appendJSON(e, nil)
	e.outermost, e.enclosing = outermost, enclosing
	return out
}

// SelectsAll reports whether rows are the unchanged documents.
func (b *Bound) SelectsAll() bool {
	if b.Aggregates() {
		return false
	}
	p, ok := b.q.row.(*pathExpr)
	return ok && len(p.steps) == 0
}

// Evaluator evaluates a query on one item after another, and finds each property of an item once.
// It is not safe for concurrent use.
type Evaluator struct {
	b *Bound
	e env
}

// Evaluator returns an Evaluator of the query.
func (b *Bound) Evaluator() *Evaluator {
	v := &Evaluator{b: b}
	v.e.begin(b)
	return v
}

// Next moves to an item, a JSON object, which must not change until the next call.
func (v *Evaluator) Next(doc []byte) {
	v.e.work, v.e.err = 0, nil
	v.e.reset(doc)
}

// UseIndex makes an index answer for the texts of the items, from the next call of Next.
func (v *Evaluator) UseIndex(x TextIndex) { v.e.index = x }

// Order returns the item's value of a term of ORDER BY. The error, if any, is an *Error: a limit is exceeded.
func (v *Evaluator) Order(o Order) (Value, error) {
	if o.score == nil {
		return Lookup(v.e.doc, o.Path), nil
	}
	return o.score.eval(&v.e), v.e.failure()
}

// Matches reports whether WHERE is true. The error, if any, is an *Error: a limit is exceeded.
func (v *Evaluator) Matches() (bool, error) {
	if v.b.q.where == nil {
		return true, nil
	}
	return v.b.q.where.test(&v.e) == yes, v.e.failure()
}

// alwaysHasRow reports whether every item yields a row.
func (q *Query) alwaysHasRow() bool {
	switch x := q.row.(type) {
	case *objectExpr, *arrayExpr:
		return true
	case *pathExpr:
		return len(x.steps) == 0
	}
	return false
}

// HasRow reports whether the item yields a row: SELECT VALUE of undefined does not. It is not for
// queries that Aggregates. The error, if any, is an *Error: a limit is exceeded.
func (v *Evaluator) HasRow() (bool, error) {
	if v.b.q.alwaysHasRow() {
		return true, nil
	}
	return v.b.q.row.eval(&v.e).kind != Undefined, v.e.failure()
}

// Project appends the item's row to dst. If the item yields no row (SELECT VALUE of undefined), ok
// is false and dst unchanged. It is not for queries that Aggregates. The error, if any, is an
// *Error: a limit is exceeded.
func (v *Evaluator) Project(dst []byte) (out []byte, ok bool, err error) {
	out = appendRow(&v.e, dst, v.b.q.row)
	if err := v.e.failure(); err != nil {
		return dst, false, err
	}
	return out, len(out) > len(dst), nil
}
