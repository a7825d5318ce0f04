package markdown

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nested returns lists within each other, each on a line of its own.
func nested(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	return b.String()
}

// The steps of each construct, once and often. If they are too few, a text passes that renders for long: TestWorstText
// finds it.
func TestSteps(t *testing.T) {
	have := map[string][2]int{}
	for name := range steps {
		once := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(name)
		have[name] = [2]int{stepsFor(once), stepsFor(strings.Repeat(once, 20))}
	}
	if d := cmp.Diff(steps, have); d != "" {
		t.Error(d)
	}
	label := func(length int) int { return stepsFor("[" + strings.Repeat("a", length) + "]") }
	if label(998) == label(997) || label(2000) != label(998) { // with the bracket 999 bytes
		t.Errorf("labels of 997, 998 and 2000 characters: %d, %d, %d", label(997), label(998), label(2000))
	}
}

// steps has texts, with the steps of each and of its twentyfold.
var steps = map[string][2]int{
	"    a\\n": {2350, 4630}, "![a](/b) ": {9186, 145720}, "# a\\n": {6150, 125280}, "&amp;": {2000, 2000},
	"***a": {5450, 62830}, "**a ": {4700, 47450}, "*a* ": {5452, 63250}, "- [x] a\\n": {8350, 121210},
	"- a\\n": {6250, 79210}, "---\\n": {1300, 28280}, "1. a\\n": {5650, 72910}, "<!--": {3150, 3150},
	"<a ": {2858, 18590}, "<a>": {3150, 46410}, "<div>\\n\\n": {3270, 65400}, "> - a\\n\\n": {9340, 186800},
	"> a\\n": {4350, 18410}, "[": {4200, 34600}, "[[a]]": {6084, 78968}, "[a\\n\\nb]\\n\\n": {7540, 150800},
	"[a]( ": {4580, 44100}, "[a](/b 'c') ": {8901, 128620}, "[a](/b) ": {8876, 128120},
	"[a]: /b\\n": {2600, 26160}, "[a][ ": {6180, 76100}, "[a]\\n\\n[a]: /bcd\\n\\n": {12766, 255320},
	"]": {2100, 4000}, "_a": {3650, 32150}, "```\\na\\n```\\n": {2590, 51800}, "`a ``b": {5768, 27356},
	"`a` ": {3950, 38150}, "a@b.cd ": {9250, 147000}, "a\\n-\\n\\n": {8270, 165400},
	"a\\n=\\n": {8150, 165280}, "a_b": {3500, 32000}, "a~~~~": {2410, 10200}, "http: ": {2100, 4000},
	"http://a.b ": {9350, 149000}, "word ": {2000, 2000}, "word  \\n": {2000, 25180},
	"word\\\\\\n": {2000, 25180}, "word\\n": {2000, 13780}, "word\\n\\n": {2620, 52400},
	"www.a.b ": {9275, 147500}, "|a|b|\\n|-|-|\\n|c|d|\\n\\n": {21260, 425200}, "~~a~~ ": {6652, 92950},
	"~~~~": {2350, 2350},
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, text string
		most       int // of the text that are within the limits
		message    string
	}{
		{"quotes on a line", ">", maxDepth, "at most 32 quotes and lists within each other"},
		{"lists on a line", "1. ", maxDepth, "at most 32 quotes and lists within each other"},
		{"headings", "# a\n", 456, "fewer lines, lists and quotes"},
		{"cells", "|a|b|c|d|e|\n|-|-|-|-|-|\n|\n\n", 85, "fewer cells in tables"},
		{"brackets", "[a", 2081, "fewer brackets and links"},
		{"brackets within each other", strings.Repeat("[", 400) + strings.Repeat("]", 400) + "\n\n", 0,
			"fewer brackets and links"},
		{"definitions", "[a]: /b\n", 1781, "fewer brackets and links"},
		{"delimiters", "_a*", 668, "fewer * _ ~"},
		{"code", "`a` ", 2498, "fewer HTML, code and links"},
		{"e-mail", "a@b.cd ", 427, "fewer HTML, code and links"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Render(t.Context(), strings.Repeat(c.text, c.most)+"a"); err != nil {
				t.Errorf("%d: %v", c.most, err)
			}
			_, err := Render(t.Context(), strings.Repeat(c.text, c.most+1)+"a")
			if !errors.As(err, new(*LimitError)) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%d: %v, want %s", c.most+1, err, c.message)
			}
		})
	}
	for depth, want := range map[int]error{maxDepth: nil, maxDepth + 1: errTooDeep} {
		if err := Check(nested(depth)); err != want {
			t.Errorf("%d lists on lines of their own: %v", depth, err)
		}
		if err := Check(strings.Repeat(">", depth-1) + "- a"); err != want {
			t.Errorf("a list in %d quotes: %v", depth-1, err)
		}
	}
}

// Ordinary texts are within the limits, however long they are.
func TestLimits_OrdinaryTexts(t *testing.T) {
	var words, numbers strings.Builder
	for i := range 1000 {
		words.WriteString("- banana\n")
		numbers.WriteString("| " + strconv.Itoa(i) + " | " + strconv.Itoa(i*i) + " |\n")
	}
	const readme = "# A title of a few words\n\nSome *text* with `code`, and a [link](https://example.com/path), in " +
		"a paragraph of two sentences. This is the second; see https://example.org/what for **more**.\n\n" +
		"- an item of a list\n- another one, with `code`\n- [x] done\n\n> It was said.\n\n```go\nfunc main() {}\n" +
		"```\n\n| name | what it is |\n|---|---|\n| first | the beginning |\n| last | the end of all |\n\n" +
		"![a picture](/a.png)\n\n"
	for name, text := range map[string]string{
		"prose":                 prose(longest),
		"everything":            strings.Repeat(readme, longest/2/len(readme)),
		"a thousand words":      words.String(),
		"a table of 300 rows":   "| n | n² |\n|--:|--:|\n" + numbers.String()[:300*13],
		"code":                  "```\n" + strings.Repeat("a[i][j] = *b_c[d_e] * f[g];\n", 3500) + "```",
		"code without a fence":  strings.Repeat("    a[i][j] = *b_c[d_e] * f[g];\n", 3000),
		"a poem":                strings.Repeat("The rain on the roof\nof a house by the sea\n\n", 2200),
		"200 links":             strings.Repeat("* [Some words](https://example.com/a/path) — what it is\n", 200),
		"one long paragraph":    strings.Repeat("Some words with *emphasis* and [a link](https://example.com) in. ", 300),
		"snake case":            strings.Repeat("call some_long_name_of_a_function, then another_one. ", 1500),
		"Japanese":              strings.Repeat("これは長い文章です。", 3000),
		"a log":                 strings.Repeat("[INFO] 12:00:01 started\n", 400),
		"a bracket, and lines":  "[x] log\n" + strings.Repeat("a\n", 2500),
		"an alphabet of quotes": strings.Repeat("> a line of a quote\n", 3000),
	} {
		if err := Check(text); err != nil {
			t.Errorf("%s, %d bytes: %v", name, len(text), err)
		}
	}
}

// A long text is not parsed to its end when its context ends.
func TestRender_EndsWithinAText(t *testing.T) {
	for name, text := range map[string]string{
		"blocks":  strings.Repeat("a paragraph of some length, without markup\n\n", 2000),
		"inlines": strings.Repeat("*a* [some words](/b) and nothing else for a while.\n\n", 500),
	} {
		count := &counting{Context: t.Context(), until: 1 << 30}
		if _, err := parse(count, []byte(text)); err != nil {
			t.Fatal(err)
		}
		all := count.calls
		if least := stepsFor(text) / 300_000; all < least {
			t.Errorf("%s: %d looks at the context, want at least %d", name, all, least)
		}
		whole := &counting{Context: t.Context(), until: 1 << 30}
		if _, err := Render(whole, text); err != nil {
			t.Fatal(err)
		}
		for _, until := range []int{0, all / 2, all - 1, (all + whole.calls) / 2, whole.calls - 1} {
			count := &counting{Context: t.Context(), until: until}
			if _, err := Render(count, text); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: after %d of %d looks: %v", name, until, whole.calls, err)
			}
			if count.calls != until+1 {
				t.Errorf("%s: went on for %d looks after %d", name, count.calls-until, until)
			}
		}
	}
}

// counting is a context whose deadline passes after a number of looks at it.
type counting struct {
	context.Context
	until, calls int
}

func (c *counting) Err() error {
	if c.calls++; c.calls > c.until {
		return context.DeadlineExceeded
	}
	return nil
}
