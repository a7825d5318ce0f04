package sql

// jsonExpr is an expression that can write its value better than by way of a
// Value. It appends nothing if it is undefined.
type jsonExpr interface {
	appendJSON(e *env, dst []byte) []byte
}

func appendExpr(e *env, dst []byte, x expr) []byte {
	if j, ok := x.(jsonExpr); ok {
		return j.appendJSON(e, dst)
	}
	return x.eval(e).AppendJSON(dst)
}

// appendRow appends what a SELECT returns.
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

// appendMember appends an element of an array or a value of an object. ok is
// false if it is undefined, or was left out because the outermost array or object
// has become too large.
func (e *env) appendMember(of string, dst []byte, x expr) (out []byte, ok bool) {
	from := len(dst)
	if !e.fits(of, from-e.outermost, maxRow) {
		return dst, false
	}
	dst = appendExpr(e, dst, x)
	return dst, len(dst) > from && e.fits(of, len(dst)-e.outermost, maxRow)
}

// alone is the text of an array or object that does not stand in another one.
func (e *env) alone(x jsonExpr) []byte {
	outermost, enclosing := e.outermost, e.enclosing
	e.enclosing = 0
	out := x.appendJSON(e, nil)
	e.outermost, e.enclosing = outermost, enclosing
	return out
}

// SelectsAll reports whether the rows are the documents as they are.
func (b *Bound) SelectsAll() bool {
	if b.Aggregates() {
		return false
	}
	p, ok := b.q.row.(*pathExpr)
	return ok && len(p.steps) == 0
}

// HasRow reports whether doc yields a row: SELECT VALUE of something undefined
// does not. It is not for queries that Aggregates. The error, if any, is an *Error:
// to find out takes too much.
func (b *Bound) HasRow(doc []byte) (bool, error) {
	switch x := b.q.row.(type) {
	case *objectExpr, *arrayExpr:
		return true, nil
	case *pathExpr:
		if len(x.steps) == 0 {
			return true, nil
		}
	}
	e := newEnv(b, doc)
	v := b.q.row.eval(e)
	return v.kind != Undefined, e.release()
}

// Project appends doc's row to dst. ok is false, and dst returned as it was, if
// doc yields no row: SELECT VALUE of something undefined. It is not for queries
// that Aggregates. The error, if any, is an *Error: the row takes too much.
func (b *Bound) Project(dst, doc []byte) (out []byte, ok bool, err error) {
	e := newEnv(b, doc)
	out = appendRow(e, dst, b.q.row)
	if err := e.release(); err != nil {
		return dst, false, err
	}
	return out, len(out) > len(dst), nil
}
