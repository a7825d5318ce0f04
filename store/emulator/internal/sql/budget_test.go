package sql

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestBudget has queries that exceed each limit: they fail with an error that names the construct, before
// they allocate many times the limit.
func TestBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow with the race detector (-short)")
	}
	quote := func(s string, n int) []byte { return []byte(`"` + strings.Repeat(s, n/len(s)) + `"`) }
	many := func(part, sep string, n int) string { return strings.TrimSuffix(strings.Repeat(part+sep, n), sep) }
	values := map[string][]byte{
		"small":   quote("a", 30_000),
		"half":    quote("a", 1_000_000),
		"big":     quote("a", 1_900_000),
		"quotes":  quote(`\u0001`, 1_900_000),
		"digits":  quote("0123456789", 1_900_000),
		"list":    []byte("[" + many("{}", ",", 600_000) + "]"),
		"object":  []byte("{" + many(`"a":0`, ",", 100_000) + "}"),
		"members": fmt.Appendf(nil, `[{%s}]`, strings.Join(numbered(80_000), ",")),
		"deep": []byte(`"` + strings.Repeat("[", 9000) + strings.Repeat("1,", 400_000) + "1" +
			strings.Repeat("]", 9000) + `"`),
	}
	var doc strings.Builder
	doc.WriteString(`{"id":"1"`)
	for name, v := range values {
		fmt.Fprintf(&doc, `,%q:%s`, name, v)
	}
	doc.WriteString(`}`)
	var params []Param
	for name, v := range values {
		params = append(params, Param{"@" + name, v})
	}
	for _, tc := range []struct{ name, expr, wrong string }{
		{"REPLACE", `REPLACE(c.small, 'a', c.small)`, "REPLACE is larger"},
		{"REPLACE of REPLACE", `REPLACE(REPLACE(c.id, '1', c.small), 'a', c.small)`, "REPLACE is larger"},
		{"CONCAT", `CONCAT(c.big, c.big)`, "CONCAT is larger"},
		{"CONCAT of many arguments", `CONCAT(` + many("c.big", ",", 10_000) + `)`, "more work"},
		{"||", `c.half || c.half || c.half`, "|| is larger"},
		{"|| of many operands", many("c.half", "||", 10_000), "|| is larger"},
		{"nested ||", `LENGTH((c.half || c.half) || (c.half || c.half))`, "|| is larger"},
		{"ARRAY_CONCAT", `ARRAY_CONCAT(c.list, c.list)`, "ARRAY_CONCAT is larger"},
		{"ARRAY_CONCAT of arrays", `ARRAY_LENGTH(ARRAY_CONCAT([c.big], [c.big]))`, "ARRAY_CONCAT is larger"},
		{"an array", `ARRAY_LENGTH([` + many("c.big", ",", 100) + `])`, "[...] is larger"},
		{"an array of parameters", `[` + many("@big", ",", 30) + `]`, "[...] is larger"},
		{"an object", `{"a":` + many("c.big", `,"a":`, 1) + `,"b":{"c":c.big,"d":c.big}}`, "{...} is larger"},
		{"arrays in arrays", strings.Repeat("[c.half,", 100) + "1" + strings.Repeat("]", 100), "[...] is larger"},
		{"string that is longer as JSON", `[REPLACE(c.big, 'a', LEFT(c.quotes, 1)), 1]`, "[...] is larger"},
		{"a row", `TOSTRING([c.big, c.half])`, "TOSTRING is larger"},
		{"many calls", `[` + many("LENGTH(LOWER(c.big))", ",", 1000) + `]`, "more work"},
		{"many properties", `[` + many("IS_DEFINED(c.object.b)", ",", 1000) + `]`, "more work"},
		{"many comparisons", many("c.big = 'x'", " OR ", 1000), "more work"},
		{"many comparisons of properties", many("c.big < c.digits", " OR ", 1000), "more work"},
		{"LIKE that backtracks", `c.big LIKE '%` + many("a", "", 60_000) + `b'`, "LIKE does more work"},
		{"LIKE with a long set", `c.digits LIKE '%[` + many("xyz", "", 20_000) + `]'`, "LIKE does more work"},
		{"LIKE with a long pattern", `c.id LIKE c.big`, "the pattern of LIKE is larger"},
		{"REGEXMATCH", `REGEXMATCH(c.big, '(a?){500}b')`, "REGEXMATCH does more work"},
		{"TRIM", `TRIM(c.big, c.digits)`, "TRIM does more work"},
		{"ARRAY_CONTAINS of objects", `ARRAY_CONTAINS(c.list, c.object)`, "ARRAY_CONTAINS does more work"},
		{"ARRAY_CONTAINS, partial match", `ARRAY_CONTAINS(c.members, c.members[0], true)`,
			"ARRAY_CONTAINS does more work"},
		{"ARRAY_CONTAINS_ANY", `ARRAY_CONTAINS_ANY(c.list, ` + many("1", ",", 1000) + `)`,
			"ARRAY_CONTAINS_ANY does more work"},
		{"ARRAY_CONTAINS_ALL of objects", `ARRAY_CONTAINS_ALL(c.list, c.object)`, "ARRAY_CONTAINS_ALL does more work"},
		{"SETUNION", `SETUNION(c.list, c.list)`, "SETUNION does more work"},
		{"SETINTERSECT of deeply nested arrays", `SETINTERSECT(STRINGTOARRAY(c.deep), [])`,
			"SETINTERSECT does more work"},
		{"comparison of deeply nested arrays", `STRINGTOARRAY(c.deep) = STRINGTOARRAY(c.deep)`,
			"comparison does more work"},
		{"IN with a deeply nested array", `STRINGTOARRAY(c.deep) IN (1,2,3,4,5,6,7,8,9)`, "IN does more work"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bind("SELECT VALUE "+tc.expr+" FROM c", params)
			if err != nil {
				t.Fatal(err)
			}
			text := []byte(doc.String())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, ok, err := project(b, nil, text)
			runtime.ReadMemStats(&after)
			if ok || err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("got %v, %v, want an error about %q", ok, err, tc.wrong)
			}
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 100 {
				t.Errorf("allocated %d MB, want at most 100", n)
			}
		})
	}
	t.Run("WHERE", func(t *testing.T) {
		b, err := bind("SELECT * FROM c WHERE NOT ((c.big || c.big) = 'x')", nil)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := b.Matches([]byte(doc.String())); ok || err == nil {
			t.Errorf("got %v, %v, want an error", ok, err)
		}
	})
	for _, tc := range []struct{ name, expr, want string }{
		{"functions of the largest properties", `LENGTH(REPLACE(UPPER(c.big), 'A', 'b')) + LENGTH(c.half || c.small)`,
			"2930000"},
		{"large parameter, used twice", `LENGTH(@big) + LENGTH(@big)`, "3800000"},
		{"LIKE of a long text", `c.big LIKE '%aaa%a_a%b'`, "false"},
		{"REGEXMATCH of a long text", `REGEXMATCH(c.big, '^a+b?$')`, "true"},
	} {
		t.Run(tc.name+" -> fine", func(t *testing.T) {
			b, err := bind("SELECT VALUE "+tc.expr+" FROM c", params)
			if err != nil {
				t.Fatal(err)
			}
			if row, _, err := project(b, nil, []byte(doc.String())); err != nil || string(row) != tc.want {
				t.Errorf("got %.100s, %v, want %s", row, err, tc.want)
			}
		})
	}
	for _, tc := range []struct{ name, text, wrong string }{
		{"large parameter, used 1000 times", "SELECT * FROM c WHERE " + many("c.id = @big", " OR ", 1000),
			"'@big' is used too often"},
		{"a pattern of LIKE", "SELECT * FROM c WHERE c.id LIKE @big", "'@big' is longer than"},
		{"a pattern of REGEXMATCH", "SELECT * FROM c WHERE REGEXMATCH(c.id, @small)", "'@small' is longer than"},
	} {
		t.Run(tc.name+" -> refused", func(t *testing.T) {
			if _, err := bind(tc.text, params); err == nil || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("got %v, want %q", err, tc.wrong)
			}
		})
	}
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`"%d":%d`, i, i)
	}
	return out
}

// TestAggregation_MemoryLimit: the memory of groups and distinct rows is bounded.
func TestAggregation_MemoryLimit(t *testing.T) {
	for _, text := range []string{
		"SELECT DISTINCT VALUE c.s FROM c",
		"SELECT c.s, COUNT(1) AS n FROM c GROUP BY c.s",
		"SELECT MAX(c.s) AS m, c.n FROM c GROUP BY c.n",
	} {
		t.Run(text, func(t *testing.T) {
			b, err := bind(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, long := b.NewAggregation(), strings.Repeat("x", 1_000_000)
			for i := range 100 {
				if err = a.Add(fmt.Appendf(nil, `{"n":%d,"s":"%d%s"}`, i, i, long), nil); err != nil {
					if i < 15 || !strings.Contains(err.Error(), "take more than") {
						t.Errorf("document %d: %v", i, err)
					}
					return
				}
			}
			t.Error("got no error")
		})
	}
}
