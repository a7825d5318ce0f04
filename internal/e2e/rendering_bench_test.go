package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkRendering has 50 anonymous clients ask for the HTML of forty texts each, of the kinds that take longest to
// render, and hang up, while other viewers read the feed and a post as HTML, preview and publish one. It reports the
// p99 of these operations, and how many times that of an idle server it is: at most 5. None of them may fail. With
// -short, beside other benchmarks, the times are not checked, and the server may refuse them as overloaded.
//
//	go test ./internal/e2e -run '^$' -bench 'Rendering$' -benchtime 1x
func BenchmarkRendering(b *testing.B) {
	const clients, hangUpAfter = 50, time.Second
	phase := 20 * time.Second
	if testing.Short() { // checks that it works, not how fast
		phase = time.Second
	}
	for b.Loop() {
		r := newRenderingBlog(b)
		idle := r.others(b, phase)
		ctx, stop := context.WithCancel(b.Context())
		var attack sync.WaitGroup
		for i := range clients {
			client := from(fmt.Sprint("203.0.113.", i+1))
			attack.Go(func() {
				<-time.After(time.Duration(i) * hangUpAfter / clients) // they are not in step
				for n := i; ctx.Err() == nil; n++ {
					var query strings.Builder
					for p := range 40 {
						fmt.Fprintf(&query, " p%d: post(id: %q) { contentHtml }", p, r.slow[(n*7+p*3)%len(r.slow)])
					}
					hungUp, cancel := context.WithTimeout(ctx, hangUpAfter)
					_, _ = client.send(hungUp, r.Root, "", "", operation{Query: "{" + query.String() + " }"})
					cancel()
				}
			})
		}
		attacked := r.others(b, phase)
		stop()
		attack.Wait()
		for name, took := range idle {
			before, during := percentile(took, 99), percentile(attacked[name], 99)
			b.ReportMetric(during.Seconds()*1000, name+"-p99-ms")
			times := during.Seconds() / before.Seconds()
			b.ReportMetric(times, name+"-times")
			if times > 5 && !testing.Short() {
				b.Errorf("%s takes %.1f times as long as on an idle server, want at most 5", name, times)
			}
		}
		r.Kill()
	}
}

// renderingBlog is a server with default limits behind a proxy.
type renderingBlog struct {
	*process
	tokens      []string // of other viewers
	usual, slow []any    // ids of posts
}

const usualText = "Some *usual* text, with [a link](https://example.com/) and `code`.\n\n"

func newRenderingBlog(b *testing.B) *renderingBlog {
	provider := startProvider(b)
	r := &renderingBlog{process: startProcess(b, "--data", b.TempDir(), "--no-demo", "--auth-issuer", provider.URL,
		"--auth-audience", "byline", "--behind-proxy", "127.0.0.0/8,::1/128")}
	r.WaitReady()
	for i := range 8 {
		token := provider.token(b, fmt.Sprint("viewer", i))
		r.tokens = append(r.tokens, token)
		r.must(b, token, createUser, map[string]any{"name": fmt.Sprint("viewer", i)})
		for n := range 5 {
			r.usual = append(r.usual, r.post(b, token, strings.Repeat(usualText, 20+5*n)))
		}
		for n := range 15 { // within the budget of a viewer
			r.slow = append(r.slow, r.post(b, token, slowText(15*i+n)))
		}
	}
	return r
}

func (r *renderingBlog) must(b *testing.B, token, query string, variables map[string]any) map[string]any {
	b.Helper()
	out, err := from("198.51.100.1").send(b.Context(), r.Root, token, "", operation{Query: query, Variables: variables})
	if err != nil || out.Errors != nil {
		b.Fatal(err, out.Errors)
	}
	return out.Data
}

func (r *renderingBlog) post(b *testing.B, token, text string) any {
	return at(b, r.must(b, token, createPost, map[string]any{"title": "t", "content": text}), "createPost.post.id")
}

// slowText returns one of the longest texts that take long to render.
func slowText(n int) string {
	kinds := []string{"[a](/b) ", "|a|b|\n|-|-|\n\n", "**a** ", "<a@b.cd> ", "# a\n"}
	text := fmt.Sprint(n, "\n\n") + strings.Repeat(kinds[n%len(kinds)], 1200)
	return text + strings.Repeat("prose, ", (100_000-len(text))/7)
}

// from returns a client with an address.
func from(address string) graphQLClient {
	return graphQLClient{&http.Client{Transport: forwarded{address}}}
}

type forwarded struct{ address string }

// RoundTrip implements http.RoundTripper.
func (f forwarded) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Forwarded-For", f.address)
	return http.DefaultTransport.RoundTrip(r)
}

// others sends operations of other viewers for a while, and returns their sorted latencies.
func (r *renderingBlog) others(b *testing.B, phase time.Duration) map[string][]time.Duration {
	text := strings.Repeat(usualText, 20)
	operations := []struct {
		name, query string
		variables   func(n int) map[string]any
	}{
		{"feed", `{ feed(first: 20) { edges { node { title excerpt viewerHasLiked } } } }`, nil},
		{"contentHtml", `query($id: ID!) { post(id: $id) { title contentHtml viewerHasLiked } }`,
			func(n int) map[string]any { return map[string]any{"id": r.usual[n%len(r.usual)]} }},
		{"renderMarkdown", `query($text: String!) { renderMarkdown(text: $text) }`,
			func(n int) map[string]any { return map[string]any{"text": fmt.Sprint(n, text)} }},
		{"createPost", createPost,
			func(n int) map[string]any { return map[string]any{"title": "t", "content": fmt.Sprint(n, text)} }},
	}
	client := from("198.51.100.2")
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
			out, err := client.send(b.Context(), r.Root, r.tokens[n/4%len(r.tokens)], "", operation{Query: o.query, Variables: variables})
			overloaded := len(out.Errors) > 0 && out.Errors[0].Extensions.Code == "UNAVAILABLE"
			if err != nil || out.Errors != nil && !(overloaded && testing.Short()) {
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
