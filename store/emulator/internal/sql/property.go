package sql

import (
	"slices"
	"strconv"
	"strings"
)

// step is one step of a path: a property, or an index if that is not negative.
type step struct {
	name  string
	index int
}

func (s step) of(raw []byte) []byte {
	if s.index >= 0 {
		return element(raw, s.index)
	}
	return member(raw, s.name)
}

// pathExpr is a property of the document, or the document if it has no steps.
type pathExpr struct {
	slot  int // of the first step, or -1
	steps []step
	path  Path // nil if a step is an index or looks like one
	pos   int  // position of the first occurrence
	end   int
}

// raw returns the property's JSON, or nil.
func (p *pathExpr) raw(e *env) []byte {
	raw, steps := e.doc, p.steps
	if p.slot >= 0 {
		raw, steps = e.property(p.slot), steps[1:]
	}
	for _, s := range steps {
		if raw == nil || !e.spend("A property", len(raw)) {
			return nil
		}
		raw = s.of(raw)
	}
	return raw
}

func (p *pathExpr) eval(e *env) Value {
	raw := p.raw(e)
	if !e.spend("A property", len(raw)) {
		return Value{}
	}
	return ValueOf(raw)
}

// pathFrom parses the rest of a path. Equal paths share one pathExpr.
func (p *parser) pathFrom(first token) expr {
	steps := p.steps[:0]
	for {
		switch {
		case p.accept("."):
			t := p.peek()
			if t.word == "*" {
				p.fail(t, "%s.* is not supported", p.span(first))
			}
			name := p.name()
			if p.is("(") {
				if first.word == "udf" {
					p.fail(first, "The user-defined function udf.%s is not supported", name)
				}
				p.fail(t, "Syntax error, '%s' is no function", name)
			}
			steps = append(steps, step{name, -1})
		case p.accept("["):
			steps = append(steps, p.index())
			p.expect("]")
		default:
			p.resolve(first)
			p.steps = steps
			return p.path(steps, first, p.tokens[p.i-1])
		}
	}
}

func (p *parser) index() step {
	t := p.next()
	switch t.kind {
	case tokString:
		return step{p.string(t), -1}
	case tokNumber:
		n, err := strconv.ParseUint(p.span(t), 10, 31)
		if err != nil {
			p.fail(t, "The index '%s' is not an integer from 0", p.span(t))
		}
		return step{"", int(n)}
	}
	p.fail(t, "An index that is not a literal is not supported")
	return step{}
}

func (p *parser) path(steps []step, first, last token) *pathExpr {
	span := p.text[first.pos:last.end]
	x := p.spans[span]
	if x == nil {
		x = p.pathOf(slices.Clone(steps), first, last)
		p.spans[span] = x
	}
	return x
}

func (p *parser) pathOf(steps []step, first, last token) *pathExpr {
	var key strings.Builder
	path := make(Path, 0, len(steps))
	for _, s := range steps {
		if s.index >= 0 {
			key.WriteString(strconv.Itoa(s.index))
			key.WriteByte(']')
			path = nil
		} else {
			key.WriteString(strconv.Itoa(len(s.name)))
			key.WriteByte(':')
			key.WriteString(s.name)
			if path != nil {
				path = append(path, s.name)
			}
		}
	}
	if x := p.paths[key.String()]; x != nil {
		return x
	}
	if path != nil && !path.plain() {
		path = nil
	}
	x := &pathExpr{slot: -1, steps: steps, path: path, pos: int(first.pos), end: int(last.end)}
	if len(steps) > 0 && steps[0].index < 0 {
		x.slot = p.q.slot(steps[0].name)
	}
	p.q.whole = p.q.whole || x.slot < 0
	p.paths[key.String()] = x
	return x
}

// slot returns the slot of a property, -1 if all are taken.
func (q *Query) slot(name string) int {
	for i, s := range q.slots {
		if s == name {
			return i
		}
	}
	if len(q.slots) == maxSlots {
		return -1
	}
	q.slots = append(q.slots, name)
	return len(q.slots) - 1
}
