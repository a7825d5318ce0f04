package search

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"byline/store/blog"
	"byline/store/cosmos"
)

// Limits of a query.
const (
	MaxQuery = 1000 // characters
	MaxTerms = 10
)

// Query is a parsed search query. The zero value is invalid.
type Query struct {
	must []term // all of them; at least one
	not  []term // none of them
}

// term is a word or a phrase of a query.
type term struct {
	text  string
	key   string // the same for terms that are searched for alike
	words []word // without stop words; at least one
}

// Parse parses a search query: words and "phrases", all of which a post must have, and those that it must not have,
// with a hyphen in front. A last quotation mark may be missing. Stop words alone are ignored, as Cosmos DB finds none.
// Invalid if the query has more than MaxQuery characters or MaxTerms terms, or nothing to search for.
func Parse(op, text string) (Query, error) {
	var q Query
	if utf8.RuneCountInString(text) > MaxQuery {
		return q, blog.Invalidf(op, "query", blog.ReasonTooLong, "must have at most %d characters", MaxQuery)
	}
	text = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`).Replace(strings.ToValidUTF8(text, " "))
	for {
		text = strings.TrimLeftFunc(text, isSpace)
		if text == "" {
			break
		}
		rest, excluded := strings.CutPrefix(text, "-")
		var one string
		if phrase, ok := strings.CutPrefix(rest, `"`); ok {
			one, text, _ = strings.Cut(phrase, `"`)
		} else {
			end := strings.IndexFunc(rest, func(r rune) bool { return isSpace(r) || r == '"' })
			if end < 0 {
				end = len(rest)
			}
			one, text = rest[:end], rest[end:]
		}
		if excluded {
			q.not = appendTerm(q.not, one)
		} else {
			q.must = appendTerm(q.must, one)
		}
		if len(q.must)+len(q.not) > MaxTerms {
			return q, blog.Invalidf(op, "query", blog.ReasonTooMany, "must have at most %d words and phrases", MaxTerms)
		}
	}
	switch {
	case len(q.must) == 0 && len(q.not) == 0:
		return q, blog.Invalidf(op, "query", blog.ReasonBlank, "must have a word other than the most common ones")
	case len(q.must) == 0:
		return q, blog.Invalidf(op, "query", blog.ReasonFormat, "must have a word that is not excluded")
	}
	return q, nil
}

// isSpace reports whether a character is between words, as no text has others than these and characters that can be
// seen.
func isSpace(r rune) bool { return strings.ContainsRune(" \t\r\n\v\f\u0085\u00a0\u3000\x00", r) }

// appendTerm appends a term to a list, unless the list has it, or it has nothing to search for.
func appendTerm(list []term, text string) []term {
	one := term{text: strings.Join(strings.FieldsFunc(text, isSpace), " ")}
	var key []byte
	for w := range wordsOf(one.text) {
		if w.stem != "" {
			one.words = append(one.words, w)
			key = strconv.AppendInt(key, int64(w.position-one.words[0].position), 10)
			key = append(append(append(key, ' '), w.stem...), '\n')
		}
	}
	one.key = string(key)
	if len(one.words) == 0 || slices.ContainsFunc(list, func(other term) bool { return other.key == one.key }) {
		return list
	}
	return append(list, one)
}

// sql returns the term as a literal.
func (t *term) sql() string { return quote(t.text) }

// quote returns a text as a literal of SQL, whose strings are those of JSON.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // cannot fail
	return string(quoted)
}

// literals returns terms as literals, separated by commas.
func literals(terms []term) string {
	all := make([]string, len(terms))
	for i := range terms {
		all[i] = terms[i].sql()
	}
	return strings.Join(all, ", ")
}

// String returns the query in its syntax. It is the same for queries that differ in what is ignored only.
func (q Query) String() string {
	var all []string
	for _, t := range q.must {
		all = append(all, `"`+t.text+`"`)
	}
	for _, t := range q.not {
		all = append(all, `-"`+t.text+`"`)
	}
	return strings.Join(all, " ")
}

// Filter restricts a search. The zero value restricts nothing.
type Filter struct {
	Tag      string // a key, see blog.ParseTag
	AuthorID string
}

// where returns a query of a decade with a condition that the posts of a search fulfill: where is to be part of its
// text. It names the partition although the request does, as an index may cover several.
func (q Query) where(f Filter, decade string) (request cosmos.Query, where string) {
	request = cosmos.Query{Partition: decade}.With("@decade", decade)
	where = "c.decade = @decade AND FullTextContainsAll(c.text, " + literals(q.must) + ")"
	for _, t := range q.not {
		where += " AND NOT FullTextContains(c.text, " + t.sql() + ")"
	}
	if f.AuthorID != "" {
		request, where = request.With("@author", f.AuthorID), where+" AND c.userId = @author"
	}
	if f.Tag != "" {
		request, where = request.With("@tag", f.Tag), where+" AND ARRAY_CONTAINS(c.tags, @tag)"
	}
	return request, where
}
