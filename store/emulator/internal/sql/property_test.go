package sql

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonValue draws a value as encoding/json decodes it, up to a depth. The alphabet is small, so that values collide,
// and has the characters that encodings treat specially.
func jsonValue(depth int) *rapid.Generator[any] {
	str := rapid.Custom(func(t *rapid.T) any {
		return rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00\x01\x02\"\\/\n\u00ff\u2028\ufffd\U0001F600")), 0, 6,
			-1).Draw(t, "string")
	})
	num := rapid.Custom(func(t *rapid.T) any {
		return rapid.OneOf(
			rapid.Float64(),
			rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }),
			rapid.Map(rapid.Int64(), func(i int64) float64 { return float64(i) }),
			rapid.Map(rapid.IntRange(-9999, 9999), func(i int) float64 { return float64(i) / 100 }),
			rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64}),
		).Draw(t, "number")
	})
	kinds := []*rapid.Generator[any]{str, num, rapid.SampledFrom([]any{nil, true, false})}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) })
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(s []any) any { return s }),
			rapid.Map(rapid.MapOfN(rapid.Map(str, func(s any) string { return s.(string) }), inner, 0, 3),
				func(m map[string]any) any { return m }))
	}
	return rapid.OneOf(kinds...)
}

func marshal(t *rapid.T, v any) []byte {
	if s, ok := v.([]any); ok && s == nil {
		v = []any{}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func drawValue(t *rapid.T, name string) Value {
	if rapid.IntRange(0, 20).Draw(t, name+" undefined") == 0 {
		return Value{}
	}
	v, err := ParseValue(marshal(t, jsonValue(2).Draw(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAppendKey_OrdersLikeCompare: keys order like their values, and no key is a prefix of another.
func TestAppendKey_OrdersLikeCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawValue(t, "a"), drawValue(t, "b")
		x, y := AppendKey(nil, a), AppendKey(nil, b)
		if got, want := bytes.Compare(x, y), Compare(a, b); got != want {
			t.Fatalf("%v and %v: keys compare %d, values %d", a, b, got, want)
		}
		if Compare(a, b) != -Compare(b, a) {
			t.Fatalf("%v and %v: Compare is not antisymmetric", a, b)
		}
		if !bytes.Equal(x, y) && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Fatalf("%v and %v: one key is a prefix of the other", a, b)
		}
	})
}

// TestAppendKey_ShortStrings compares all pairs of strings of up to three of the bytes that the encoding treats
// specially.
func TestAppendKey_ShortStrings(t *testing.T) {
	var all []string
	for n := range 4 {
		for i := range int(math.Pow(4, float64(n))) {
			s := make([]byte, n)
			for j := range s {
				s[j] = "\x00\x01\x02\xff"[i>>(2*j)&3]
			}
			all = append(all, string(s))
		}
	}
	for _, a := range all {
		for _, b := range all {
			x, y := AppendKey(nil, text([]byte(a))), AppendKey(nil, text([]byte(b)))
			if bytes.Compare(x, y) != strings.Compare(a, b) || a != b && bytes.HasPrefix(x, y) {
				t.Fatalf("%q has the key %x, %q has %x", a, x, b, y)
			}
		}
	}
}

// TestCompare_AgreesWithReference compares Compare with a comparison of decoded values.
func TestCompare_AgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := jsonValue(2).Draw(t, "x"), jsonValue(2).Draw(t, "y")
		a, _ := ParseValue(marshal(t, x))
		b, _ := ParseValue(marshal(t, y))
		if got, want := Compare(a, b), reference(x, y); got != want {
			t.Fatalf("%v and %v: got %d, want %d", a, b, got, want)
		}
	})
}

func reference(x, y any) int {
	rank := func(v any) int {
		switch v := v.(type) {
		case nil:
			return 0
		case bool:
			if v {
				return 2
			}
			return 1
		case float64:
			return 3
		case string:
			return 4
		case []any:
			return 5
		}
		return 6
	}
	if a, b := rank(x), rank(y); a != b {
		return sign(a < b)
	}
	switch x := x.(type) {
	case float64:
		if y := y.(float64); x != y {
			return sign(x < y)
		}
	case string:
		if y := y.(string); x != y {
			return sign(x < y)
		}
	case []any:
		y := y.([]any)
		for i := 0; i < len(x) && i < len(y); i++ {
			if c := reference(x[i], y[i]); c != 0 {
				return c
			}
		}
		if len(x) != len(y) {
			return sign(len(x) < len(y))
		}
	case map[string]any:
		flat := func(m map[string]any) []any {
			var names []string
			for name := range m {
				names = append(names, name)
			}
			sort.Strings(names)
			out := []any{}
			for _, name := range names {
				out = append(out, name, m[name])
			}
			return out
		}
		return reference(flat(x), flat(y.(map[string]any)))
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// drawPath draws a path into v, sometimes one that does not exist.
func drawPath(t *rapid.T, v any) (p Path, at any, ok bool) {
	at, ok = v, true
	for ok && rapid.IntRange(0, 4).Draw(t, "go on") > 0 {
		wrong := rapid.IntRange(0, 9).Draw(t, "wrong") == 0
		switch x := at.(type) {
		case map[string]any:
			if wrong || len(x) == 0 {
				p = append(p, "zz")
				return p, nil, false
			}
			var names []string
			for name := range x {
				names = append(names, name)
			}
			sort.Strings(names)
			name := rapid.SampledFrom(names).Draw(t, "name")
			p, at = append(p, name), x[name]
		case []any:
			i := rapid.IntRange(0, len(x)).Draw(t, "index")
			if wrong {
				p = append(p, "a")
				return p, nil, false
			}
			p = append(p, strconv.Itoa(i))
			if i == len(x) {
				return p, nil, false
			}
			at = x[i]
		default:
			if !wrong {
				return p, at, true
			}
			return append(p, "a"), nil, false
		}
	}
	return p, at, ok
}

func TestLookup_AgreesWithJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := jsonValue(3).Draw(t, "doc")
		raw := marshal(t, doc)
		p, want, ok := drawPath(t, doc)
		got := Lookup(raw, p)
		if !ok {
			if got.Kind() != Undefined {
				t.Fatalf("%s%v: got %v, want undefined", raw, p, got)
			}
			return
		}
		if w, _ := ParseValue(marshal(t, want)); got.Kind() != w.Kind() || Compare(got, w) != 0 {
			t.Fatalf("%s%v: got %v, want %v", raw, p, got, w)
		}
		var back any
		if err := json.Unmarshal(got.AppendJSON(nil), &back); err != nil || reference(back, normal(want)) != 0 {
			t.Fatalf("%s%v: wrote %s (%v)", raw, p, got.AppendJSON(nil), err)
		}
	})
}

// normal returns v as after a round trip through JSON: a nil slice is an empty array.
func normal(v any) any {
	if s, ok := v.([]any); ok && s == nil {
		return []any{}
	}
	return v
}

// TestPlan_AgreesWithMatches draws conditions, and for each tries many documents: matching documents are
// within the plan, and documents within a covered plan match.
func TestPlan_AgreesWithMatches(t *testing.T) {
	literal := rapid.SampledFrom([]string{"null", "false", "true", "0", "1", "2", "'a'", "'ab'", "'b'", "[1]",
		"undefined", "@p"})
	path := rapid.SampledFrom([]string{"c.x", "c.y", `c["z"]["w"]`})
	part := rapid.Custom(func(t *rapid.T) string {
		p := path.Draw(t, "path")
		lit := func() string { return literal.Draw(t, "literal") }
		switch rapid.IntRange(0, 7).Draw(t, "form") {
		case 0:
			return fmt.Sprintf("%s IN (%s, %s)", p, lit(), lit())
		case 1:
			return fmt.Sprintf("%s BETWEEN %s AND %s", p, lit(), lit())
		case 2:
			return fmt.Sprintf("%s LIKE '%s'", p,
				rapid.SampledFrom([]string{"a%", "a_%", "%", "ab", "a%b", "_b"}).Draw(t, "pattern"))
		case 3:
			return fmt.Sprintf("STARTSWITH(%s, 'a')", p)
		case 4:
			return fmt.Sprintf("%s %s %s", lit(), rapid.SampledFrom([]string{"=", "<", ">="}).Draw(t, "op"), p)
		case 5:
			return fmt.Sprintf("IS_NULL(%s)", p)
		}
		return fmt.Sprintf("%s %s %s", p,
			rapid.SampledFrom([]string{"=", "=", "<", "<=", ">", ">=", "!="}).Draw(t, "op"), lit())
	})
	joined := func(op string, of *rapid.Generator[string]) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			s := ""
			for i, x := range rapid.SliceOfN(of, 1, 3).Draw(t, op) {
				if i > 0 {
					s += " " + op + " "
				}
				s += x
			}
			return "(" + s + ")"
		})
	}
	where := rapid.OneOf(part, joined("AND", part), joined("OR", part), joined("OR", joined("AND", part)),
		joined("AND", joined("OR", part)))
	scalars := []string{"", "null", "false", "true", "0", "1", "2", "3", `""`, `"a"`, `"ab"`, `"b"`, "[1]", "{}"}
	rapid.Check(t, func(t *rapid.T) {
		condition, p := where.Draw(t, "where"), []Param{{"@p", []byte("1")}}
		text := "SELECT * FROM c WHERE " + condition
		b, err := bind(text, p)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := bind("SELECT VALUE ("+condition+") FROM c", p)
		if err != nil {
			t.Fatal(err)
		}
		z := rapid.SampledFrom(scalars).Draw(t, "z")
		for _, x := range scalars {
			for _, y := range scalars {
				doc := `{"id":"1"`
				for _, m := range [][2]string{{`,"x":%s`, x}, {`,"y":%s`, y}, {`,"z":{"w":%s}`, z}} {
					if m[1] != "" {
						doc += fmt.Sprintf(m[0], m[1])
					}
				}
				doc += "}"
				checkPlan(t, text, b, []byte(doc), []Path{{"x"}, {"y"}, {"z", "w"}})
				// SELECT evaluates without the fast paths of WHERE.
				row, _, _ := project(slow, nil, []byte(doc))
				if hit := isMatch(t, b, doc); hit != (string(row) == "true") {
					t.Fatalf("%s: Matches(%s) is %v, its value %q", text, doc, hit, row)
				}
			}
		}
	})
}

func checkPlan(t *rapid.T, text string, b *Bound, doc []byte, paths []Path) {
	hit, within := isMatch(t, b, string(doc)), true
	var eq []Path
	var rng Path
	for _, p := range paths {
		v := Lookup(doc, p)
		holds := func(what string, ok bool) {
			if hit && !ok {
				t.Fatalf("%s matches %s, but %s excludes it", text, doc, what)
			}
		}
		if points, ok := b.Points(p); ok {
			holds("Points"+p.String(), slices.ContainsFunc(points, func(point []Value) bool {
				return Compare(v, point[0]) == 0
			}))
		}
		r, ranged := b.Range(p)
		if ranged {
			holds("Range"+p.String(), r.holds(v))
		}
		if w, ok := b.Equal(p); ok {
			eq = append(eq, p)
			within = within && Compare(v, w) == 0
			holds("Equal"+p.String(), Compare(v, w) == 0)
		} else if ranged && rng == nil {
			rng = p
			within = within && r.holds(v)
		}
	}
	if b.Covered(eq, rng) && within != hit {
		t.Fatalf("%s covers %s: within %v, matches %v", text, doc, within, hit)
	}
	x, y := Lookup(doc, paths[0]), Lookup(doc, paths[1])
	if points, ok := b.Points(paths[:2]...); ok && hit && !slices.ContainsFunc(points, func(point []Value) bool {
		return Compare(point[0], x) == 0 && Compare(point[1], y) == 0
	}) {
		t.Fatalf("%s matches %s, but Points does not have it", text, doc)
	}
}

func (r Range) holds(v Value) bool {
	low, high := Compare(v, r.Low), Compare(v, r.High)
	return (low > 0 || low == 0 && r.LowInclusive) && (high < 0 || high == 0 && r.HighInclusive)
}
