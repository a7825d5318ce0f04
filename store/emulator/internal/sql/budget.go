package sql

import (
	"unicode/utf8"

	"byline/internal/jsonpart"
)

// What one run of a query over one document may make and do. Sizes are checked
// before room is made for what a function or an operator returns, as far as its
// arguments tell them; otherwise it is at most a few times their size.
const (
	// maxValue is the most bytes of a string or array that a function or an
	// operator returns, about what an item may have.
	maxValue = 2 << 20
	// maxRow is the most bytes of a row, and of an array or object in the query:
	// two items, so that the largest one has room beside what else is selected.
	maxRow = 2*maxValue + 64<<10
	// maxWork is how many bytes may be looked at and made. It is many times what
	// a query does that looks at each property once, even of the largest item,
	// and a fraction of a second.
	maxWork = 64 << 20
)

// spend counts work that is about to be done by a construct of the query. It
// reports false if that is too much; the run has failed then, and what it goes on
// to return does not matter.
func (e *env) spend(construct string, n int) bool {
	if e.work += n; n < 0 || e.work > maxWork || e.err != nil {
		e.fail("%s does more work on one item than a query may", construct)
		return false
	}
	return true
}

// fits reports whether n bytes are not more than limit; if they are, the run has
// failed.
func (e *env) fits(construct string, n, limit int) bool {
	if n > limit {
		e.fail("The result of %s is larger than %d bytes", construct, limit)
	}
	return e.err == nil
}

func (e *env) fail(format string, args ...any) {
	if e.err == nil {
		e.err = errorAt(0, e.end, format, args...)
	}
}

// comparing is the work of comparing v or making a key of it: an array or object
// is walked once for each level of nesting.
func (v Value) comparing() int {
	if v.kind < Array {
		return len(v.text)
	}
	return len(v.text) * nesting(v.text)
}

// nesting is how deep arrays and objects are nested in valid JSON.
func nesting(raw []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = jsonpart.StringEnd(raw, i) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// sizes is the size of all arguments together.
func sizes(args []Value) int {
	n := 0
	for _, v := range args {
		n += len(v.text)
	}
	return n
}

// product is n times m, or enough to be too much.
func product(n, m int) int {
	if n > 0 && m > maxWork/n {
		return maxWork + 1
	}
	return n * m
}

// searching is the work of looking for each character of a text in another text.
func searching(args []Value) int {
	if len(args) < 2 {
		return 0
	}
	return product(utf8.RuneCount(args[0].text), len(args[1].text))
}
