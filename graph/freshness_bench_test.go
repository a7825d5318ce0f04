package graph

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
)

// BenchmarkFreshness writes through one instance and measures how long another one still serves its cached response: at
// most a poll interval and the delay of the change feed.
//
//	go test ./graph -run '^$' -bench Freshness -benchtime 200x
func BenchmarkFreshness(b *testing.B) {
	const poll = 100 * time.Millisecond // as on the embedded engine
	blog := smallBlog(b, Options{})
	one, two := newInstance(b, blog, "one", poll), newInstance(b, blog, "two", poll)
	query := blog.fill(`{ post(id: "<post:engines>") { title } }`)
	edit := blog.fill(`mutation($t: String!) { updatePost(input: {id: "<post:engines>", title: $t}) { post { id } } }`)
	var took []time.Duration
	pause := time.NewTicker(poll + 7*time.Millisecond) // so that writes come at any moment between two polls
	defer pause.Stop()
	for n := 0; b.Loop(); n++ {
		want := fmt.Sprint("title ", n, ".")
		for range 3 {
			post(b, two, "", query, nil) // so that it is cached
		}
		if a := post(b, one, "demo:ada", edit, map[string]any{"t": want}); len(a.Errors) > 0 {
			b.Fatal(a.body)
		}
		written := time.Now()
		testkit.WaitFor(b, func() bool { return strings.Contains(post(b, two, "", query, nil).body, want) })
		took = append(took, time.Since(written))
		<-pause.C
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "ms-p50")
	b.ReportMetric(ms(took[len(took)*99/100]), "ms-p99")
	b.ReportMetric(ms(took[len(took)-1]), "ms-max")
}
