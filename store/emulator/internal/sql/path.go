package sql

import (
	"strconv"
	"strings"
)

// Path is a path into a document: property names and, in Lookup, array indexes.
type Path []string

// String renders the path as an indexing policy does: /author/name.
func (p Path) String() string { return "/" + strings.Join(p, "/") }

// Lookup returns the value at p, or undefined. In an array, a number in p is an index. The first of
// repeated names counts. Lookup reads no more of doc than necessary; the Value shares its bytes.
func Lookup(doc []byte, p Path) Value {
	raw := doc
	for _, name := range p {
		if len(raw) > 0 && raw[0] == '[' {
			n, ok := arrayIndex(name)
			if !ok {
				return Value{}
			}
			raw = element(raw, n)
		} else {
			raw = member(raw, name)
		}
		if raw == nil {
			return Value{}
		}
	}
	return ValueOf(raw)
}

// arrayIndex parses a number as an indexing path would write it.
func arrayIndex(name string) (int, bool) {
	n, err := strconv.ParseUint(name, 10, 31)
	return int(n), err == nil && (name == "0" || name[0] != '0' && name[0] != '+')
}

// plain reports whether Lookup and an expression read the same property by p: no name could be an
// index.
func (p Path) plain() bool {
	for _, name := range p {
		if _, ok := arrayIndex(name); ok {
			return false
		}
	}
	return len(p) > 0
}
