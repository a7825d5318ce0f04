package search

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog"
)

func TestParse(t *testing.T) {
	for _, one := range []struct{ text, want string }{
		{"Red bicycles", `"Red" "bicycles"`},
		{` "red  bicycle"-blue `, `"red bicycle" -"blue"`},
		{`red -"a blue one`, `"red" -"a blue one"`},
		{`the red the`, `"red"`},
		{`red RED reds "red"`, `"red"`},
		{`- -- red -the "" "of the"`, `"red"`},
		{`state-of-the-art C++`, `"state-of-the-art" "C++"`},
		{`“typographic quotes” x`, `"typographic quotes" "x"`},
		{"東京\u3000カフェ", `"東京" "カフェ"`},
		{"a\x00b\xff1", `"b" "1"`},
		{`red") OR (true`, `"red" ") OR (true"`},
		{`x\ y`, `"x\" "y"`},
	} {
		q, err := Parse("test", one.text)
		if err != nil || q.String() != one.want {
			t.Errorf("%q: got %v, %v, want %s", one.text, q, err, one.want)
		}
		if again, err := Parse("test", q.String()); err != nil || again.String() != q.String() {
			t.Errorf("%v parsed again: %v, %v", q, again, err)
		}
	}
	for _, text := range []string{"", " \t", `"`, "-", "the", "-red", `-"red blue"`, "…", strings.Repeat("x", MaxQuery+1),
		"a1 a2 a3 a4 a5 a6 a7 a8 -a9 a10 a11"} {
		_, err := Parse("test", text)
		if refused := (*blog.Error)(nil); !errors.As(err, &refused) || refused.Code != blog.Invalid || refused.Field != "query" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Parse("test", "a1 a2 a3 a4 a5 a6 a7 a8 -a9 a10 the"); err != nil {
		t.Error(err)
	}
}

// TestParse_ManyTerms: the terms after the limit take no time.
func TestParse_ManyTerms(t *testing.T) {
	allocations := func(terms int) float64 {
		var text strings.Builder
		for i := range terms {
			text.WriteString(string(rune('一'+i)) + " ")
		}
		return testing.AllocsPerRun(10, func() {
			if _, err := Parse("test", text.String()); err == nil {
				t.Error("no error")
			}
		})
	}
	if few, many := allocations(MaxTerms+1), allocations(MaxQuery/2); many > few*1.5 {
		t.Errorf("%v allocations for %d terms, %v for %d", few, MaxTerms+1, many, MaxQuery/2)
	}
}

// TestQuery_Wire: the requests have the form of those of Microsoft's SDKs (azure-cosmos-dotnet-v3, the baselines of its
// hybrid query plans), with the statistics in place.
func TestQuery_Wire(t *testing.T) {
	q, err := Parse("test", `swim "ru\n \"`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(c.text)), "hitCounts": `+
		`[COUNTIF(FullTextContains(c.text, "swim")), COUNTIF(FullTextContains(c.text, "ru\\n \\"))]}] `+
		`AS fullTextStatistics FROM c`, statisticsQuery(q.must)); d != "" {
		t.Error(d)
	}
	got := q.scoredQuery(Filter{Tag: "x", AuthorID: "u"}, "2020s",
		statistics{size: size{texts: 7, words: 900}, hits: []int64{3, 0}}, 21).Text
	score := `_FullTextScore(c.text, ["swim", "ru\\n \\"], 7, 900, [3,0])`
	if d := cmp.Diff(`SELECT TOP 21 c._rid, [{"item": `+score+`}] AS orderByItems, {"payload": `+q.selected()+
		`, "componentScores": [(`+score+` ?? -1)]} AS payload FROM c WHERE (c.decade = @decade AND `+
		`FullTextContainsAll(c.text, "swim", "ru\\n \\") AND c.userId = @author AND ARRAY_CONTAINS(c.tags, @tag)) `+
		`AND (true) ORDER BY `+score+` DESC`, got); d != "" {
		t.Error(d)
	}
}

// marked returns a snippet with its matches in brackets.
func marked(s Snippet) string {
	units, at := utf16.Encode([]rune(s.Text)), 0
	part := func(from, to int) string { return string(utf16.Decode(units[from:to])) }
	var b strings.Builder
	for _, m := range s.Matches {
		fmt.Fprintf(&b, "%s[%s]", part(at, m.Start), part(m.Start, m.End))
		at = m.End
	}
	return b.String() + part(at, len(units))
}

func TestSnippet(t *testing.T) {
	long := strings.Repeat("some other words ", 100)
	for _, one := range []struct {
		name, query, text, want string
	}{
		{"forms of a word", "running cats", "A cat runs, the Cats' running.", "A [cat] [runs], the [Cats]' [running]."},
		{"phrase", `"red bicycle"`, "A bicycle, red; a red bicycle.", "A bicycle, red; a [red bicycle]."},
		{"stop word in a phrase", `"state of the art"`, "the State of an Art", "the [State of an Art]"},
		{"far", "needle", long + "a needle in " + long, "…words some other words some other words some other words a [needle] in " +
			strings.TrimSpace(strings.Repeat("some other words ", 7)) + " some other…"},
		{"forms that differ", "happiness", long + "happy people " + long, "…words some other words some other words some " +
			"other words [happy] people " + strings.TrimSpace(strings.Repeat("some other words ", 7)) + " some other…"},
		{"in the title", "title", "Body.\n\nThe title\ngo", "Body."},
		{"in the tags of a long text", "go", long + "\n\nThe title\ngo", strings.TrimSpace(strings.Repeat(
			"some other words ", 11)) + " some other…"},
		{"no body", "title", "\n\nThe title\ngo", ""},
		{"a script without spaces", "猫", strings.Repeat("文字", 300) + "猫" + strings.Repeat("文字", 50) + " Go " +
			strings.Repeat("文字", 300), "…" + strings.Repeat("文字", 30) + "[猫]" + strings.Repeat("文字", 50) + " Go " +
			strings.Repeat("文字", 17) + "文…"},
		{"emoji cut by a window", "word", strings.Repeat("🙂", 190) + " word" + strings.Repeat("🙂", 300),
			"…[word]" + strings.Repeat("🙂", 177) + "…"},
		{"a window ends with the text", "word", strings.Repeat("x", windowLength-6) + " word\n\nThe title\ngo",
			"…[word]"},
		{"two words far apart", "needle thread", "needle " + long + "needle and thread", "…words some other words some other " +
			"words some other words [needle] and [thread]"},
	} {
		t.Run(one.name, func(t *testing.T) {
			q, err := Parse("test", one.query)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(one.want, marked(q.snippet(windowsOf(q, one.text)))); d != "" {
				t.Error(d)
			}
		})
	}
	q, _ := Parse("test", "bicycle")
	if d := cmp.Diff(Snippet{"🚲🚲 Ünder bicycle", []Range{{11, 18}}}, q.snippet([]string{"🚲🚲 Ünder bicycle"})); d != "" {
		t.Error(d)
	}
}

// windowsOf returns what the SQL of windows selects of a text whose lower case has the same length.
func windowsOf(q Query, text string) []string {
	units := utf16.Encode([]rune(text))
	part := func(from int) string {
		return string(utf16.Decode(units[min(from, len(units)):min(len(units), from+windowLength)]))
	}
	all := []string{part(0)}
	for _, t := range q.must {
		lower := strings.ToLower(text)
		at := unitsOf(lower[:max(0, strings.Index(lower, t.beginning()))])
		all = append(all, part(max(0, at-beforeWindow)))
	}
	return all
}
