package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkRendering has 50 anonymous clients ask for the HTML of forty texts each, of the kinds that take longest to
// render, and hang up, while other viewers read the feed and a post as HTML, preview and publish one. It reports the p99
// of these operations, and how many times that of an idle server it is; none of them may fail.
//
//	go test ./internal/e2e -run '^$' -bench 'Rendering$' -benchtime 1x
func BenchmarkRendering(b *testing.B) {
	const clients, texts, hangUpAfter = 50, 120, 200 * time.Millisecond
	phase := 10 * time.Second
	if testing.Short() { // checks that it works, not how fast
		phase = time.Second
	}
	for b.Loop() {
		s := startProcess(b, "--data", b.TempDir())
		s.WaitReady()
		const author = "author"
		s.Do(author, createUser, map[string]any{"name": author})
		usual := "Some *usual* text, with [a link](https://example.com/) and `code`.\n\n"
		ids := make([]any, 40)
		for i := range ids {
			ids[i] = at(b, s.Do(author, createPost, map[string]any{"title": "usual",
				"content": strings.Repeat(usual, 20+i)}), "createPost.post.id")
		}
		slow := make([]any, texts)
		for i := range slow {
			slow[i] = at(b, s.Do(author, createPost, map[string]any{"title": "slow", "content": slowText(i)}),
				"createPost.post.id")
		}
		idle := others(b, s, author, usual, ids, phase)
		ctx, stop := context.WithCancel(b.Context())
		var attack sync.WaitGroup
		for client := range clients {
			attack.Go(func() {
				for n := client; ctx.Err() == nil; n++ {
					var query strings.Builder
					for i := range 40 {
						fmt.Fprintf(&query, " p%d: post(id: %q) { contentHtml }", i, slow[(n*7+i*3)%texts])
					}
					hungUp, cancel := context.WithTimeout(ctx, hangUpAfter)
					_, _ = s.PostIn(hungUp, "", "", "{"+query.String()+" }", nil)
					cancel()
				}
			})
		}
		attacked := others(b, s, author, usual, ids, phase)
		stop()
		attack.Wait()
		for name, took := range idle {
			before, during := percentile(took, 99), percentile(attacked[name], 99)
			b.ReportMetric(during.Seconds()*1000, name+"-p99-ms")
			b.ReportMetric(during.Seconds()/before.Seconds(), name+"-times")
		}
		s.Kill()
	}
}

// slowText returns one of the longest texts that take long to render.
func slowText(n int) string {
	kinds := []string{"[a](/b) ", "|a|b|\n|-|-|\n\n", "**a** ", "<a@b.cd> ", "# a\n"}
	text := fmt.Sprint(n, "\n\n") + strings.Repeat(kinds[n%len(kinds)], 3000)
	return text + strings.Repeat("prose, ", (100_000-len(text))/7)
}

// others sends operations of other viewers for a while, and returns their sorted latencies.
func others(
	b *testing.B, p *process, author, text string, ids []any, phase time.Duration,
) map[string][]time.Duration {
	operations := []struct {
		name, query string
		variables   func(n int) map[string]any
	}{
		{"feed", `{ feed(first: 20) { edges { node { title excerpt } } } viewer { id } }`, nil},
		{"contentHtml", `query($id: ID!) { post(id: $id) { title contentHtml } }`,
			func(n int) map[string]any { return map[string]any{"id": ids[n%len(ids)]} }},
		{"renderMarkdown", `query($text: String!) { renderMarkdown(text: $text) }`,
			func(n int) map[string]any { return map[string]any{"text": fmt.Sprint(n, strings.Repeat(text, 20))} }},
		{"createPost", createPost,
			func(n int) map[string]any {
				return map[string]any{"title": "usual", "content": fmt.Sprint(n, strings.Repeat(text, 20))}
			}},
	}
	took := map[string][]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n, end := 0, time.Now().Add(phase); time.Now().Before(end); n++ {
		<-tick.C
		all.Go(func() {
			o := operations[n%len(operations)]
			var variables map[string]any
			if o.variables != nil {
				variables = o.variables(n)
			}
			began := time.Now()
			out, err := p.PostIn(b.Context(), author, "", o.query, variables)
			if err != nil || out.Errors != nil {
				b.Errorf("%s: %v %v", o.name, err, out.Errors)
			}
			mu.Lock()
			defer mu.Unlock()
			took[o.name] = append(took[o.name], time.Since(began))
		})
	}
	all.Wait()
	for _, d := range took {
		slices.Sort(d)
	}
	return took
}
