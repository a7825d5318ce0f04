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

func (p *pathExpr) appendJSON(e *env, dst []byte) []byte { return append(dst, p.raw(e)...) }

func (a *arrayExpr) appendJSON(e *env, dst []byte) []byte {
	dst = append(dst, '[')
	first := len(dst)
	for _, x := range a.list {
		mark := len(dst)
		if mark > first {
			dst = append(dst, ',')
		}
		from := len(dst)
		if dst = appendExpr(e, dst, x); len(dst) == from {
			dst = dst[:mark]
		}
	}
	return append(dst, ']')
}

func (o *objectExpr) appendJSON(e *env, dst []byte) []byte {
	dst = append(dst, '{')
	first := len(dst)
	for i, x := range o.list {
		mark := len(dst)
		if mark > first {
			dst = append(dst, ',')
		}
		dst = append(dst, o.names[i]...)
		from := len(dst)
		if dst = appendExpr(e, dst, x); len(dst) == from {
			dst = dst[:mark]
		}
	}
	return append(dst, '}')
}

// SelectsAll reports whether the rows are the documents as they are.
func (b *Bound) SelectsAll() bool {
	if b.Aggregates() {
		return false
	}
	p, ok := b.q.row.(*pathExpr)
	return ok && len(p.steps) == 0
}

// Project appends doc's row to dst. ok is false, and dst returned as it was, if
// doc yields no row: SELECT VALUE of something undefined. It is not for queries
// that Aggregates.
func (b *Bound) Project(dst, doc []byte) (out []byte, ok bool) {
	e := newEnv(b, doc)
	out = appendExpr(e, dst, b.q.row)
	e.release()
	return out, len(out) > len(dst)
}
