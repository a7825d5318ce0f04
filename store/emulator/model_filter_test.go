package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"
)

// truth is the value of a filter for a document.
type truth int

const (
	no truth = iota
	yes
	unknown // undefined
)

// filter is a WHERE clause, as SQL and as a Go function.
type filter interface {
	sql(b *binder) string
	eval(doc map[string]any) truth
}

// binder collects a query's parameters. A nil binder writes literals.
type binder struct{ params []azcosmos.QueryParameter }

func (b *binder) value(v any) string {
	if b != nil {
		name := fmt.Sprintf("@p%d", len(b.params))
		b.params = append(b.params, azcosmos.QueryParameter{Name: name, Value: v})
		return name
	}
	if s, ok := v.(string); ok { // single quotes: azcosmos pastes conditions into JSON
		return "'" + s + "'"
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

type comparison struct {
	path, op string
	value    any
	flipped  bool // value on the left
}

func (c comparison) sql(b *binder) string {
	if c.flipped {
		return b.value(c.value) + " " + c.op + " c." + c.path
	}
	return "c." + c.path + " " + c.op + " " + b.value(c.value)
}

func (c comparison) eval(doc map[string]any) truth {
	a, ok := at(doc, c.path)
	if !ok {
		return unknown
	}
	rank, sign := typeRank(a), order(a, c.value)
	if c.flipped {
		sign = -sign
	}
	switch c.op {
	case "=":
		return toTruth(sign == 0)
	case "!=":
		return toTruth(sign != 0)
	}
	if rank != typeRank(c.value) || rank >= 5 {
		return unknown
	}
	switch c.op {
	case "<":
		return toTruth(sign < 0)
	case "<=":
		return toTruth(sign <= 0)
	case ">":
		return toTruth(sign > 0)
	}
	return toTruth(sign >= 0)
}

type between struct {
	path      string
	low, high any
}

func (f between) sql(b *binder) string {
	return "c." + f.path + " BETWEEN " + b.value(f.low) + " AND " + b.value(f.high)
}

func (f between) eval(doc map[string]any) truth {
	return junction{list: []filter{comparison{path: f.path, op: ">=", value: f.low},
		comparison{path: f.path, op: "<=", value: f.high}}}.eval(doc)
}

// longValues have a common prefix about as long as maxRangeValue.
var longValues = []any{strings.Repeat("l", 300) + "1", strings.Repeat("l", 300) + "2", strings.Repeat("l", 300),
	strings.Repeat("l", 250)}

type inList struct {
	path   string
	values []any
}

func (f inList) sql(b *binder) string {
	var list []string
	for _, v := range f.values {
		list = append(list, b.value(v))
	}
	return "c." + f.path + " IN (" + strings.Join(list, ", ") + ")"
}

func (f inList) eval(doc map[string]any) truth {
	v, ok := at(doc, f.path)
	if !ok {
		return unknown
	}
	return toTruth(slices.ContainsFunc(f.values, func(w any) bool { return order(v, w) == 0 }))
}

type prefixOf struct{ path, prefix string }

func (f prefixOf) sql(b *binder) string {
	return "STARTSWITH(c." + f.path + ", " + b.value(f.prefix) + ")"
}

func (f prefixOf) eval(doc map[string]any) truth {
	v, _ := at(doc, f.path)
	s, ok := v.(string)
	if !ok {
		return unknown
	}
	return toTruth(strings.HasPrefix(s, f.prefix))
}

type defined struct{ path string }

func (f defined) sql(*binder) string { return "IS_DEFINED(c." + f.path + ")" }

func (f defined) eval(doc map[string]any) truth {
	_, ok := at(doc, f.path)
	return toTruth(ok)
}

type negation struct{ f filter }

func (f negation) sql(b *binder) string { return "NOT (" + f.f.sql(b) + ")" }

func (f negation) eval(doc map[string]any) truth {
	switch f.f.eval(doc) {
	case yes:
		return no
	case no:
		return yes
	}
	return unknown
}

// junction is AND or OR. An empty AND is true.
type junction struct {
	or   bool
	list []filter
}

func (f junction) sql(b *binder) string {
	var list []string
	for _, one := range f.list {
		list = append(list, "("+one.sql(b)+")")
	}
	if f.or {
		return strings.Join(list, " OR ")
	}
	return strings.Join(list, " AND ")
}

func (f junction) eval(doc map[string]any) truth {
	decisive, out := no, yes
	if f.or {
		decisive, out = yes, no
	}
	for _, one := range f.list {
		switch one.eval(doc) {
		case decisive:
			return decisive
		case unknown:
			out = unknown
		}
	}
	return out
}

func toTruth(b bool) truth {
	if b {
		return yes
	}
	return no
}

// at returns a property, which may be nested.
func at(doc map[string]any, path string) (any, bool) {
	var v any = doc
	for _, step := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[step]; !ok {
			return nil, false
		}
	}
	return v, true
}

// typeRank is the rank of a value's type in the type order. Undefined, which has no Go value, is the lowest.
func typeRank(v any) int {
	switch v.(type) {
	case nil:
		return 1
	case bool:
		return 2
	case float64:
		return 3
	case string:
		return 4
	case []any:
		return 5
	}
	return 6
}

// order compares two values.
func order(a, b any) int {
	if x, y := typeRank(a), typeRank(b); x != y {
		return x - y
	}
	switch a := a.(type) {
	case bool:
		if a == b.(bool) {
			return 0
		} else if a {
			return 1
		}
		return -1
	case float64:
		switch b := b.(float64); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	case string:
		return strings.Compare(a, b.(string))
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return strings.Compare(string(x), string(y))
}

func drawComparison(t *rapid.T) comparison {
	c := comparison{op: rapid.SampledFrom([]string{"=", "=", "!=", "<", "<=", ">", ">="}).Draw(t, "comparison"),
		flipped: rapid.IntRange(0, 4).Draw(t, "flipped") == 0}
	c.path = rapid.SampledFrom([]string{"n", "n", "s", "t", "id", "o.k", "list"}).Draw(t, "path")
	c.value = drawValue(t, c.path)
	return c
}

func drawValue(t *rapid.T, path string) any {
	switch path {
	case "t":
		return rapid.SampledFrom([]any{"x", "y"}).Draw(t, "value")
	case "n", "o.k":
		return rapid.SampledFrom([]any{-1.0, 0.0, 1.0, 2.0, 2.5, 1e20, "1", nil, true}).Draw(t, "value")
	case "s":
		return rapid.SampledFrom(append([]any{"", "a", "ab", "b", "é", 3.0}, longValues...)).Draw(t, "value")
	}
	return rapid.SampledFrom([]any{"a", "b", "c", "é f"}).Draw(t, "value")
}

func drawFilter(t *rapid.T, depth int) filter {
	switch kind := rapid.IntRange(0, 12).Draw(t, "filter"); {
	case kind < 4 && depth > 0:
		f := junction{or: kind == 0}
		for range rapid.IntRange(2, 3).Draw(t, "parts") {
			f.list = append(f.list, drawFilter(t, depth-1))
		}
		return f
	case kind == 4 && depth > 0:
		return negation{drawFilter(t, depth-1)}
	case kind == 5:
		f := inList{path: rapid.SampledFrom([]string{"id", "n", "t", "s"}).Draw(t, "path")}
		for range rapid.IntRange(1, 3).Draw(t, "values") {
			f.values = append(f.values, drawValue(t, f.path))
		}
		return f
	case kind == 6:
		return prefixOf{rapid.SampledFrom([]string{"s", "id", "n"}).Draw(t, "path"),
			rapid.SampledFrom([]string{"", "a", "é"}).Draw(t, "prefix")}
	case kind == 8:
		path := rapid.SampledFrom([]string{"n", "s", "id", "o.k"}).Draw(t, "path")
		return between{path, drawValue(t, path), drawValue(t, path)}
	case kind == 7:
		return defined{rapid.SampledFrom([]string{"s", "n", "o.k", "list"}).Draw(t, "path")}
	}
	return drawComparison(t)
}
