package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// cosmosLatency is the time that BenchmarkLatency adds to each request to Cosmos DB.
const cosmosLatency = 3 * time.Millisecond

// BenchmarkLatency measures C3, C4 and Q2 one at a time, without a cache, on an engine in another process with
// cosmosLatency. Half of the posts of Q2 have 4 KB. -cpu.program measures another build.
//
//	go test ./internal/e2e -run '^$' -bench Latency -benchtime 500x
func BenchmarkLatency(b *testing.B) {
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	cosmos := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(cosmosLatency)
		engine.ServeHTTP(w, r)
	}))
	defer cosmos.Close()
	p := servertest.StartCommand(b,
		bylineCommand("--listen", "localhost:0", "--cosmos-endpoint", cosmos.URL, "--no-demo", "--cache", "0"))
	p.WaitReady()
	p.Do("ada", createUser, map[string]any{"name": "ada"})
	var posts [2]string
	for i, content := range []string{"short", strings.Repeat("four KB ", 512)} {
		posts[i] = servertest.At(b, p.Do("ada", createPost, map[string]any{"title": "t", "content": content}),
			"createPost.post.id").(string)
	}
	for _, pattern := range []struct{ name, query string }{{"C3", createComment}, {"C4", likePost}, {"Q2", q2}} {
		b.Run(pattern.name, func(b *testing.B) {
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				variables := map[string]any{"post": posts[0], "content": "comment"}
				switch pattern.name {
				case "C4":
					b.StopTimer()
					p.Do("ada", unlikePost, map[string]any{"post": posts[0]})
					b.StartTimer()
					delete(variables, "content")
				case "Q2":
					variables = map[string]any{"id": posts[n%2]}
				}
				began := time.Now()
				if out, err := p.Post("ada", pattern.query, variables); err != nil || out.Errors != nil {
					b.Fatal(fmt.Sprint(err, out.Errors))
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			for _, q := range []int{50, 99} {
				b.ReportMetric(took[(len(took)-1)*q/100].Seconds()*1000, fmt.Sprintf("p%d-ms", q))
			}
		})
	}
}
