package article

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Latencies compares the reads of V3 on a small data set and on a large one.
type Latencies struct {
	Posts [2]int    `json:"posts"` // small, large
	Runs  int       `json:"runs"`  // of each read on each data set
	Reads []Latency `json:"reads"`
}

// Latency is the measurement of a read on the small and on the large data set.
type Latency struct {
	Request string     `json:"request"`
	What    string     `json:"what"`
	RU      [2]float64 `json:"ru"`  // mean
	P50     [2]float64 `json:"p50"` // in milliseconds
	P99     [2]float64 `json:"p99"`
}

// Reads returns the number of progress steps of Compare: the runs, and before them as many warm-ups, which
// bring the caches to a steady state.
func Reads(runs int) int { return 2 * runs }

// Compare measures the reads on V3 of two loaded suites with the same seed. Users and posts are drawn
// uniformly, except that the users' lists have the same lengths on both: a hundred users may be busier
// than a thousand by chance. progress, if set, is called with the number of steps done.
func Compare(ctx context.Context, small, large *Suite, progress func(done int)) (*Latencies, error) {
	runs := small.o.Runs
	l := &Latencies{Posts: [2]int{small.blog.TotalPosts(), large.blog.TotalPosts()}, Runs: runs}
	reads := slices.DeleteFunc(slices.Clone(requests), func(r request) bool { return !r.readOnly() })
	work := small.workload(Reads(runs), nil)
	subjects := []subject{
		{small.models[2], work, fmt.Sprintf("%d posts", l.Posts[0])},
		{large.models[2], large.workload(Reads(runs), work), fmt.Sprintf("%d posts", l.Posts[1])},
	}
	done := 0
	measured, err := measure(ctx, reads, subjects, runs, runs, func() {
		if done++; progress != nil {
			progress(done)
		}
	})
	if err != nil {
		return nil, err
	}
	for at, r := range reads {
		small, large := measured[at][0], measured[at][1]
		l.Reads = append(l.Reads, Latency{Request: r.id, What: r.what,
			RU: [2]float64{small.RU, large.RU}, P50: [2]float64{small.P50, large.P50},
			P99: [2]float64{small.P99, large.P99}})
	}
	return l, nil
}

// Write writes the comparison.
func (l *Latencies) Write(w io.Writer, f Format) error {
	if f == JSON {
		return json.NewEncoder(w).Encode(l)
	}
	header := []any{"request", ""}
	for _, what := range []string{"RU", "p50 ms", "p99 ms"} {
		header = append(header, fmt.Sprintf("%s, %d posts", what, l.Posts[0]), fmt.Sprintf("%d posts", l.Posts[1]),
			"times")
	}
	t := newTable(header...)
	for _, r := range l.Reads {
		row := table.Row{r.Request, r.What}
		for _, of := range [][2]float64{r.RU, r.P50, r.P99} {
			row = append(row, fmt.Sprintf("%.3f", of[0]), fmt.Sprintf("%.3f", of[1]), fmt.Sprintf("%.2f", of[1]/of[0]))
		}
		t.AppendRow(row)
	}
	_, err := fmt.Fprintf(w,
		"%s\n\n%d runs of each read of V3 on each data set, in turn, for users and posts drawn at random, after as "+
			"many warm-ups.\nThe store's cache is off: each read is a request to Cosmos DB, or to the embedded "+
			"engine.\n", render(t, f), l.Runs)
	return err
}

// maxRatio is the highest accepted ratio of the latencies on the large and the small data set.
const maxRatio = 1.2

// Check returns an error that names the reads with a ratio over maxRatio.
func (l *Latencies) Check() error {
	var slow []string
	for _, r := range l.Reads {
		if times := r.P50[1] / r.P50[0]; times > maxRatio {
			slow = append(slow, fmt.Sprintf("%s takes %.2f times as long", r.Request, times))
		}
	}
	if slow == nil {
		return nil
	}
	return fmt.Errorf("over %v times as long with %d posts as with %d: %s", maxRatio, l.Posts[1], l.Posts[0],
		strings.Join(slow, "; "))
}
