package sql

import (
	"fmt"
	"math"
	"strconv"
)

// The grammar of expressions: one method per level of precedence, loosest first.

func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	x := p.disjunction()
	p.bareCoalesce = false
	switch t := p.peek(); t.word {
	case "??":
		list := []expr{x}
		for p.accept("??") {
			list = append(list, p.disjunction())
		}
		if t := p.peek(); t.word == "?" {
			p.fail(t, "?? beside ? : needs parentheses")
		}
		p.bareCoalesce = true
		return &coalesceExpr{list}
	case "?":
		p.next()
		then := p.expression()
		p.expect(":")
		else_ := p.expression()
		if p.bareCoalesce {
			p.fail(t, "?? beside ? : needs parentheses")
		}
		return &ternaryExpr{asCond(x), then, else_}
	}
	return x
}

func (p *parser) disjunction() expr {
	x := p.conjunction()
	if !p.is("OR") {
		return x
	}
	list := flatten(nil, x, func(o *orExpr) []cond { return o.list })
	for p.accept("OR") {
		list = flatten(list, p.conjunction(), func(o *orExpr) []cond { return o.list })
	}
	return &orExpr{list}
}

func (p *parser) conjunction() expr {
	x := p.predicate()
	if !p.is("AND") {
		return x
	}
	list := flatten(nil, x, func(a *andExpr) []cond { return a.list })
	for p.accept("AND") {
		list = flatten(list, p.predicate(), func(a *andExpr) []cond { return a.list })
	}
	return &andExpr{list}
}

// flatten appends x, or its operands if it is itself of type T.
func flatten[T expr](list []cond, x expr, parts func(T) []cond) []cond {
	if t, ok := x.(T); ok {
		return append(list, parts(t)...)
	}
	return append(list, asCond(x))
}

// predicate parses IN, BETWEEN and LIKE.
func (p *parser) predicate() expr {
	if t := p.peek(); p.accept("NOT") {
		p.enter()
		defer p.leave()
		x := p.negated(t)
		return &notExpr{asCond(x)}
	}
	x := p.equality()
	not := p.is("NOT")
	if not {
		p.next()
	}
	var c cond
	switch t := p.peek(); t.word {
	case "IN":
		c = p.in(x)
	case "BETWEEN":
		p.next()
		low := p.equality()
		p.expect("AND")
		high := p.equality()
		if _, ok := x.(*pathExpr); ok || isOperand(x) {
			c = &andExpr{[]cond{&compareExpr{opGreaterEqual, x, low}, &compareExpr{opLessEqual, x, high}}}
		} else { // duplicating x would double the tree with every nested BETWEEN
			c = &betweenExpr{x, low, high}
		}
	case "LIKE":
		c = p.like(x)
	default:
		if not {
			p.unexpected(t)
		}
		return x
	}
	if t := p.peek(); t.word == "IN" || t.word == "BETWEEN" || t.word == "LIKE" || t.word == "NOT" {
		p.unexpected(t)
	}
	if not {
		return &notExpr{c}
	}
	return c
}

// negated parses the operand of NOT. The service binds NOT tighter than comparisons, unlike other SQL,
// so parentheses are required.
func (p *parser) negated(not token) expr {
	if p.is("NOT") {
		return p.predicate()
	}
	x := p.unary()
	switch t := p.peek(); t.word {
	case "=", "!=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE", "+", "-", "*", "/", "%", "||", "NOT":
		p.fail(not, "NOT before '%s' needs parentheses", p.span(t))
	}
	return x
}

// isOperator reports whether t continues an expression.
func isOperator(t token) bool {
	switch t.word {
	case "=", "!=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "LIKE",
		"+", "-", "*", "/", "%", "||", "NOT", "AND", "OR", "??", "?":
		return true
	}
	return false
}

func (p *parser) in(x expr) cond {
	p.next()
	p.expect("(")
	if t := p.peek(); t.word == "SELECT" {
		p.fail(t, "A subquery is not supported")
	}
	in := &inExpr{x: x}
	constant := true
	for {
		item := p.expression()
		constant = constant && isOperand(item)
		in.list = append(in.list, item)
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	if constant && len(in.list) > 8 {
		in.prep = p.prepare()
	}
	return in
}

// prepare allocates an index for a prepared value. It is set after parsing: until then equal
// expressions must be DeepEqual, for GROUP BY.
func (p *parser) prepare() *int {
	p.prepared = append(p.prepared, new(int))
	return p.prepared[len(p.prepared)-1]
}

// isOperand reports whether x is a literal or a parameter.
func isOperand(x expr) bool {
	switch x.(type) {
	case *constExpr, *paramExpr:
		return true
	}
	return false
}

func (p *parser) like(x expr) cond {
	p.next()
	t := p.peek()
	like := &likeExpr{x: x, pattern: p.equality()}
	if p.accept("ESCAPE") {
		t := p.peek()
		c, ok := p.primary().(*constExpr)
		if !ok || c.v.kind != String || len([]rune(string(c.v.text))) != 1 {
			p.fail(t, "ESCAPE anything but one character is not supported")
		}
		like.escape = []rune(string(c.v.text))[0]
	}
	fits := func(v Value) string {
		if v.kind == String && len(v.text) > maxPattern {
			return fmt.Sprintf("is longer than the %d bytes that a pattern may have", maxPattern)
		}
		if v.kind == String && parseLike(v.text, like.escape) == nil {
			return "is not a pattern: a bracket is not closed, or the escape character is the last"
		}
		return ""
	}
	switch pattern := like.pattern.(type) {
	case *constExpr:
		if wrong := fits(pattern.v); wrong != "" {
			p.fail(t, "%s %s", p.span(t), wrong)
		}
	case *paramExpr:
		p.q.checks = append(p.q.checks, check{pattern.index, fits})
	default:
		return like
	}
	like.prep = p.prepare()
	return like
}

func (p *parser) equality() expr { return p.comparison(opEqual, opNotEqual, p.relation) }
func (p *parser) relation() expr { return p.comparison(opLess, opGreaterEqual, p.concat) }

// comparison parses a chain of operators of one level. The service binds || looser than them, unlike
// other SQL, so parentheses are required.
func (p *parser) comparison(from, to compareOp, operand func() expr) expr {
	x := operand()
	for n := 0; ; n++ {
		t := p.peek()
		op, ok := comparisonOf(t.word)
		if !ok || op < from || op > to {
			return x
		}
		bare := p.bareConcat
		p.chain(n)
		p.next()
		x = &compareExpr{op, x, operand()}
		if bare || p.bareConcat {
			p.fail(t, "'%s' beside || needs parentheses", t.word)
		}
	}
}

func comparisonOf(word string) (compareOp, bool) {
	switch word {
	case "=":
		return opEqual, true
	case "!=", "<>":
		return opNotEqual, true
	case "<":
		return opLess, true
	case "<=":
		return opLessEqual, true
	case ">":
		return opGreater, true
	case ">=":
		return opGreaterEqual, true
	}
	return 0, false
}

// chain limits the length of left-recursive operator chains.
func (p *parser) chain(n int) {
	if n > maxDepth {
		p.fail(p.peek(), "More than %d operators in one chain", maxDepth)
	}
}

func (p *parser) concat() expr {
	x := p.sum()
	p.bareConcat = p.is("||")
	if !p.bareConcat {
		return x
	}
	list := []expr{x}
	for p.accept("||") {
		list = append(list, p.sum())
	}
	p.bareConcat = true
	return &concatExpr{list}
}

func (p *parser) sum() expr {
	x := p.product()
	for n := 0; p.is("+") || p.is("-"); n++ {
		p.chain(n)
		op := p.next().word[0]
		x = &arithmetic{op, x, p.product()}
	}
	return x
}

func (p *parser) product() expr {
	x := p.unary()
	for n := 0; p.is("*") || p.is("/") || p.is("%"); n++ {
		p.chain(n)
		op := p.next().word[0]
		x = &arithmetic{op, x, p.unary()}
	}
	return x
}

func (p *parser) unary() expr {
	if !p.is("-") && !p.is("+") {
		return p.primary()
	}
	p.enter()
	defer p.leave()
	negative := p.next().word == "-"
	x := p.unary()
	if c, ok := x.(*constExpr); ok && c.v.kind == Number {
		if negative {
			return &constExpr{number(-c.v.num)}
		}
		return c
	}
	return &signExpr{x, negative}
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case tokNumber:
		f, err := strconv.ParseFloat(p.span(t), 64)
		if err != nil || math.IsInf(f, 0) {
			p.fail(t, "Syntax error, invalid number '%s'", p.span(t))
		}
		return &constExpr{number(f)}
	case tokString:
		return &constExpr{text([]byte(p.string(t)))}
	case tokParam:
		if next := p.peek(); next.word == "." || next.word == "[" {
			p.fail(next, "A property of a parameter is not supported")
		}
		return p.param(t)
	case tokWord:
		return p.word(t)
	}
	switch t.word {
	case "(":
		if next := p.peek(); next.word == "SELECT" {
			p.fail(next, "A subquery is not supported")
		}
		x := p.expression()
		p.expect(")")
		p.bareCoalesce = false
		p.noMember("an expression")
		return x
	case "[":
		list := p.list("]")
		p.noMember("an array")
		return fold(&arrayExpr{list}, list)
	case "{":
		return p.object()
	}
	p.unexpected(t)
	return nil
}

// fold evaluates an array or object of constants.
func fold(x expr, list []expr) expr {
	for _, item := range list {
		if _, ok := item.(*constExpr); !ok {
			return x
		}
	}
	return &constExpr{x.eval(&env{})} // no larger than the text
}

func (p *parser) noMember(of string) {
	if next := p.peek(); next.word == "." || next.word == "[" {
		p.fail(next, "A property of %s is not supported", of)
	}
}

// list parses expressions up to the closing symbol.
func (p *parser) list(closing string) []expr {
	var list []expr
	if p.accept(closing) {
		return nil
	}
	for {
		if t := p.peek(); t.word == "SELECT" {
			p.fail(t, "A subquery is not supported")
		}
		list = append(list, p.expression())
		if !p.accept(",") {
			p.expect(closing)
			return list
		}
	}
}

func (p *parser) object() expr {
	o := new(objectExpr)
	seen := map[string]bool{}
	for !p.accept("}") {
		if len(o.list) > 0 {
			p.expect(",")
		}
		t := p.peek()
		var name string
		if t.kind == tokString {
			name = p.string(p.next())
		} else {
			name = p.name()
		}
		if seen[name] {
			p.fail(t, "The property name '%s' is used twice", name)
		}
		seen[name] = true
		p.expect(":")
		o.names = append(o.names, string(AppendQuoted(nil, []byte(name)))+":")
		o.list = append(o.list, p.expression())
	}
	p.noMember("an object")
	return fold(o, o.list)
}

func (p *parser) string(t token) string {
	s, err := unquoteSQL(p.span(t), int(t.pos))
	if err != nil {
		panic(err)
	}
	return s
}

// param returns a parameter; repeated names share one.
func (p *parser) param(t token) *paramExpr {
	name := p.span(t)
	x := p.params[name]
	if x == nil {
		x = &paramExpr{len(p.q.params)}
		p.params[name] = x
		p.q.params = append(p.q.params, param{name: name, pos: int(t.pos), end: int(t.end)})
	}
	p.q.params[x.index].uses++
	return x
}

// word parses a literal, a call or a path.
func (p *parser) word(t token) expr {
	switch t.word {
	case "", "udf":
	case "true", "false":
		return &constExpr{boolean(t.word == "true")}
	case "null":
		return &constExpr{Value{kind: Null}}
	case "undefined":
		return &constExpr{}
	default:
		p.unexpected(t)
	}
	if p.is("(") {
		return p.call(t)
	}
	return p.pathFrom(t)
}
