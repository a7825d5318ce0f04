package sql

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestLimits(t *testing.T) {
	const head = "SELECT * FROM c WHERE "
	flat := func(n int, op string) string {
		return head + strings.Repeat("c.x = 1 "+op+" ", n) + "c.x = 2"
	}
	long := strings.Repeat("1,", 20000) + "1"
	for _, tc := range []struct {
		name, text string
		wrong      string // part of the error; "" if none
	}{
		{"10,000 times OR -> fine", flat(10000, "OR"), ""},
		{"10,000 times AND -> fine", flat(10000, "AND"), ""},
		{"20,000 values in a list -> fine", head + "c.x IN (" + long + ")", ""},
		{"20,000 elements -> fine", head + "ARRAY_CONTAINS([" + long + "], c.x)", ""},
		{"100 parentheses -> fine", head + strings.Repeat("(", 100) + "c.x = 1" + strings.Repeat(")", 100), ""},
		{"100 nested BETWEEN -> fine",
			head + strings.Repeat("(", 100) + "c.x" + strings.Repeat(" BETWEEN 1 AND 2)", 100), ""},
		{"100,000 parentheses -> refused", head + strings.Repeat("(", 100000), "nested deeper"},
		{"100,000 arrays -> refused", head + strings.Repeat("[", 100000), "nested deeper"},
		{"100,000 objects -> refused", head + strings.Repeat("{a:", 100000), "nested deeper"},
		{"100,000 calls -> refused", head + strings.Repeat("LOWER(", 60000), "nested deeper"},
		{"100,000 times NOT -> refused", head + strings.Repeat("NOT ", 100000) + "c.x", "nested deeper"},
		{"100,000 signs -> refused", head + strings.Repeat("- ", 100000) + "c.x", "nested deeper"},
		{"100,000 conditions -> refused", head + strings.Repeat("c?c:", 100000) + "c.x", "nested deeper"},
		{"100,000 sums -> refused", head + strings.Repeat("1+", 100000) + "1 > 0", "operators in one chain"},
		{"100,000 comparisons -> refused", head + strings.Repeat("1=", 100000) + "1", "operators in one chain"},
		{"100,000 times || -> fine", head + strings.Repeat("'a'||", 80000) + "'a'", ""},
		{"100,000 steps -> fine", head + "c" + strings.Repeat(".a", 100000), ""},
		{"maxGroupBy groups -> fine", "SELECT VALUE 1 FROM c GROUP BY c.x" + strings.Repeat(", c.x", maxGroupBy-1), ""},
		{"maxGroupBy+1 groups -> refused", "SELECT VALUE 1 FROM c GROUP BY c.x" + strings.Repeat(", c.x", maxGroupBy),
			"expressions in GROUP BY"},
		{"text too long -> refused", head + strings.Repeat(" ", maxText), "longer than"},
		{"not UTF-8 -> refused", head + "c.x = '\xff'", "not UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bind(tc.text, nil)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Fatalf("got %v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Matches([]byte(`{"x":2}`)); err != nil {
				t.Error(err)
			}
			b.Points(Path{"x"})
			b.Covered([]Path{{"x"}}, nil)
		})
	}
}

// TestPoints_Bounded: the product of lists in any number of OR branches has at most maxPoints points.
func TestPoints_Bounded(t *testing.T) {
	list := make([]string, 90)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	in := strings.Join(list, ",")
	branch := func(n int) string { return fmt.Sprintf("c.a IN (%s) AND c.b IN (%s,x%d)", in, in, n) }
	for _, tc := range []struct {
		branches int
		ok       bool
	}{{1, true}, {500, false}} {
		var parts []string
		for n := range tc.branches {
			parts = append(parts, strings.ReplaceAll(branch(n), "x", "1000"))
		}
		b, err := bind("SELECT * FROM c WHERE "+strings.Join(parts, " OR "), nil)
		if err != nil {
			t.Fatal(err)
		}
		points, ok := b.Points(Path{"a"}, Path{"b"})
		if ok != tc.ok || len(points) > maxPoints {
			t.Errorf("%d branches: got %d points, %v, want %v", tc.branches, len(points), ok, tc.ok)
		}
	}
}

// isMatch calls Matches, which must not fail.
func isMatch(t rapid.TB, b *Bound, doc string) bool {
	t.Helper()
	ok, err := b.Matches([]byte(doc))
	if err != nil {
		t.Error(err)
	}
	return ok
}

// readMany returns the third form of azcosmos' ReadManyItems query, with its parameters.
func readMany(n int) (string, []Param) {
	var text strings.Builder
	var params []Param
	text.WriteString("SELECT * FROM c WHERE ")
	for i := range n {
		if i > 0 {
			text.WriteString(" OR ")
		}
		fmt.Fprintf(&text, "(c.id = @param_id%d AND c.pk = @param_pk%d0)", i, i)
		params = append(params,
			Param{fmt.Sprintf("@param_id%d", i), fmt.Appendf(nil, `"id-%d"`, i)},
			Param{fmt.Sprintf("@param_pk%d0", i), fmt.Appendf(nil, `"pk-%d"`, i%7)})
	}
	return text.String(), params
}

func TestPoints_ReadMany(t *testing.T) {
	text, params := readMany(1000)
	b, err := bind(text, params)
	if err != nil {
		t.Fatal(err)
	}
	points, ok := b.Points(Path{"id"}, Path{"pk"})
	if !ok || len(points) != 1000 {
		t.Fatalf("got %d points, %v", len(points), ok)
	}
	for i, p := range points {
		if p[0].String() != fmt.Sprintf("id-%d", i) || p[1].String() != fmt.Sprintf("pk-%d", i%7) {
			t.Fatalf("point %d is %v", i, p)
		}
	}
	if !isMatch(t, b, `{"id":"id-999","pk":"pk-5"}`) || isMatch(t, b, `{"id":"id-999","pk":"pk-4"}`) {
		t.Error("Matches disagrees with Points")
	}
}

// TestBound_ConcurrentUse runs one Bound in several goroutines, for the race detector.
func TestBound_ConcurrentUse(t *testing.T) {
	b, err := bind(
		`SELECT VALUE UPPER(c.s) FROM c WHERE c.n IN (1,2,3,4,5,6,7,8,9,10) AND c.s LIKE 'a%' AND REGEXMATCH(c.s, 'b$')`, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for i := range 200 {
				doc := fmt.Appendf(nil, `{"n":%d,"s":"a%db"}`, i%12, n)
				if got, want := isMatch(t, b, string(doc)), i%12 >= 1 && i%12 <= 10; got != want {
					t.Errorf("%s: got %v, want %v", doc, got, want)
				}
				if row, _, _ := project(b, nil, doc); string(row) != fmt.Sprintf(`"A%dB"`, n) {
					t.Errorf("%s: got %s", doc, row)
				}
			}
		})
	}
	wg.Wait()
}

// TestMatches_MorePropertiesThanSlots names more properties than maxSlots.
func TestMatches_MorePropertiesThanSlots(t *testing.T) {
	var where []string
	doc := []byte("{")
	for i := range 40 {
		where = append(where, fmt.Sprintf("c.p%d = %d", i, i))
		doc = fmt.Appendf(doc, `"p%d":%d,`, 39-i, 39-i)
	}
	doc[len(doc)-1] = '}'
	b, err := bind("SELECT * FROM c WHERE "+strings.Join(where, " AND "), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !isMatch(t, b, string(doc)) {
		t.Error("the document does not match")
	}
	if isMatch(t, b, strings.Replace(string(doc), `"p39":39`, `"p39":38`, 1)) {
		t.Error("a document with another p39 matches")
	}
}

func TestValues(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"surrogate pair -> one character", `"\ud83d\ude00"`, `"😀"`},
		{"control characters -> escaped", `"\u0000\u001f\b\f"`, `"\u0000\u001f\b\f"`},
		{"escaped slash -> unescaped", `"\/"`, `"/"`},
		{"white space -> removed", " {\n\"a\" : 1 } ", `{"a":1}`},
		{"number out of range -> unchanged", `1e999`, `1e999`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := ParseValue([]byte(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(v.AppendJSON(nil)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	for _, raw := range []string{"", " ", "nul", `"a`, `{"a"}`, "1 2", `"a" "b"`, "\"a\x01\"", "\"a\xff\"",
		`"a\ud800b"`, `"\udc00\ud800"`} {
		if v, err := ParseValue([]byte(raw)); err == nil {
			t.Errorf("ParseValue(%q): got %v, want an error", raw, v)
		}
	}
}

// TestProject_UnusualDocuments reads properties of unusual and invalid documents.
func TestProject_UnusualDocuments(t *testing.T) {
	for _, tc := range []struct{ name, doc, expr, want string }{
		{"an escaped name -> found", `{"\u0061":1}`, `c.a`, "1"},
		{"an escaped quote in a name -> found", `{"x\"}":0,"a":1}`, `c["x\"}"]`, "0"},
		{"repeated name -> the first", `{"a":1,"a":2}`, `c.a`, "1"},
		{"braces in strings -> skipped", `{"x":"}]{\"","y":["]",{"a":"\\"}],"a":1}`, `c.a`, "1"},
		{"white space -> skipped", ` { "x" : [ 1 , 2 ] , "a" : { "b" : 1 } } `, `c.a.b`, "1"},
		{"an empty name -> found", `{"":1}`, `c[""]`, "1"},
		{"TOSTRING of a number out of range -> undefined", `{"a":1e999}`, `[TOSTRING(c.a), TOSTRING([c.a])]`,
			`["[1e999]"]`},
		{"not an object -> undefined", `[1]`, `c.a`, ""},
		{"an empty object -> undefined", `{}`, `c.a`, ""},
		{"index into an object -> undefined", `{"a":{"0":1}}`, `c.a[0]`, ""},
		{"members read twice, backwards", `{"a":1,"b":2,"c":3}`, `[c.c, c.a, c.b, c.c, c.d, c.a]`, "[3,1,2,3,1]"},
		{"invalid JSON -> undefined", `{"a":`, `c.a`, ""},
		{"invalid string -> undefined", `{"a":"`, `c.b`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := bind("SELECT VALUE "+tc.expr+" FROM c", nil)
			if err != nil {
				t.Fatal(err)
			}
			prefix := []byte("row:")
			got, ok, err := project(b, prefix, []byte(tc.doc))
			if err != nil || string(got) != "row:"+tc.want || ok != (tc.want != "") {
				t.Errorf("got %s, %v, want %s", got, ok, tc.want)
			}
		})
	}
}

// A full-text search has a bounded number of terms, and one item does not make a long phrase too expensive.
func TestLimits_TextTerms(t *testing.T) {
	terms := strings.Repeat(", 'x'", maxSearched)
	for text, ok := range map[string]bool{
		"SELECT * FROM c WHERE FullTextContainsAny(c.t" + terms + ")":                                                true,
		"SELECT * FROM c WHERE FullTextContainsAll(c.t, 'x'" + terms + ")":                                           false,
		"SELECT TOP 1 * FROM c ORDER BY RANK FullTextScore(c.t" + terms + ")":                                        true,
		"SELECT TOP 1 * FROM c ORDER BY RANK FullTextScore(c.t, 'x'" + terms + ")":                                   false,
		"SELECT _FullTextScore(c.t, ['x'" + terms + "], 1, 1, [1" + strings.Repeat(", 1", maxSearched) + "]) FROM c": false,
	} {
		if _, err := Parse(text); (err == nil) != ok {
			t.Errorf("%.60s...: %v, want accepted: %t", text, err, ok)
		}
	}
	phrase := strings.Repeat("x ", maxText/4)
	b, err := bind("SELECT * FROM c WHERE FullTextContains(c.t, '"+phrase+"')", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Matches([]byte(`{"t":"` + phrase + `"}`)); err == nil {
		t.Error("a phrase of 100,000 words is searched for")
	}
}
