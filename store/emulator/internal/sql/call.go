package sql

import "strings"

// call parses the arguments of a function or an aggregate.
func (p *parser) call(t token) expr {
	name := strings.ToUpper(p.span(t))
	p.expect("(")
	p.enter()
	defer p.leave()
	if agg, ok := aggregateKinds[name]; ok {
		return p.aggregate(t, name, agg)
	}
	parseText, isText := textFunctions[name]
	if isText {
		args := p.list(")")
		p.noMember("a function's result")
		return parseText(p, t, args)
	}
	f, ok := functions[name]
	if name == "FULLTEXTSCORE" || name == "RRF" {
		p.fail(t, "%s anywhere but in ORDER BY RANK is not supported", p.span(t))
	}
	if !ok && name != "REGEXMATCH" {
		p.fail(t, "The function %s is not supported", p.span(t))
	}
	args := p.list(")")
	p.noMember("a function's result")
	if name == "REGEXMATCH" {
		return p.regex(t, args)
	}
	if len(args) < f.min || len(args) > f.max {
		p.fail(t, "The function %s does not take %d arguments", p.span(t), len(args))
	}
	return &callExpr{name, f, args, costs[name]}
}

func (p *parser) aggregate(t token, name string, kind aggregateKind) expr {
	if p.noAgg != "" {
		p.fail(t, "The aggregate %s %s is not supported", name, p.noAgg)
	}
	if star := p.peek(); star.word == "*" {
		p.fail(star, "%s(*) is not supported", name)
	}
	if distinct := p.peek(); distinct.word == "DISTINCT" {
		p.fail(distinct, "%s(DISTINCT) is not supported", name)
	}
	p.noAgg = "within an aggregate"
	args := p.list(")")
	p.noAgg = ""
	p.noMember("a function's result")
	if len(args) != 1 {
		p.fail(t, "The aggregate %s does not take %d arguments", name, len(args))
	}
	a := &aggregateExpr{kind, args[0], len(p.q.aggregates)}
	p.q.aggregates = append(p.q.aggregates, a)
	return a
}

// regex parses the arguments of REGEXMATCH. The pattern has to be a literal or a parameter, so that
// Bind can refuse an invalid one.
func (p *parser) regex(t token, args []expr) expr {
	if len(args) != 2 && len(args) != 3 {
		p.fail(t, "The function %s does not take %d arguments", p.span(t), len(args))
	}
	r := &regexExpr{x: args[0], pattern: args[1], modifiers: &constExpr{text(nil)}, prep: p.prepare()}
	if len(args) == 3 {
		r.modifiers = args[2]
	}
	m, constant := r.modifiers.(*constExpr)
	if !constant || m.v.kind != String {
		p.fail(t, "REGEXMATCH with modifiers that are no literal string is not supported")
	}
	fits := func(v Value) string {
		if v.kind != String {
			return ""
		}
		_, wrong := compileRegex(v.text, m.v.text)
		return wrong
	}
	switch pattern := r.pattern.(type) {
	case *constExpr:
		if wrong := fits(pattern.v); wrong != "" {
			p.fail(t, "The pattern of REGEXMATCH %s", wrong)
		}
	case *paramExpr:
		p.q.checks = append(p.q.checks, check{pattern.index, fits})
	default:
		p.fail(t, "REGEXMATCH with a pattern that is no literal or parameter is not supported")
	}
	return r
}
