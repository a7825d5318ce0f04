package sql

import (
	"slices"
	"strings"

	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/jsonpart"
)

// textFunctions parse the arguments of the functions of full-text search. Their first argument is a property, the
// others do not read the item. The names of those that clients only send rewritten begin with an underscore.
var textFunctions map[string]func(p *parser, t token, args []expr) expr

func init() { // breaks an initialization cycle
	textFunctions = map[string]func(p *parser, t token, args []expr) expr{
		"FULLTEXTCONTAINS":    textConditionParser(false, 1),
		"FULLTEXTCONTAINSALL": textConditionParser(false, maxSearched),
		"FULLTEXTCONTAINSANY": textConditionParser(true, maxSearched),
		"_FULLTEXTSCORE":      (*parser).textScore,
		"_FULLTEXTWORDCOUNT":  (*parser).wordCount,
	}
}

// TextIndex knows the texts of the item that is evaluated.
type TextIndex interface {
	// Words returns the number of words of the text at a path; -1 if it is no string. indexed is false if the path
	// is not indexed.
	Words(path Path) (n int, indexed bool)
	// Positions returns the positions of a term in the text at an indexed path.
	Positions(path Path, term string) []int
}

// WithTexts returns the query for a container, whose texts are analyzed by analyzer: b itself if it searches none.
func (b *Bound) WithTexts(analyzer func(Path) fulltext.Analyzer) *Bound {
	if !b.q.searches {
		return b
	}
	return &Bound{q: b.q, params: b.params, prep: make([]prepared, len(b.prep)), top: b.top, offset: b.offset,
		limit: b.limit, analyzer: analyzer}
}

// textExpr is the text of a property.
type textExpr struct {
	x    expr // a *pathExpr, unless GROUP BY has the property
	path Path
}

// itemText is the text of a property of the current item.
type itemText struct {
	of        *pathExpr
	words     int // -1: no string
	positions func(term string) []int
}

func (t *textExpr) analyzer(e *env) fulltext.Analyzer {
	if e.analyzer == nil {
		return fulltext.For(fulltext.English)
	}
	return e.analyzer(t.path)
}

// text returns the text in the current item, which is analyzed once unless it is indexed.
func (t *textExpr) text(e *env) itemText {
	path, ok := t.x.(*pathExpr)
	if !ok {
		return t.analyze(e, t.x.eval(e))
	}
	for _, known := range e.texts {
		if known.of == path {
			return known
		}
	}
	var found itemText
	words, indexed := 0, false
	if e.index != nil {
		words, indexed = e.index.Words(t.path)
	}
	if indexed {
		found = itemText{words: words, positions: func(term string) []int { return e.index.Positions(t.path, term) }}
	} else {
		found = t.analyze(e, path.eval(e))
	}
	found.of = path
	e.texts = append(e.texts, found)
	return found
}

// analyzing is how many times more than to read a text it is to analyze it.
const analyzing = 8

func (t *textExpr) analyze(e *env, v Value) itemText {
	if v.kind != String || !e.spend("Full-text search", product(analyzing, len(v.text))) {
		return itemText{words: -1}
	}
	text := t.analyzer(e).Analyze(v.text)
	return itemText{words: text.Words, positions: func(term string) []int { return text.Positions[term] }}
}

// finding is the work of finding the positions of a term in a text.
const finding = 1 << 10

// count returns how often the text has a phrase.
func (t *itemText) count(e *env, p fulltext.Phrase) int {
	return p.Count(func(term string) []int {
		if !e.spend("Full-text search", finding) {
			return nil
		}
		return t.positions(term)
	})
}

// phrases returns the phrases of literals and parameters.
func (t *textExpr) phrases(e *env, terms []expr) []fulltext.Phrase {
	list := make([]fulltext.Phrase, 0, len(terms))
	for _, x := range terms {
		list = append(list, t.analyzer(e).Phrase(x.eval(e).text))
	}
	return list
}

// textCondition is FullTextContains, FullTextContainsAll or FullTextContainsAny.
type textCondition struct {
	textExpr
	terms []expr // literals and parameters
	any   bool
	prep  *int // index of the prepared phrases
}

func (c *textCondition) eval(e *env) Value { return c.test(e).value() }

func (c *textCondition) test(e *env) truth {
	text := c.text(e)
	if text.words < 0 {
		return unknown
	}
	for _, p := range c.prepared(e) {
		if (text.count(e, p) > 0) == c.any {
			return truthOf(c.any)
		}
	}
	return truthOf(!c.any)
}

func (c *textCondition) prepared(e *env) []fulltext.Phrase {
	p := &e.prep[*c.prep]
	if list, ok := p.Load().([]fulltext.Phrase); ok {
		return list
	}
	list := c.phrases(e, c.terms)
	p.Store(list)
	return list
}

// textConditionParser returns the parser of a function that takes up to most terms.
func textConditionParser(anyOf bool, most int) func(p *parser, t token, args []expr) expr {
	return func(p *parser, t token, args []expr) expr {
		if len(args) < 2 || len(args) > 1+most {
			p.fail(t, "The function %s does not take %d arguments", p.span(t), len(args))
		}
		c := &textCondition{textExpr: p.textOf(t, args), terms: args[1:], any: anyOf, prep: p.prepare()}
		p.checkTerms(t, c.terms)
		return c
	}
}

// textOf returns the text of a function's first argument.
func (p *parser) textOf(t token, args []expr) textExpr {
	p.q.searches = true
	path, ok := args[0].(*pathExpr)
	if !ok || path.path == nil {
		p.fail(t, "%s of anything but a property is not supported", p.span(t))
	}
	return textExpr{path, path.path}
}

// checkTerms checks what a query searches for: literal strings, and parameters, which Bind checks.
func (p *parser) checkTerms(t token, terms []expr) {
	for _, x := range terms {
		switch x := x.(type) {
		case *constExpr:
			if x.v.kind == String {
				continue
			}
		case *paramExpr:
			p.q.checks = append(p.q.checks, check{x.index, func(v Value) string {
				if v.kind != String {
					return "is not a string, as a full-text search takes them"
				}
				return ""
			}})
			continue
		}
		p.fail(t, "%s of anything but literal strings and parameters is not supported", p.span(t))
	}
}

// wordCount is _FullTextWordCount.
type wordCount struct{ textExpr }

func (w *wordCount) eval(e *env) Value {
	text := w.text(e)
	if text.words < 0 {
		return Value{}
	}
	return number(float64(text.words))
}

func (p *parser) wordCount(t token, args []expr) expr {
	if len(args) != 1 {
		p.fail(t, "The function %s does not take %d arguments", p.span(t), len(args))
	}
	return &wordCount{p.textOf(t, args)}
}

// textScore is _FullTextScore: the score of a text for terms, given the number of items, the number of words in all
// texts and, of each term, in how many items it is.
type textScore struct {
	textExpr
	terms []expr
	items expr
	words expr
	hits  []expr
	prep  *int // index of the prepared *scoring
}

// scoring is what a textScore searches for.
type scoring struct {
	phrases    []fulltext.Phrase
	hits       []int
	collection fulltext.Collection
}

func (s *textScore) eval(e *env) Value {
	text := s.text(e)
	if text.words < 0 {
		return Value{}
	}
	scoring := s.prepared(e)
	sum := 0.0
	for i, p := range scoring.phrases {
		sum += scoring.collection.Score(text.count(e, p), text.words, scoring.hits[i])
	}
	return number(sum)
}

func (s *textScore) prepared(e *env) *scoring {
	p := &e.prep[*s.prep]
	if known, ok := p.Load().(*scoring); ok {
		return known
	}
	x := &scoring{phrases: s.phrases(e, s.terms),
		collection: fulltext.Collection{Texts: int(s.items.eval(e).num), Words: int(s.words.eval(e).num)}}
	for _, hits := range s.hits {
		x.hits = append(x.hits, int(hits.eval(e).num))
	}
	p.Store(x)
	return x
}

func (p *parser) textScore(t token, args []expr) expr {
	if len(args) != 5 {
		p.fail(t, "The function %s does not take %d arguments", p.span(t), len(args))
	}
	s := &textScore{textExpr: p.textOf(t, args), terms: p.elements(t, args[1]), items: args[2], words: args[3],
		hits: p.elements(t, args[4]), prep: p.prepare()}
	p.checkTerms(t, s.terms)
	if len(s.terms) > maxSearched {
		p.fail(t, "%s with more than %d terms is not supported", p.span(t), maxSearched)
	}
	if len(s.terms) != len(s.hits) {
		p.fail(t, "%s with %d terms needs as many numbers of items, not %d", p.span(t), len(s.terms), len(s.hits))
	}
	for _, x := range append([]expr{s.items, s.words}, s.hits...) {
		if c, ok := x.(*constExpr); !ok || c.v.kind != Number || c.v.num < 0 || c.v.num > maxStatistic {
			p.fail(t, "The statistics of %s are not numbers from 0 to %d", p.span(t), maxStatistic)
		}
	}
	return s
}

// maxStatistic bounds the numbers of items and words.
const maxStatistic = 1 << 50

// elements returns the elements of an array in the query's text.
func (p *parser) elements(t token, x expr) []expr {
	switch x := x.(type) {
	case *arrayExpr:
		return x.list
	case *constExpr:
		if x.v.kind == Array {
			var list []expr
			for s := (jsonpart.Elements{Text: x.v.text, At: 1}); ; {
				raw, ok := s.Next()
				if !ok {
					return list
				}
				list = append(list, &constExpr{ValueOf(raw)})
			}
		}
	}
	p.fail(t, "%s with anything but arrays of terms and numbers is not supported", p.span(t))
	return nil
}

// TextCondition is a full-text condition that every matching item fulfills.
type TextCondition struct {
	Path    Path
	Phrases []fulltext.Phrase
	Any     bool // of the phrases; else all
}

// TextConditions returns the full-text conditions that WHERE joins by AND.
func (b *Bound) TextConditions() []TextCondition {
	e := newEnv(b, nil)
	defer e.release()
	var list []TextCondition
	for _, c := range b.q.textConditions {
		list = append(list, TextCondition{c.path, c.prepared(e), c.any})
	}
	return list
}

// textConditions returns the full-text conditions of an AND.
func textConditions(where cond) (list []*textCondition) {
	switch c := where.(type) {
	case *textCondition:
		return []*textCondition{c}
	case *andExpr:
		for _, part := range c.list {
			list = append(list, textConditions(part)...)
		}
	}
	return list
}

// Ranking returns the condition that the items fulfill that ORDER BY _FullTextScore(...) DESC puts first: the score of
// all others is 0 or undefined.
func (b *Bound) Ranking() (first TextCondition, ok bool) {
	if len(b.q.order) == 0 || b.q.order[0].score == nil || !b.q.order[0].Desc {
		return first, false
	}
	e := newEnv(b, nil)
	defer e.release()
	s := b.q.order[0].score
	scoring := s.prepared(e)
	all := scoring.collection
	ok = all.Texts > 0 && all.Words > 0
	for _, hits := range scoring.hits {
		ok = ok && hits <= all.Texts // else the score may be negative
	}
	return TextCondition{s.path, scoring.phrases, true}, ok
}

// besides is what a query with full-text functions reads besides the texts of these.
type besides struct {
	texts  []Path // of all functions
	filter []Path // of WHERE; nil for what is not known by its path
	others int    // conditions that WHERE joins by AND besides textConditions, true and restrictions of properties
	sorted bool   // ORDER BY reads properties
	rows   bool   // SELECT or GROUP BY reads properties
}

func (q *Query) readsBesides() (b besides) {
	read := func(x expr) (paths []Path) {
		text := func(t *textExpr, x expr) expr {
			b.texts = append(b.texts, t.path)
			return x
		}
		rewrite(x, func(x expr) expr {
			switch x := x.(type) {
			case *textCondition:
				return text(&x.textExpr, x)
			case *wordCount:
				return text(&x.textExpr, x)
			case *textScore:
				return text(&x.textExpr, x)
			case *pathExpr:
				paths = append(paths, x.path)
			}
			return nil
		})
		return paths
	}
	if q.where != nil {
		b.filter, b.others = read(q.where), otherConditions(q.where)
	}
	for _, o := range q.order {
		if o.score == nil {
			b.sorted = true
		} else {
			b.texts = append(b.texts, o.score.path)
		}
	}
	rows := append([]expr{q.row}, q.groupBy...)
	for _, a := range q.aggregates {
		rows = append(rows, a.arg)
	}
	for _, x := range rows {
		b.rows = len(read(x)) > 0 || b.rows
	}
	return b
}

func otherConditions(where cond) (n int) {
	switch c := where.(type) {
	case *textCondition:
		return 0
	case *andExpr:
		for _, part := range c.list {
			n += otherConditions(part)
		}
		return n
	case *truthExpr:
		if x, ok := c.x.(*constExpr); ok && x.v.yes {
			return 0
		}
	}
	if atomOf(where).op == opaque {
		return 1
	}
	return 0
}

// CoveredByTexts reports whether the items match that fulfill TextConditions and have the values of Equal on eq.
func (b *Bound) CoveredByTexts(eq []Path) bool {
	for i, a := range b.q.conjuncts {
		if a.op == opaque {
			continue
		}
		isPath := func(p Path) bool { return slices.Equal(p, a.path) }
		if _, at := b.equal(a.path); at != i || !slices.ContainsFunc(eq, isPath) {
			return false
		}
	}
	return b.q.besides.others == 0
}

// TextsOnly reports what can be computed from texts and certain other properties alone: which items match and their
// order, and, with that, the rows. indexed reports whether the text at a path is known.
func (b *Bound) TextsOnly(others []Path, indexed func(Path) bool) (order, filter, rows bool) {
	q := b.q
	if !q.searches || slices.ContainsFunc(q.besides.texts, func(p Path) bool { return !indexed(p) }) {
		return false, false, false
	}
	order = !q.besides.sorted
	filter = order && (b.Aggregates() || q.alwaysHasRow()) && !slices.ContainsFunc(q.besides.filter, func(p Path) bool {
		return p == nil || !slices.ContainsFunc(others, func(o Path) bool { return slices.Equal(o, p) })
	})
	return order, filter, filter && !q.besides.rows
}

// rankTokens is a component of ORDER BY RANK: the tokens of a property and of terms.
type rankTokens struct {
	path  [2]int
	terms [][2]int
}

// Ranks reports whether the query has an ORDER BY RANK, which only a client can execute, by its plan.
func (b *Bound) Ranks() bool { return b.q.ranks }

// Searches reports whether the query reads texts.
func (b *Bound) Searches() bool { return b.q.searches }

// maxSearched bounds the scores of ORDER BY RANK, and the terms of each search.
const maxSearched = 100

// rank parses what follows ORDER BY RANK.
func (p *parser) rank() {
	p.q.ranks = true
	t := p.next()
	if t.kind != tokWord || p.peek().word != "(" {
		p.unexpected(t)
	}
	if !strings.EqualFold(p.span(t), "RRF") {
		p.rankScore(t)
		return
	}
	p.expect("(")
	for {
		if p.is("[") {
			p.weights()
			break
		}
		p.rankScore(p.next())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	switch n := len(p.ranks); {
	case n < 2:
		p.fail(t, "RRF takes two scores or more")
	case n > maxSearched:
		p.fail(t, "RRF with more than %d scores is not supported", maxSearched)
	case p.rankWeights != nil && len(p.rankWeights) != n:
		p.fail(t, "RRF of %d scores takes as many weights, not %d", n, len(p.rankWeights))
	}
}

// rankScore parses a FullTextScore.
func (p *parser) rankScore(t token) {
	if t.kind != tokWord || p.peek().word != "(" {
		p.unexpected(t)
	}
	if !strings.EqualFold(p.span(t), "FULLTEXTSCORE") {
		p.fail(t, "ORDER BY RANK %s is not supported", p.span(t))
	}
	p.expect("(")
	r := rankTokens{path: [2]int{p.i, 0}}
	args := []expr{p.expression()}
	r.path[1] = p.i
	p.textOf(t, args)
	if !p.is(",") {
		p.fail(t, "The function %s does not take 1 arguments", p.span(t))
	}
	p.next()
	array := p.accept("[")
	for {
		from := p.i
		x := p.expression()
		p.checkTerms(t, []expr{x})
		if r.terms = append(r.terms, [2]int{from, p.i}); len(r.terms) > maxSearched {
			p.fail(t, "%s with more than %d terms is not supported", p.span(t), maxSearched)
		}
		if !p.accept(",") {
			break
		}
	}
	if array {
		p.expect("]")
	}
	p.expect(")")
	p.ranks = append(p.ranks, r)
}

// weights parses the weights of RRF.
func (p *parser) weights() {
	t := p.peek()
	for _, x := range p.elements(t, p.primary()) {
		c, ok := x.(*constExpr)
		if !ok || c.v.kind != Number {
			p.fail(t, "The weights of RRF are not numbers")
		}
		p.rankWeights = append(p.rankWeights, c.v.num)
	}
}

// orderedBySearch parses what ORDER BY has of full-text search. It reports false if that begins with a property.
func (p *parser) orderedBySearch(t, next token) bool {
	switch {
	case strings.EqualFold(p.span(t), "RANK") && next.kind == tokWord:
		p.next()
		p.rank()
		if p.q.distinct || p.is(",") {
			p.fail(t, "ORDER BY RANK beside DISTINCT or another term is not supported")
		}
	case strings.EqualFold(p.span(t), "_FULLTEXTSCORE") && next.word == "(":
		p.orderByScore()
	default:
		return false
	}
	return true
}

// orderByScore parses ORDER BY _FullTextScore, which clients send for ORDER BY RANK.
func (p *parser) orderByScore() {
	t := p.peek()
	score, ok := p.primary().(*textScore)
	if !ok || isOperator(p.peek()) {
		p.fail(t, "ORDER BY anything but a property is not supported")
	}
	end := p.tokens[p.i-1].end
	term := Order{Score: p.text[t.pos:end], score: score}
	if !p.accept("ASC") {
		term.Desc = p.accept("DESC")
	}
	if next := p.peek(); next.word == "," || p.q.distinct {
		p.fail(t, "ORDER BY %s beside DISTINCT or another term is not supported", p.span(t))
	}
	p.q.order = []Order{term}
}
