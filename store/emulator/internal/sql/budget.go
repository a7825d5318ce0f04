package sql

import (
	"unicode/utf8"

	"byline/store/emulator/jsonpart"
)

// Limits of the evaluation of a query on one document. Sizes of results are checked before
// allocation, as far as the arguments determine them; otherwise a result is at most a few times
// their size.
const (
	// maxValue is the largest string or array, in bytes, that a function or operator returns: about
	// the size limit of an item.
	maxValue = 2 << 20
	// maxRow is the largest row, and array or object constructor, in bytes: two items, so that the
	// largest item fits besides other columns.
	maxRow = 2*maxValue + 64<<10
	// maxWork is the most bytes read and written for one document: many times what a query needs
	// that reads each property once, and a fraction of a second.
	maxWork = 64 << 20
)

// spend counts work before a construct of the query does it. It reports false if the limit is
// exceeded: the evaluation has failed, and its result does not matter.
func (e *env) spend(construct string, n int) bool {
	if e.work += n; n < 0 || e.work > maxWork || e.err != nil {
		e.fail("%s does more work on one item than a query may", construct)
		return false
	}
	return true
}

// fits reports whether n is within limit. If not, the evaluation fails.
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

// comparing is the work of comparing v or encoding its key: arrays and objects are walked once per
// nesting level.
func (v Value) comparing() int {
	if v.kind < Array {
		return len(v.text)
	}
	return len(v.text) * nesting(v.text)
}

// nesting returns the nesting depth of valid JSON.
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

// sizes returns the total size of the arguments.
func sizes(args []Value) int {
	n := 0
	for _, v := range args {
		n += len(v.text)
	}
	return n
}

// product returns n*m, or a value above maxWork if that overflows the limit.
func product(n, m int) int {
	if n > 0 && m > maxWork/n {
		return maxWork + 1
	}
	return n * m
}

// searching is the work of searching each character of one text in another.
func searching(args []Value) int {
	if len(args) < 2 {
		return 0
	}
	return product(utf8.RuneCount(args[0].text), len(args[1].text))
}
