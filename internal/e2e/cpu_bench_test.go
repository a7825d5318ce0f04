package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// readyMade is the environment variable that makes the test binary a server of ready-made responses: it
// names a JSON file of requests and responses.
const readyMade = "BYLINE_TEST_READY_MADE"

// cpuConnections is the number of concurrent clients.
const cpuConnections = 16

// Warm-up requests before a measurement: until JIT compilers have compiled the code, and the heap has
// its final size, so that page faults are over. Hot requests allocate little and need more of them.
const (
	warmUp    = 5_000
	warmUpHot = 20_000
)

// judged is the number of requests from which on a benchmark may fail.
const judged = 1000

// maxHot is the most CPU that a hot request may take, relative to the ready-made server.
const maxHot = 1.5

// bestPeers is the CPU, in microseconds on another machine, that the best of some GraphQL servers on
// PostgreSQL takes for an uncached request, and that a server of the ready-made response takes there.
// For the writes, whose responses are as short as Q1's, the latter is Q1's.
var bestPeers = map[string]struct{ peer, readyMade float64 }{
	"Q1": {91, 15}, "Q2": {150, 15}, "Q3": {454, 18}, "Q4": {347, 17}, "Q5": {326, 15}, "Q6": {842, 22}, "C3": {317, 15}, "C4": {341, 15},
}

// cpuRequest is a request of an access pattern; a function of n, since every write must be different.
type cpuRequest struct {
	name string
	make func(n int) (user, query string)
}

// BenchmarkCPU measures the CPU that the server's process takes for a request over HTTP with 16
// connections, the embedded engine included: hot, from the response cache, and cold, without caches.
// It alternates with a net/http server that has the same response ready-made. The benchmark fails if the
// ratio of the two is over maxHot for a hot request, or over that of the best peer for a cold one.
//
//	go test ./internal/e2e -run '^$' -bench CPU -benchtime 5000x
func BenchmarkCPU(b *testing.B) {
	makeProfileDir(b)
	for _, mode := range []struct {
		name string
		args []string
		of   string // patterns
		warm int
	}{
		{name: "hot", of: "Q", warm: warmUpHot},
		{name: "cold", of: "QC", args: []string{"--cache", "0"}, warm: warmUp},
	} {
		b.Run(mode.name, func(b *testing.B) {
			p := startProcess(b, append([]string{"--data", b.TempDir(), "--no-demo"}, mode.args...)...)
			requests := cpuRequests(p)
			waitIdle(b, p)
			for _, r := range requests {
				if strings.Contains(mode.of, r.name[:1]) {
					b.Run(r.name, func(b *testing.B) {
						most := maxHot
						if mode.name == "cold" {
							most = bestPeers[r.name].peer / bestPeers[r.name].readyMade
							defer b.ReportMetric(most, "peer-times-ready")
						}
						if times := measureCPU(b, p, r, mode.warm, mode.name+"-"+r.name); times > most && b.N >= judged {
							b.Errorf("%.2f times the CPU of the ready-made server, at most %.2f", times, most)
						}
					})
				}
			}
		})
	}
}

// measureCPU returns the CPU of a request, relative to the ready-made server.
func measureCPU(b *testing.B, p *process, r cpuRequest, warm int, profile string) (times float64) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cpuConnections}}
	user, query := r.make(0)
	first := ask(b, client, p.Root, user, query)
	ready := startReadyMade(b, query, first)
	var took [2]time.Duration
	var n atomic.Int64
	measure := func(root string, pid, count int) time.Duration {
		before := cpuOf(b, pid)
		sendAll(b, client, root, count, func() (user, query string) {
			if root == p.Root {
				return r.make(int(n.Add(1)))
			}
			return r.make(0)
		})
		r.settle()
		return cpuOf(b, pid) - before
	}
	if b.N >= judged {
		measure(p.Root, p.Cmd.Process.Pid, warm)
		measure(ready.Root, ready.Cmd.Process.Pid, warm)
	}
	stop := profileTo(p, profile)
	b.ResetTimer()
	const turn = 500
	for left := b.N; left > 0; left -= turn {
		took[0] += measure(p.Root, p.Cmd.Process.Pid, min(turn, left))
		took[1] += measure(ready.Root, ready.Cmd.Process.Pid, min(turn, left))
	}
	b.StopTimer()
	stop()
	b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "ready-cpu-µs/op")
	times = float64(took[0]) / float64(max(took[1], 1))
	b.ReportMetric(times, "times-ready")
	b.ReportMetric(float64(len(first)), "answer-bytes")
	return times
}

// settle waits until the projections have handled a write, after the next poll of the change feed.
func (r cpuRequest) settle() {
	if strings.HasPrefix(r.name, "C") {
		<-time.After(150 * time.Millisecond) // the feed is polled every 100 ms
	}
}

// waitIdle waits until the background work of filling the blog is done, so that no request is charged
// for it.
func waitIdle(b *testing.B, p *process) {
	eventually(b, func() error {
		before := cpuOf(b, p.Cmd.Process.Pid)
		<-time.After(time.Second)                                                      // the period of the measurement
		if took := cpuOf(b, p.Cmd.Process.Pid) - before; took > 100*time.Millisecond { // its polls take a fifth of that
			return fmt.Errorf("idle, it takes %v of CPU a second", took)
		}
		return nil
	})
}

// sendAll sends count requests, which next returns, over all connections concurrently.
func sendAll(b *testing.B, client *http.Client, root string, count int, next func() (user, query string)) {
	var left atomic.Int64
	left.Store(int64(count))
	var wg sync.WaitGroup
	for range cpuConnections {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				user, query := next()
				if a := ask(b, client, root, user, query); bytes.Contains(a, []byte(`"errors"`)) {
					b.Errorf("%s", a)
					return
				}
			}
		})
	}
	wg.Wait()
}

// cpuOf returns the CPU that the threads of a process have used so far; 0 if it has ended.
func cpuOf(b *testing.B, pid int) (took time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if _, missing := os.Stat("/proc/self/schedstat"); err != nil || missing != nil {
		b.Skip("needs Linux with schedstat")
	}
	for _, name := range threads {
		var ns int64
		if stat, err := os.ReadFile(name); err == nil { // the thread may have ended
			if _, err := fmt.Sscan(string(stat), &ns); err != nil {
				b.Fatalf("%s: %q", name, stat)
			}
		}
		took += time.Duration(ns)
	}
	return took
}

// ask sends a query and returns the body of the response.
func ask(t testing.TB, client *http.Client, root, user, query string) []byte {
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Error(err)
	}
	r, err := http.NewRequest(http.MethodPost, root+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return nil
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Byline-Cost", "none") // as in production
	if user != "" {
		r.Header.Set("Authorization", "Bearer demo:"+user)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s %v", res.Status, err)
	}
	return answer
}

// cpuRequests fills the blog and returns the reads and writes that are measured.
func cpuRequests(p *process) []cpuRequest {
	const users, posts, likes = 250, 120, 100
	name := func(i int) string { return fmt.Sprintf("user%03d", i%users) }
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	ids := make([]string, posts)
	each(users, func(i int) { p.Do(name(i), createUser, map[string]any{"name": name(i)}) })
	each(posts, func(i int) {
		ids[i] = at(p.T, p.Do(name(i/20), createPost, map[string]any{"title": fmt.Sprint("post ", i), "content": text}), "createPost.post.id").(string)
	})
	each(likes, func(i int) {
		p.Do(name(i), likePost, map[string]any{"post": ids[0]})
		if i < 25 {
			p.Do(name(i), createComment, map[string]any{"post": ids[0], "content": fmt.Sprint(i, " ", text[:200])})
		}
	})
	user := at(p.T, p.Do(name(1), `{ viewer { id } }`, nil), "viewer.id")
	read := func(query string) func(int) (string, string) {
		return func(int) (string, string) { return "", query }
	}
	const short = `id title excerpt commentCount likeCount createdAt author { id username }`
	post := ids[0]
	return []cpuRequest{
		{"Q1", read(fmt.Sprintf(`{ user(id: %q) { id username createdAt } }`, user))},
		{"Q2", read(fmt.Sprintf(`{ post(id: %q) { id title content commentCount likeCount createdAt author { id username } } }`, post))},
		{"Q3", read(fmt.Sprintf(`{ user(id: %q) { posts(first: 20) { edges { node { `+short+` } } pageInfo { hasNextPage endCursor } } } }`, user))},
		{"Q4", read(fmt.Sprintf(`{ post(id: %q) { comments(first: 25) { edges { node { id content createdAt author { id username } } } pageInfo { hasNextPage endCursor } } } }`, post))},
		{"Q5", read(fmt.Sprintf(`{ post(id: %q) { likes(first: 100) { edges { node { id createdAt user { id username } } } pageInfo { hasNextPage endCursor } } } }`, post))},
		{"Q6", read(`{ feed(first: 100) { edges { node { ` + short + ` } } pageInfo { hasNextPage endCursor } } }`)},
		{"C3", func(n int) (string, string) {
			return name(n), fmt.Sprintf(`mutation { createComment(input: {postId: %q, content: "%s"}) { comment { id } post { commentCount } } }`, ids[n%posts], text[:200])
		}},
		{"C4", func(n int) (string, string) { // a user likes a post once
			return name(n / posts), fmt.Sprintf(`mutation { likePost(input: {postId: %q}) { like { id } post { likeCount } } }`, ids[n%posts])
		}},
	}
}

// each calls f for the numbers below n, with limited concurrency.
func each(n int, f func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// startReadyMade starts a server of the ready-made response to a query.
func startReadyMade(b *testing.B, query string, answer []byte) *process {
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		b.Fatal(err)
	}
	p := &process{Instance: instance{T: b, Log: &output{}}}
	p.Cmd = exec.Command(os.Args[0])
	p.Cmd.Env = append(os.Environ(), readyMade+"="+string(body)+"\n"+string(bytes.TrimSpace(answer)))
	p.Cmd.Stderr = p.Log
	if err := p.Cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	eventually(b, func() error {
		_, address, ok := strings.Cut(strings.TrimSuffix(p.Log.String(), "\n"), "listening ")
		if !ok {
			return fmt.Errorf("not listening: %s", p.Log)
		}
		p.Root = "http://" + address
		return nil
	})
	return p
}

// serveReadyMade is the process of startReadyMade.
func serveReadyMade() error {
	body, answer, _ := strings.Cut(os.Getenv(readyMade), "\n")
	ready := map[string][]byte{body: []byte(answer + "\n")}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		answer, ok := ready[string(body)]
		if err != nil || !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	}))
}
