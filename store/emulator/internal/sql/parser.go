package sql

// maxDepth is the deepest nesting of expressions. Lists joined by AND, OR or commas may be as long
// as the text.
const maxDepth = 200

// maxGroupBy bounds the expressions of GROUP BY: each subexpression of a row is compared with all of them.
const maxGroupBy = 32

// parser parses tokens into a Query. Methods panic with an *Error, which parse recovers: the
// package's only panic never leaves it.
type parser struct {
	text   string
	tokens []token
	i      int
	depth  int

	q      *Query
	params map[string]*paramExpr
	paths  map[string]*pathExpr // by meaning
	spans  map[string]*pathExpr // by text
	steps  []step               // of the current path
	source string               // alias of FROM, once known
	roots  []token              // roots of earlier paths
	noAgg  string               // where aggregates are not allowed now; "" if they are

	columns  []columnTokens
	prepared []*int // indexes of prepared values, set after parsing

	ranks       []rankTokens // of ORDER BY RANK
	rankWeights []float64    // of RRF; nil if it has none

	bareConcat   bool // the last concat was a || without parentheses
	bareCoalesce bool // the last expression was a ?? without parentheses
}

// columnTokens is a column of SELECT: the tokens [from, end), or [from, to) with its alias.
type columnTokens struct {
	name          string // of the property; "" under VALUE
	from, end, to int
}

// Parse parses one query text. The Query is immutable and safe for concurrent
// use. The error, if any, is an *Error.
func Parse(text string) (*Query, error) {
	return parse(text, (*parser).query)
}

// ParseCondition parses the condition of a conditional patch, such as "from c where c.x = 1". Use
// Matches on its Bound.
func ParseCondition(text string) (*Query, error) {
	return parse(text, func(p *parser) {
		p.q.row = p.document()
		p.from()
		p.wherePart()
	})
}

func parse(text string, start func(*parser)) (q *Query, err error) {
	tokens, lexErr := lex(text)
	if lexErr != nil {
		return nil, lexErr.inUnits(text)
	}
	p := &parser{text: text, tokens: tokens, q: &Query{end: len(text)},
		params: map[string]*paramExpr{}, paths: map[string]*pathExpr{}, spans: map[string]*pathExpr{}}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			q, err = nil, r.inUnits(text)
		default:
			panic(r)
		}
	}()
	start(p)
	if t := p.peek(); t.kind != tokEnd {
		p.unexpected(t)
	}
	for i, at := range p.prepared {
		*at = i
	}
	p.q.prepared = len(p.prepared)
	p.q.finish()
	p.q.inUnits(text)
	return p.q, nil
}

func (p *parser) peek() token { return p.tokens[p.i] }

// peekAt looks further ahead.
func (p *parser) peekAt(n int) token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != tokEnd {
		p.i++
	}
	return t
}

// is reports whether the next token is a keyword or symbol.
func (p *parser) is(word string) bool {
	t := p.peek()
	return t.word == word && (t.kind == tokWord || t.kind == tokSymbol)
}

// accept skips the next token if it is a keyword or symbol.
func (p *parser) accept(word string) bool {
	if !p.is(word) {
		return false
	}
	p.i++
	return true
}

func (p *parser) expect(word string) token {
	if !p.is(word) {
		p.unexpected(p.peek())
	}
	return p.next()
}

func (p *parser) span(t token) string { return p.text[t.pos:t.end] }

func (p *parser) fail(t token, format string, args ...any) {
	panic(errorAt(int(t.pos), int(t.end), format, args...))
}

func (p *parser) unexpected(t token) {
	switch {
	case t.kind == tokEnd:
		p.fail(t, "Syntax error, the query ends too early")
	case t.word == "JOIN" || t.word == "EXISTS" || t.word == "ARRAY":
		p.fail(t, "%s is not supported", t.word)
	}
	p.fail(t, "Syntax error, incorrect syntax near '%s'", p.span(t))
}

// name parses a name, which cannot be a keyword.
func (p *parser) name() string {
	t := p.next()
	if t.kind != tokWord {
		p.unexpected(t)
	}
	if t.word != "" {
		p.fail(t, "Syntax error, incorrect syntax near '%s'", p.span(t))
	}
	return p.span(t)
}

// enter counts nesting; every caller calls leave.
func (p *parser) enter() {
	p.depth++
	if p.depth > maxDepth {
		p.fail(p.peek(), "The expression is nested deeper than %d levels", maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) query() {
	p.expect("SELECT")
	p.q.distinct = p.accept("DISTINCT")
	if p.accept("TOP") {
		p.q.top = p.count()
	}
	p.q.row = p.selection()
	p.from()
	p.wherePart()
	if p.is("GROUP") {
		p.groupBy()
	}
	p.grouping()
	if p.is("ORDER") {
		p.orderBy()
	}
	if t := p.peek(); p.accept("OFFSET") {
		if p.q.top != nil {
			p.fail(t, "OFFSET LIMIT beside TOP is not supported")
		}
		p.q.offset = p.count()
		p.expect("LIMIT")
		p.q.limit = p.count()
	}
}

// count parses the number of TOP, OFFSET or LIMIT.
func (p *parser) count() expr {
	t := p.peek()
	switch t.kind {
	case tokNumber:
		c := p.primary().(*constExpr)
		if wrong := notCount(c.v); wrong != "" {
			p.fail(t, "The number '%s' %s", p.span(t), wrong)
		}
		return c
	case tokParam:
		x := p.param(p.next())
		p.q.checks = append(p.q.checks, check{x.index, notCount})
		return x
	}
	p.unexpected(t)
	return nil
}

// selection parses SELECT.
func (p *parser) selection() expr {
	if t := p.peek(); p.accept("*") {
		star := p.document()
		star.pos, star.end = int(t.pos), int(t.end)
		p.columns = append(p.columns, columnTokens{"", p.i - 1, p.i, p.i})
		return star
	}
	if p.accept("VALUE") {
		from := p.i
		x := p.expression()
		p.columns = append(p.columns, columnTokens{"", from, p.i, p.i})
		return x
	}
	row := new(objectExpr)
	seen := map[string]bool{}
	unnamed := 0
	for {
		start := p.peek()
		if start.word == "*" {
			p.fail(start, "* beside other properties is not supported")
		}
		from := p.i
		x := p.expression()
		end := p.i
		name, at := p.alias(), p.tokens[p.i-1]
		if name == "" {
			name, at = p.nameOf(x, p.tokens[from:end]), start
		}
		if name == "" {
			unnamed++
			name = "$" + number(float64(unnamed)).String()
		}
		if seen[name] {
			p.fail(at, "The property name '%s' is selected twice", name)
		}
		seen[name] = true
		p.columns = append(p.columns, columnTokens{name, from, end, p.i})
		row.names = append(row.names, string(AppendQuoted(nil, []byte(name)))+":")
		row.list = append(row.list, x)
		if !p.accept(",") {
			return row
		}
	}
}

// alias parses "[AS] name", if present.
func (p *parser) alias() string {
	t := p.peek()
	if p.accept("AS") {
		return p.name()
	}
	if t.kind == tokWord && t.word == "" {
		p.i++
		return p.span(t)
	}
	return ""
}

// nameOf returns the name of a column without an alias, or "" if the expression is not a property.
func (p *parser) nameOf(x expr, tokens []token) string {
	path, ok := x.(*pathExpr)
	if !ok {
		return ""
	}
	if len(path.steps) == 0 {
		for _, t := range tokens { // inside parentheses, if any
			if t.kind == tokWord {
				return p.span(t)
			}
		}
	}
	last := path.steps[len(path.steps)-1]
	if last.index >= 0 {
		return ""
	}
	return last.name
}

// from parses FROM and the alias that all paths begin with.
func (p *parser) from() {
	if t := p.peek(); t.kind == tokEnd {
		p.fail(t, "A query without FROM is not supported")
	}
	p.expect("FROM")
	if t := p.peek(); t.word == "(" {
		p.fail(t, "A subquery in FROM is not supported")
	}
	alias := p.name()
	switch next := p.peek(); next.word {
	case ".", "[":
		p.fail(next, "FROM a property of the items is not supported")
	case "IN":
		p.fail(next, "IN within FROM is not supported")
	}
	if name := p.alias(); name != "" {
		alias = name
	}
	switch next := p.peek(); next.word {
	case "IN":
		p.fail(next, "IN within FROM is not supported")
	case "JOIN":
		p.fail(next, "JOIN is not supported")
	case ",":
		p.fail(next, "FROM several sources is not supported")
	}
	p.source = alias
	for _, t := range p.roots {
		p.resolve(t)
	}
}

// resolve checks that a path begins with the alias of FROM.
func (p *parser) resolve(t token) {
	switch {
	case p.source == "":
		p.roots = append(p.roots, t)
	case p.source != p.span(t):
		p.fail(t, "The identifier '%s' could not be resolved", p.span(t))
	}
}

func (p *parser) wherePart() {
	if !p.accept("WHERE") {
		return
	}
	p.noAgg = "in WHERE"
	p.q.where = asCond(p.expression())
}

func (p *parser) groupBy() {
	t := p.next()
	p.expect("BY")
	p.noAgg = "in GROUP BY"
	for {
		from := p.peek()
		x := p.expression()
		if _, ok := x.(*constExpr); ok {
			p.fail(t, "GROUP BY a constant is not supported")
		}
		if len(p.q.groupBy) == maxGroupBy {
			p.fail(from, "More than %d expressions in GROUP BY are not supported", maxGroupBy)
		}
		p.q.groupBy = append(p.q.groupBy, x)
		if !p.accept(",") {
			return
		}
	}
}

func (p *parser) orderBy() {
	order := p.next()
	p.expect("BY")
	if p.q.grouped {
		p.fail(order, "ORDER BY beside GROUP BY or an aggregate is not supported")
	}
	for {
		t := p.peek()
		next := p.peekAt(1)
		if t.kind == tokWord && len(p.q.order) == 0 && p.orderedBySearch(t, next) {
			return
		}
		if t.kind != tokWord || next.word == "(" {
			p.fail(t, "ORDER BY anything but a property is not supported")
		}
		path, ok := p.primary().(*pathExpr)
		if !ok || path.path == nil || isOperator(p.peek()) {
			p.fail(t, "ORDER BY anything but a property is not supported")
		}
		term := Order{Path: path.path}
		if !p.accept("ASC") {
			term.Desc = p.accept("DESC")
		}
		p.q.order = append(p.q.order, term)
		if !p.accept(",") {
			return
		}
	}
}

// document returns the path of the whole document.
func (p *parser) document() *pathExpr {
	p.q.whole = true
	return &pathExpr{slot: -1}
}
