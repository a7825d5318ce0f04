package sql

import (
	"encoding/json"
	"math"

	"byline/store/emulator/internal/fulltext"
)

// Query is a parsed query.
type Query struct {
	row     expr
	where   cond // nil: everything
	end     int  // of the text
	groupBy []expr
	order   []Order

	distinct    bool
	grouped     bool // has GROUP BY or aggregates
	aggregates  []*aggregateExpr
	top         expr // nil, or a literal or parameter
	offset      expr
	limit       expr
	params      []param
	slots       []string // properties with a slot
	whole       bool     // it may read properties without a slot
	prepared    int      // number of prepared values
	checks      []check
	conjuncts   []atom
	branches    [][]atom
	filterPaths []Path

	textConditions []*textCondition // that WHERE joins by AND
	ranks          bool             // has ORDER BY RANK
	searches       bool             // has functions of full-text search
	besides        besides          // of a query that searches
}

type param struct {
	name     string
	pos, end int
	uses     int // number of uses in the text
}

// check is a validation of a parameter by Bind.
type check struct {
	param int
	what  func(v Value) string // returns what is wrong, or ""
}

// Param is a query parameter in the format of a request's body.
type Param struct {
	Name  string          `json:"name"` // with the @
	Value json.RawMessage `json:"value"`
}

// Bound is a query with its parameters. It is safe for concurrent use.
type Bound struct {
	q      *Query
	params []Value // as in q.params
	prep   []prepared

	top, offset, limit int // -1: none

	analyzer func(Path) fulltext.Analyzer // of a text; nil: English
}

// Bind binds parameters. Unused ones are ignored; one without a value is undefined. The Bound keeps
// the values' bytes. The error, if any, is an *Error: a parameter is missing or invalid for its
// use.
func (q *Query) Bind(params []Param) (*Bound, error) {
	b := &Bound{q: q, prep: make([]prepared, q.prepared)}
	var err *Error
	if b.params, err = q.values(params); err != nil {
		return nil, err
	}
	work := 0
	for i, v := range b.params { // planning reads the value for each use
		if work += product(len(v.text), q.params[i].uses); work > maxWork {
			p := q.params[i]
			return nil, errorAt(p.pos, p.end, "The parameter '%s' is used too often for its size", p.name)
		}
	}
	for _, c := range q.checks {
		if wrong := c.what(b.params[c.param]); wrong != "" {
			p := q.params[c.param]
			return nil, errorAt(p.pos, p.end, "The parameter '%s' %s", p.name, wrong)
		}
	}
	b.top, b.offset, b.limit = b.count(q.top), b.count(q.offset), b.count(q.limit)
	return b, nil
}

// values returns the parameters in the query's order.
func (q *Query) values(params []Param) ([]Value, *Error) {
	values := make([]Value, len(q.params))
	var byName map[string]int
	if len(params) > 8 {
		byName = make(map[string]int, len(params))
		for i, p := range params {
			byName[p.Name] = i
		}
	}
	for i, want := range q.params {
		at, ok := -1, false
		switch {
		case i < len(params) && params[i].Name == want.name: // the usual order
			at, ok = i, true
		case byName != nil:
			at, ok = byName[want.name]
		default:
			for j, p := range params {
				if p.Name == want.name {
					at, ok = j, true
				}
			}
		}
		if !ok {
			return nil, errorAt(want.pos, want.end, "The parameter '%s' has no value", want.name)
		}
		if params[at].Value == nil {
			continue
		}
		v, err := ParseValue(params[at].Value)
		if err != nil {
			return nil, errorAt(want.pos, want.end, "The parameter '%s' is %v", want.name, err)
		}
		values[i] = v
	}
	return values, nil
}

// operand returns the value of a literal or a parameter.
func (b *Bound) operand(x expr) Value {
	switch x := x.(type) {
	case *constExpr:
		return x.v
	case *paramExpr:
		return b.params[x.index]
	}
	return Value{}
}

// Parameter returns the value of a parameter of the text, by its name with the @.
func (b *Bound) Parameter(name string) Value {
	for i, p := range b.q.params {
		if p.name == name {
			return b.params[i]
		}
	}
	return Value{}
}

// notCount returns why v is invalid for TOP, OFFSET and LIMIT, or "".
func notCount(v Value) string {
	if v.kind != Number || v.num < 0 || v.num > math.MaxInt32 || v.num != math.Trunc(v.num) {
		return "is not an integer from 0 to 2147483647"
	}
	return ""
}

func (b *Bound) count(x expr) int {
	if x == nil {
		return -1
	}
	return int(b.operand(x).num)
}

// Top returns the number of TOP, in rows.
func (b *Bound) Top() (n int, ok bool) { return b.top, b.top >= 0 }

// OffsetLimit returns the numbers of OFFSET and LIMIT, in rows.
func (b *Bound) OffsetLimit() (offset, limit int, ok bool) {
	return b.offset, b.limit, b.limit >= 0
}

// Matches reports whether WHERE is true for doc, a JSON object. Use an Evaluator to also
// project the document. The error, if any, is an *Error: a limit is exceeded.
func (b *Bound) Matches(doc []byte) (bool, error) {
	if b.q.where == nil {
		return true, nil
	}
	e := newEnv(b, doc)
	t := b.q.where.test(e)
	return t == yes, e.release()
}

// Order is one term of ORDER BY: a property or a score.
type Order struct {
	Path  Path
	Desc  bool
	Score string // the text of _FullTextScore(...), "" for a property
	score *textScore
}

// OrderBy returns the terms of ORDER BY, or nil. The slice is shared.
func (b *Bound) OrderBy() []Order { return b.q.order }

// Reads returns the document's properties that the query reads. all reports that it may read
// others, too. The slice is shared.
func (b *Bound) Reads() (names []string, all bool) { return b.q.slots, b.q.whole }

// Paths returns the distinct paths that WHERE reads, up to the first array index. The slice is
// shared.
func (b *Bound) Paths() (filter []Path) { return b.q.filterPaths }
