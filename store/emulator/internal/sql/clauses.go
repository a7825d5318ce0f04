package sql

import (
	"slices"
	"strings"
)

// Clauses are the parts of a query's text, for a client or gateway that rewrites it.
type Clauses struct {
	Alias    string // root of paths
	Distinct bool
	Value    bool // SELECT VALUE
	Columns  []Column
	From     string // with the alias
	Where    string // "" if missing
	GroupBy  []string
	OrderBy  []string // the paths

	Rank    []Rank    // the scores of ORDER BY RANK
	Weights []float64 // of RRF; nil if it has none

	Aggregates int // number of aggregates in the columns
}

// Rank is a FullTextScore: the text of its property and of its terms.
type Rank struct {
	Path  string
	Terms []string
}

// Column is one expression of SELECT. A * is the alias of FROM, under VALUE.
type Column struct {
	Name      string // property name; "" under VALUE
	Text      string
	Source    string // with its alias
	Aggregate string // COUNT and so on, if the column is just an aggregate; else ""
	Argument  string // of the aggregate
}

// Split returns the clauses of a text that Parse accepts.
func Split(text string) (Clauses, error) {
	var p *parser
	q, err := parse(text, func(started *parser) {
		p = started
		p.query()
	})
	if err != nil {
		return Clauses{}, err
	}
	s := splitter{text: text, tokens: p.tokens}
	c := s.split(p.columns)
	c.Aggregates = len(q.aggregates)
	if c.Weights = p.rankWeights; q.ranks {
		c.OrderBy = nil
	}
	for _, r := range p.ranks {
		rank := Rank{Path: s.between(r.path[0], r.path[1])}
		for _, term := range r.terms {
			rank.Terms = append(rank.Terms, s.between(term[0], term[1]))
		}
		c.Rank = append(c.Rank, rank)
	}
	return c, nil
}

// splitter walks the tokens of a valid query.
type splitter struct {
	text   string
	tokens []token
	i      int
}

func (s *splitter) is(word string) bool {
	t := s.tokens[s.i]
	return t.word == word && (t.kind == tokWord || t.kind == tokSymbol)
}

func (s *splitter) accept(word string) bool {
	if s.is(word) {
		s.i++
		return true
	}
	return false
}

// between returns the text of the tokens [from, to).
func (s *splitter) between(from, to int) string {
	if from >= to {
		return ""
	}
	return s.text[s.tokens[from].pos:s.tokens[to-1].end]
}

// until skips to the next of some words outside parentheses.
func (s *splitter) until(words ...string) {
	for depth := 0; s.tokens[s.i].kind != tokEnd; s.i++ {
		t := s.tokens[s.i]
		if t.kind != tokSymbol && t.kind != tokWord {
			continue
		}
		if depth == 0 && slices.Contains(words, t.word) {
			return
		}
		switch t.word {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
	}
}

// list splits at commas.
func (s *splitter) list(end ...string) (parts [][2]int) {
	for {
		from := s.i
		s.until(append(end, ",")...)
		parts = append(parts, [2]int{from, s.i})
		if !s.accept(",") {
			return parts
		}
	}
}

func (s *splitter) split(columns []columnTokens) Clauses {
	var c Clauses
	s.accept("SELECT")
	c.Distinct = s.accept("DISTINCT")
	if s.accept("TOP") {
		s.i++
	}
	c.Value = s.accept("VALUE")
	for _, one := range columns {
		c.Columns = append(c.Columns, s.column(one))
		s.i = one.to
	}
	s.accept("FROM")
	from := s.i
	s.until("WHERE", "GROUP", "ORDER", "OFFSET")
	c.From, c.Alias = s.between(from, s.i), s.between(s.i-1, s.i)
	if !c.Value && len(c.Columns) == 1 && c.Columns[0].Text == "*" {
		c.Value, c.Columns[0] = true, Column{Text: c.Alias, Source: c.Alias}
	}
	if s.accept("WHERE") {
		from := s.i
		s.until("GROUP", "ORDER", "OFFSET")
		c.Where = s.between(from, s.i)
	}
	if s.accept("GROUP") {
		s.accept("BY")
		for _, part := range s.list("ORDER", "OFFSET") {
			c.GroupBy = append(c.GroupBy, s.between(part[0], part[1]))
		}
	}
	if s.accept("ORDER") {
		s.accept("BY")
		for _, part := range s.list("OFFSET") {
			if last := s.tokens[part[1]-1]; last.word == "ASC" || last.word == "DESC" {
				part[1]--
			}
			c.OrderBy = append(c.OrderBy, s.between(part[0], part[1]))
		}
	}
	return c
}

// column returns a column.
func (s *splitter) column(of columnTokens) Column {
	from, to := of.from, of.end
	c := Column{Name: of.name, Text: s.between(from, to), Source: s.between(from, of.to)}
	if to-from < 3 || s.tokens[from].kind != tokWord || s.tokens[from+1].word != "(" || s.tokens[to-1].word != ")" {
		return c
	}
	name := strings.ToUpper(s.between(from, from+1))
	if _, ok := aggregateKinds[name]; !ok {
		return c
	}
	at := s.i
	s.i = from + 2
	s.until(")")
	if s.i == to-1 { // nothing follows the call
		c.Aggregate, c.Argument = name, s.between(from+2, to-1)
	}
	s.i = at
	return c
}
