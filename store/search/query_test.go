package search

import (
	"errors"
	"fmt"
	"strings"
	"testing"

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
	units, at := []rune(s.Text), 0 // of the basic plane
	var b strings.Builder
	for _, m := range s.Matches {
		fmt.Fprintf(&b, "%s[%s]", string(units[at:m.Start]), string(units[m.Start:m.End]))
		at = m.End
	}
	return b.String() + string(units[at:])
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

// windowsOf returns what the SQL of windows selects of a text in ASCII.
func windowsOf(q Query, text string) []string {
	part := func(from int) string { return text[min(from, len(text)):min(len(text), from+windowLength)] }
	all := []string{part(0)}
	for _, t := range q.must {
		all = append(all, part(max(0, strings.Index(strings.ToLower(text), t.beginning())-beforeWindow)))
	}
	return all
}
