package markdown

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"byline/internal/testkit"
)

const longest = 100_000 // characters of a post

// maxTimes is the most CPU time that the longest text within the limits takes, relative to prose of the same length.
const maxTimes = 10

// prose returns a text without any markup but paragraphs.
func prose(length int) string {
	const paragraph = "Nobody knows why the lamp on the pier burns at night; the last ship left in the spring. Some " +
		"say that it's for the gulls, others that the keeper has forgotten it. We asked him twice, and he only laughed.\n\n"
	return strings.Repeat(paragraph, length/len(paragraph)+1)[:length]
}

// pieces are the beginnings and ends of everything that Markdown has, and what can be between.
var pieces = []string{
	"a", "b", "é", "字", ".", ",", "1", " ", "  ", "    ", "\t", "\n", "\n\n", "\\", "\\\n", "  \n",
	"\u200d", "\u00a0",
	"#", "# ", "# a\n", "> ", ">", "- ", "* ", "+ ", "1. ", "1) ", "- [ ] ", "- [x] a\n", "---\n", "***\n", "===\n",
	"```", "```\n", "~~~\n", "`", "``", "`a` ", "*", "**", "***", "_", "__", "~", "~~", "_a*", "*a ", "**a** ",
	"~~a~~ ",
	"[", "]", "![", "](", "](/a)", "](/a \"b\")", "](<", "[a]", "[a]: /b\n", "[]", "(", ")", "\"", "'", "![a](/b)",
	"[a](/b) ", "[a][b] ", "[x]", "!", "<", ">", "<a", "<a b=\"", "</a>", "<a>", "<!--", "-->", "<?", "?>", "<!A",
	"<![CDATA[", "]]>", "<div>\n", "</div>\n", "<pre>", "<script>\n", "&", "&amp;", "&#35;", "&lt", ";",
	"|", "|a", "|-", "|-|-|\n", "|a|b|\n|-|-|\n", ":-:", "http://", "http://a.bc", "https://a.bc/d(e)", "HTTP:", "://",
	":", "/", "www.", "www.a.bc", "@", "a@b.cd", "mailto:", "%", "%20", "[::1]", "<http://a>", "<a@b.cd>",
}

// recipe is a text: parts one after the other, each a sequence of pieces a number of times.
type recipe []struct {
	pieces string
	times  int
}

func (r recipe) text() string {
	var b strings.Builder
	for _, part := range r {
		b.WriteString(strings.Repeat(part.pieces, min(part.times, longest/len(part.pieces))))
	}
	return b.String()
}

// fill returns the text of a recipe again and again, as often as the limits allow, and then prose.
func (r recipe) fill() string {
	once := r.text()
	if len(once) == 0 || len(once) > longest/10 {
		return prose(longest)
	}
	const all = freeWork + workPerByte*longest
	sample := strings.Repeat(once, 1+longest/20/len(once))
	_, m, _ := parseWithin(context.Background(), []byte(sample), all)
	length := min(longest, len(sample)*all/max(1, all-m.left))
	for ; ; length = length * 4 / 5 {
		text := strings.Repeat(once, length/len(once))
		if text += prose(longest - len(text)); Check(text) == nil {
			return text
		}
	}
}

// stepsFor returns the steps of a text without limits.
func stepsFor(text string) int {
	const all = 1 << 40
	_, m, _ := parseWithin(context.Background(), []byte(text), all)
	return all - m.left
}

func (r recipe) mutate(rnd *rand.Rand) recipe {
	m := slices.Clone(r)
	piece := func() string { return pieces[rnd.IntN(len(pieces))] }
	times := func() int { return []int{1, 1, 1, 2, 5, 20, 50, 200, 1000, 5000}[rnd.IntN(10)] }
	if len(m) == 0 || len(m) < 4 && rnd.IntN(6) == 0 {
		m = append(m, recipe{{piece() + piece(), times()}}...)
	}
	part := &m[rnd.IntN(len(m))]
	switch rnd.IntN(6) {
	case 0:
		part.pieces = piece() + part.pieces
	case 1:
		part.pieces += piece()
	case 2:
		if _, after, ok := strings.Cut(part.pieces, piece()); ok && after != "" {
			part.pieces = after
		}
	case 3:
		part.pieces = piece()
	case 4:
		part.times = times()
	case 5:
		part.times = max(1, part.times*(70+rnd.IntN(60))/100)
	}
	return m
}

// cpuOf returns the least CPU time that rendering a text takes.
func cpuOf(t *testing.T, text string, repetitions int) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	least := time.Hour
	for range repetitions {
		before := used()
		if _, err := Render(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		least = min(least, used()-before)
	}
	return least
}

// TestWorstText searches for the slowest text within the limits, by hill climbing from random recipes.
//
//	BYLINE_TEST_LONG=1 go test -run TestWorstText -v ./store/blog/markdown
func TestWorstText(t *testing.T) {
	if !testkit.Long() {
		t.Skip("a search of two minutes")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	type found struct {
		recipe
		text string
		cpu  time.Duration
	}
	measured := func(r recipe) found {
		text := r.fill()
		return found{r, text, cpuOf(t, text, 1)}
	}
	var all []found
	texts, until := 0, time.Now().Add(2*time.Minute)
	for time.Now().Before(until) {
		var best found
		for failed := 0; failed < 60 && time.Now().Before(until); failed++ {
			next := measured(best.mutate(rnd))
			texts++
			if next.cpu > best.cpu {
				if next.cpu = min(next.cpu, cpuOf(t, next.text, 2)); next.cpu > best.cpu {
					best, failed = next, 0
				}
			}
		}
		all = append(all, best)
	}
	slices.SortFunc(all, func(a, b found) int { return int(b.cpu - a.cpu) })
	t.Logf("of %d texts the slowest:", texts)
	for _, f := range all[:min(5, len(all))] {
		unit, took := time.Hour, time.Hour
		for range 30 { // in turn, as other programs also take time
			unit, took = min(unit, cpuOf(t, prose(longest), 3)), min(took, cpuOf(t, f.text, 1))
		}
		times := float64(took) / float64(unit)
		t.Logf("%.1f times:", times)
		for _, part := range f.recipe {
			t.Logf("\t%d times %q", part.times, part.pieces)
		}
		if times > maxTimes {
			t.Errorf("more than %d times", maxTimes)
		}
	}
}
