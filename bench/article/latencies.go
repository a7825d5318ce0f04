package article

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Latencies compares what reads take on V3 with a small data set and with a large one.
type Latencies struct {
	Posts [2]int    `json:"posts"` // small, large
	Runs  int       `json:"runs"`  // of each read on each data set
	Reads []Latency `json:"reads"`
}

// Latency is what a read takes with the small data set, and with the large one.
type Latency struct {
	Request string     `json:"request"`
	What    string     `json:"what"`
	RU      [2]float64 `json:"ru"`  // mean
	P50     [2]float64 `json:"p50"` // in milliseconds
	P99     [2]float64 `json:"p99"`
}

// Reads returns how many turns Compare takes with as many runs. As many runs that do not
// count come first, so that memory holds what it is going to hold.
func Reads(runs int) int { return 2 * runs }

// Compare runs the reads on V3 of two suites of the same seed, which are loaded. Each run
// makes each read on both, by turns, so that whatever else the machine does is in both
// alike. Users and posts are drawn uniformly, but for the users' lists, which are as long
// on both: a hundred users may be busier than a thousand by chance. progress, if set, is
// called with the number of turns done.
func Compare(ctx context.Context, small, large *Suite, progress func(done int)) (*Latencies, error) {
	suites, runs := [2]*Suite{small, large}, small.o.Runs
	l := &Latencies{Posts: [2]int{small.blog.TotalPosts(), large.blog.TotalPosts()}, Runs: runs}
	wanted := [2]*workload{0: small.workload(Reads(runs), nil)}
	wanted[1] = large.workload(Reads(runs), wanted[0])
	for _, r := range requests {
		if r.reads() {
			l.Reads = append(l.Reads, Latency{Request: r.id, What: r.what})
		}
	}
	took := make([][2][]time.Duration, len(l.Reads))
	runtime.GC() // of what came before
	for i := range Reads(runs) {
		for at := range l.Reads {
			r := &l.Reads[at]
			for turn := range suites {
				n := (turn + i) % len(suites) // neither is always the first
				d, charges, err := wanted[n].timed(ctx, r.Request, suites[n].models[2], i)
				if err != nil {
					return nil, fmt.Errorf("%s with %d posts: %w", r.Request, l.Posts[n], err)
				}
				if i >= runs {
					ru, _ := charges.of(r.Request)
					r.RU[n] += ru / float64(runs)
					took[at][n] = append(took[at][n], d)
				}
			}
		}
		if progress != nil {
			progress(i + 1)
		}
	}
	for at := range l.Reads {
		for n := range suites {
			l.Reads[at].P50[n], l.Reads[at].P99[n] = percentile(took[at][n], 50), percentile(took[at][n], 99)
		}
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
		header = append(header, fmt.Sprintf("%s, %d posts", what, l.Posts[0]), fmt.Sprintf("%d posts", l.Posts[1]), "times")
	}
	t := newTable(header...)
	for _, r := range l.Reads {
		row := table.Row{r.Request, r.What}
		for _, of := range [][2]float64{r.RU, r.P50, r.P99} {
			row = append(row, fmt.Sprintf("%.3f", of[0]), fmt.Sprintf("%.3f", of[1]), fmt.Sprintf("%.2f", of[1]/of[0]))
		}
		t.AppendRow(row)
	}
	_, err := fmt.Fprintf(w, "%s\n\n%d runs of each read of V3 on each data set, by turns, for users and posts drawn at random, after as many that do not count.\nThe store's cache is off: each read is a request to Cosmos DB, or to the embedded engine.\n", render(t, f), l.Runs)
	return err
}

// flat is how many times as long a read may take on the large data set.
const flat = 1.2

// Check returns an error that names the reads which take longer than that.
func (l *Latencies) Check() error {
	var slow []string
	for _, r := range l.Reads {
		if times := r.P50[1] / r.P50[0]; times > flat {
			slow = append(slow, fmt.Sprintf("%s takes %.2f times as long", r.Request, times))
		}
	}
	if slow == nil {
		return nil
	}
	return fmt.Errorf("over %v times as long with %d posts as with %d: %s", flat, l.Posts[1], l.Posts[0], strings.Join(slow, "; "))
}
