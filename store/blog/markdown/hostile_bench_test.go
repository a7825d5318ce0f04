package markdown

import (
	"fmt"
	"strings"
	"testing"
)

const longest = 100_000 // characters of a post

// BenchmarkHostile renders the slowest texts of the greatest length that are within the limits.
// Without the limits, quotes take 5 s, links 3.6 s, delimiters 4 s, and a table of 5,000 columns does not end.
func BenchmarkHostile(b *testing.B) {
	fill := func(block string) string { return strings.Repeat(block+"\n\n", longest/(len(block)+2)) }
	addresses := "[a]: /" + strings.Repeat("u", longest/2) + "\n\n" + fill(strings.Repeat("[a]", maxBrackets/2))
	for _, c := range []struct{ name, text string }{
		{"quotes", strings.Repeat(strings.Repeat(">", maxDepth)+"a\n", longest/(maxDepth+2))},
		{"quotes and lists", fill(strings.Repeat("> - ", maxDepth/2) + "a")},
		{"lists", strings.Repeat(nested(maxDepth), longest/len(nested(maxDepth)))},
		{"brackets", fill(strings.Repeat("[", maxBrackets))},
		{"links", fill(strings.Repeat("[a](", maxBrackets/2))},
		{"images", fill(strings.Repeat("![", maxBrackets))},
		{"delimiters", fill(strings.Repeat("_a*", maxDelimiters/2))},
		{"strong", fill(strings.Repeat("**a", maxDelimiters/4) + strings.Repeat("b**", maxDelimiters/4))},
		{"tables", strings.Repeat(table(50, 20)+"\n", 10)},
		{"long addresses", addresses[:longest]},
		{"quotation marks", strings.Repeat(`"`, longest)},
		{"ampersands", strings.Repeat("&", longest)},
		{"angle brackets", strings.Repeat("<a ", longest/3)},
		{"backticks", backticks(longest)},
		{"definitions", fill("[a]: b\n[c]: d") + "[a]"},
		{"headings", strings.Repeat("# a\n", longest/4)},
		{"words", strings.Repeat("word ", longest/5)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h, err := Render(b.Context(), c.text)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(h))/1000, "kB")
			}
		})
	}
}

func backticks(length int) string {
	var b strings.Builder
	for i := 1; b.Len() < length; i++ {
		fmt.Fprint(&b, "e", strings.Repeat("`", i))
	}
	return b.String()
}
