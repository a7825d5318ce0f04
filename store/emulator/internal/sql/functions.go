package sql

import (
	"bytes"
	"math"

	"byline/store/emulator/jsonpart"
)

const many = 1 << 20

// function is a function of values. Unless stated otherwise, it is undefined for undefined
// arguments and those of a wrong type.
type function struct {
	min, max int
	fn       func(args []Value) Value
}

// functions are the functions of the query language, by name, except REGEXMATCH: see parser.regex, and
// those of full-text search: see textFunctions. A
// function that takes more than a pass over its arguments also has an entry in costs.
var functions = map[string]*function{
	"IS_ARRAY":     {1, 1, isKind(Array)},
	"IS_BOOL":      {1, 1, isKind(Bool)},
	"IS_BOOLEAN":   {1, 1, isKind(Bool)}, // spelling of SDKs that continue an ORDER BY over partitions
	"IS_DEFINED":   {1, 1, func(a []Value) Value { return boolean(a[0].kind != Undefined) }},
	"IS_INTEGER":   {1, 1, isInteger},
	"IS_NULL":      {1, 1, isKind(Null)},
	"IS_NUMBER":    {1, 1, isKind(Number)},
	"IS_OBJECT":    {1, 1, isKind(Object)},
	"IS_PRIMITIVE": {1, 1, func(a []Value) Value { return boolean(a[0].kind > Undefined && a[0].kind < Array) }},
	"IS_STRING":    {1, 1, isKind(String)},

	"CONCAT":       {2, many, concat},
	"CONTAINS":     {2, 3, stringTest(bytes.Contains)},
	"ENDSWITH":     {2, 3, stringTest(bytes.HasSuffix)},
	"INDEX_OF":     {2, 3, indexOf},
	"LEFT":         {2, 2, func(a []Value) Value { return substring(a[0], number(0), a[1]) }},
	"LENGTH":       {1, 1, stringLength},
	"LOWER":        {1, 1, stringMap(bytes.ToLower)},
	"LTRIM":        {1, 2, trim(true, false)},
	"REPLACE":      {3, 3, replace},
	"REPLICATE":    {2, 2, replicate},
	"REVERSE":      {1, 1, stringMap(reverse)},
	"RIGHT":        {2, 2, right},
	"RTRIM":        {1, 2, trim(false, true)},
	"STARTSWITH":   {2, 3, stringTest(bytes.HasPrefix)},
	"STRINGEQUALS": {2, 3, stringTest(bytes.Equal)},
	"SUBSTRING":    {3, 3, func(a []Value) Value { return substring(a[0], a[1], a[2]) }},
	"TOSTRING":     {1, 1, toString},
	"TRIM":         {1, 2, trim(true, true)},
	"UPPER":        {1, 1, stringMap(bytes.ToUpper)},

	"STRINGTOARRAY":   {1, 1, stringTo(Array)},
	"STRINGTOBOOLEAN": {1, 1, stringTo(Bool)},
	"STRINGTONULL":    {1, 1, stringTo(Null)},
	"STRINGTONUMBER":  {1, 1, stringTo(Number)},
	"STRINGTOOBJECT":  {1, 1, stringTo(Object)},

	"ARRAY_CONCAT":       {2, many, arrayConcat},
	"ARRAY_CONTAINS":     {2, 3, arrayContains},
	"ARRAY_CONTAINS_ALL": {2, many, arrayContainsEach(false)},
	"ARRAY_CONTAINS_ANY": {2, many, arrayContainsEach(true)},
	"ARRAY_LENGTH":       {1, 1, arrayLength},
	"ARRAY_SLICE":        {2, 3, arraySlice},
	"SETINTERSECT":       {2, 2, setIntersect},
	"SETUNION":           {2, 2, setUnion},

	"ABS":     {1, 1, numberMap(math.Abs)},
	"CEILING": {1, 1, numberMap(math.Ceil)},
	"FLOOR":   {1, 1, numberMap(math.Floor)},
	"POWER":   {2, 2, power},
	"ROUND":   {1, 1, numberMap(math.Round)},
	"SQRT":    {1, 1, numberMap(math.Sqrt)},
}

// cost estimates a call whose cost is not proportional to the size of its arguments, before the
// call.
type cost struct {
	size func(args []Value) int // size of the result; nil: a few times that of the arguments
	work func(args []Value) int // work besides reading arguments and result once
}

var costs = map[string]*cost{
	"ARRAY_CONCAT":       {size: sizes},
	"ARRAY_CONTAINS":     {work: containing},
	"ARRAY_CONTAINS_ALL": {work: containingEach},
	"ARRAY_CONTAINS_ANY": {work: containingEach},
	"CONCAT":             {size: sizes},
	"LTRIM":              {work: searching},
	"REPLACE":            {size: replaced},
	"RTRIM":              {work: searching},
	"SETINTERSECT":       {work: collecting},
	"SETUNION":           {size: sizes, work: collecting},
	"TRIM":               {work: searching},
}

// containing is the work of comparing each element of an array with a value.
func containing(a []Value) int {
	if a[0].kind != Array || a[1].kind < Array {
		return 0
	}
	if len(a) == 3 && a[2].yes { // searches each member in each element
		return product(len(a[0].text), len(sortedMembers(a[1].text))) + a[0].comparing()
	}
	return product(int(arrayLength(a).num), a[1].comparing()) + a[0].comparing()
}

// containingEach is the work of searching for several values.
func containingEach(a []Value) int {
	n := 0
	for _, v := range a[1:] {
		if n += len(a[0].text) + containing([]Value{a[0], v}); n > maxWork {
			break // over the limit already
		}
	}
	return n
}

// collecting is the work of encoding the elements of two arrays into a set.
func collecting(a []Value) int {
	const entry = 64
	n := 0
	for _, v := range a {
		if v.kind == Array {
			n += v.comparing() + product(entry, int(arrayLength([]Value{v}).num))
		}
	}
	return n
}

// isInteger reports whether a number is a 64-bit integer. The largest one is not a JavaScript
// number: the next double is accepted.
func isInteger(a []Value) Value {
	n := a[0].num
	return boolean(a[0].kind == Number && n == math.Trunc(n) && -1<<63 <= n && n <= 1<<63)
}

func isKind(k Kind) func([]Value) Value {
	return func(a []Value) Value { return boolean(a[0].kind == k) }
}

func numberMap(f func(float64) float64) func([]Value) Value {
	return func(a []Value) Value {
		if a[0].kind != Number {
			return Value{}
		}
		return number(f(a[0].num))
	}
}

func power(a []Value) Value {
	if a[0].kind != Number || a[1].kind != Number {
		return Value{}
	}
	return number(math.Pow(a[0].num, a[1].num))
}

// integer returns a whole number, clamped to 32 bits.
func integer(v Value) (int, bool) {
	if v.kind != Number || v.num != math.Trunc(v.num) {
		return 0, false
	}
	return int(max(min(v.num, math.MaxInt32), math.MinInt32)), true
}

func toString(a []Value) Value {
	switch v := a[0]; v.kind {
	case Undefined, String:
		return v
	case Number:
		if math.IsInf(v.num, 0) { // out of range in a document: cannot be written
			return Value{}
		}
		return text(appendNumber(nil, v.num))
	default:
		return text(v.AppendJSON(nil))
	}
}

// stringTo parses the JSON in a string; it is undefined for other kinds.
func stringTo(k Kind) func([]Value) Value {
	return func(a []Value) Value {
		if a[0].kind != String {
			return Value{}
		}
		v, err := ParseValue(bytes.TrimSpace(a[0].text))
		if err != nil || v.kind != k {
			return Value{}
		}
		if k == Number {
			return number(v.num)
		}
		return v
	}
}

func arrayLength(a []Value) Value {
	if a[0].kind != Array {
		return Value{}
	}
	n := 0
	for s := (jsonpart.Elements{Text: a[0].text, At: 1}); ; n++ {
		if _, ok := s.Next(); !ok {
			return number(float64(n))
		}
	}
}

func arrayConcat(a []Value) Value {
	out := []byte{'['}
	for _, v := range a {
		if v.kind != Array {
			return Value{}
		}
		for s := (jsonpart.Elements{Text: v.text, At: 1}); ; {
			raw, ok := s.Next()
			if !ok {
				break
			}
			out = appendElement(out, raw)
		}
	}
	return Value{kind: Array, text: append(out, ']')}
}

func appendElement(out, raw []byte) []byte {
	if len(out) > 1 {
		out = append(out, ',')
	}
	return append(out, raw...)
}

// arrayContains searches for a value, or, if the third argument is true, for an object with the
// members of the second.
func arrayContains(a []Value) Value {
	partial := false
	if len(a) == 3 && a[2].kind != Undefined {
		if a[2].kind != Bool {
			return Value{}
		}
		partial = a[2].yes
	}
	if a[0].kind != Array || a[1].kind == Undefined {
		return Value{}
	}
	var wanted []namedValue
	if partial = partial && a[1].kind == Object; partial {
		wanted = sortedMembers(a[1].text)
	}
	for s := (jsonpart.Elements{Text: a[0].text, At: 1}); ; {
		raw, ok := s.Next()
		if !ok {
			return boolean(false)
		}
		if partial && hasMembers(raw, wanted) || !partial && Compare(ValueOf(raw), a[1]) == 0 {
			return boolean(true)
		}
	}
}

// arrayContainsEach searches for all of several values, or for any. Like AND and OR, it ignores an
// undefined value if the others decide.
func arrayContainsEach(anyOf bool) func([]Value) Value {
	return func(a []Value) Value {
		if a[0].kind != Array {
			return Value{}
		}
		result := boolean(!anyOf)
		for _, v := range a[1:] {
			switch found := arrayContains([]Value{a[0], v}); {
			case found.kind == Undefined:
				result = found
			case found.yes == anyOf:
				return found
			}
		}
		return result
	}
}

// setUnion returns the distinct elements of both arrays, in order.
func setUnion(a []Value) Value {
	if a[0].kind != Array || a[1].kind != Array {
		return Value{}
	}
	seen := map[string]bool{}
	out := appendNew([]byte{'['}, a[0], seen)
	return Value{kind: Array, text: append(appendNew(out, a[1], seen), ']')}
}

// appendNew appends the elements that are not in seen, and adds them.
func appendNew(out []byte, array Value, seen map[string]bool) []byte {
	var key []byte
	for s := (jsonpart.Elements{Text: array.text, At: 1}); ; {
		raw, ok := s.Next()
		if !ok {
			return out
		}
		if key = AppendKey(key[:0], ValueOf(raw)); !seen[string(key)] {
			seen[string(key)] = true
			out = appendElement(out, raw)
		}
	}
}

// setIntersect returns the distinct elements in both arrays, in the order of the second.
func setIntersect(a []Value) Value {
	if a[0].kind != Array || a[1].kind != Array {
		return Value{}
	}
	seen := map[string]bool{}
	appendNew(nil, a[0], seen)
	out, key := []byte{'['}, []byte(nil)
	for s := (jsonpart.Elements{Text: a[1].text, At: 1}); ; {
		raw, ok := s.Next()
		if !ok {
			return Value{kind: Array, text: append(out, ']')}
		}
		if key = AppendKey(key[:0], ValueOf(raw)); seen[string(key)] {
			delete(seen, string(key))
			out = appendElement(out, raw)
		}
	}
}

func hasMembers(raw []byte, wanted []namedValue) bool {
	if raw[0] != '{' {
		return false
	}
	for _, w := range wanted {
		v := member(raw, string(w.name))
		if v == nil || Compare(ValueOf(v), ValueOf(w.raw)) != 0 {
			return false
		}
	}
	return true
}

// arraySlice counts a negative start from the end.
func arraySlice(a []Value) Value {
	start, ok := integer(a[1])
	if a[0].kind != Array || !ok {
		return Value{}
	}
	count := math.MaxInt32
	if len(a) == 3 {
		if count, ok = integer(a[2]); !ok {
			return Value{}
		}
	}
	if start < 0 {
		start = max(0, start+int(arrayLength(a).num))
	}
	out := []byte{'['}
	s := jsonpart.Elements{Text: a[0].text, At: 1}
	for n := 0; count > 0; n++ {
		raw, ok := s.Next()
		if !ok {
			break
		}
		if n >= start {
			out = appendElement(out, raw)
			count--
		}
	}
	return Value{kind: Array, text: append(out, ']')}
}
