package e2e

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"byline/internal/servertest"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// cpuUsers is the size of the blog: of 1,000 users, which .ci/peer uses, it has 27,329 posts with 341,682
// comments and 1,362,599 likes.
var cpuUsers = flag.Int("cpu.users", 50, "number of users of the blog of BenchmarkCPU")

// cpuProgram makes BenchmarkCPU measure another build of the program, so that benchstat can compare two. It is not
// profiled.
//
//	go test ./internal/e2e -run '^$' -bench CPU -benchtime 10000x -count 6 -cpu.program FILE >/tmp/before
//	go test ./internal/e2e -run '^$' -bench CPU -benchtime 10000x -count 6 >/tmp/after
//	benchstat /tmp/before /tmp/after
var cpuProgram = flag.String("cpu.program", "", "program that BenchmarkCPU measures; default: this version")

// bylineCommand returns a command of the program that is measured.
func bylineCommand(args ...string) *exec.Cmd {
	if *cpuProgram == "" {
		return servertest.Command(args...)
	}
	return exec.Command(*cpuProgram, args...)
}

// cpuConnections is the number of concurrent clients; latencies are measured with manyConnections, too.
const (
	cpuConnections  = 16
	manyConnections = 64
)

// warmUp is the number of requests to a server before the measurement of a pattern: until JIT compilers
// have compiled the code, and the heap has its final size, so that page faults are over.
const warmUp = 20_000

// alternateAfter is the number of consecutive requests to one server.
const alternateAfter = 2500

// settleTime is the time that the projections need after the last write.
const settleTime = 1500 * time.Millisecond

// minSamples is the number of requests below which a ratio is not compared with its target.
const minSamples = 5000

// The targets: the maximum CPU or latency of a request, relative to the ready-made server if it is hot, and to the
// best peer if it is cold.
const (
	maxHot       = 1.4
	maxColdRead  = 0.6
	maxColdWrite = 1.0
	maxTail      = 1.0 // of the best peer's p99
)

// BenchmarkCPU measures the CPU that servers' processes take for a request over HTTP, alternating between them,
// and their latencies under that load: Byline hot, from the response cache, beside a net/http server of the same
// responses ready-made; and Byline cold, without caches, beside the peers, if `.ci/peer` has started some.
// Byline's CPU includes the embedded engine's and the projections', a peer's the database's. Every server's
// responses are compared first. It ends with a table of the ratios, and fails if one misses its target.
//
//	go test ./internal/e2e -run '^$' -bench CPU -benchtime 10000x
func BenchmarkCPU(b *testing.B) {
	makeProfileDir(b)
	if testing.Short() {
		*cpuUsers = min(*cpuUsers, 10)
	}
	blog := newCPUBlog(*cpuUsers)
	data := b.TempDir()
	seedByline(b, data)
	peers := startedPeers(b, blog)
	var ratios cpuRatios
	b.Run("hot", func(b *testing.B) {
		byline := startByline(b, blog, data)
		for _, p := range cpuPatterns {
			if p.writes {
				continue
			}
			ready := startReadyMade(b, blog, p, byline)
			b.Run(p.name, func(b *testing.B) {
				took := measureCPU(b, p, blog, cpuConnections, byline, ready)
				ratios.add(b, "CPU ÷ ready-made", "times-ready-made", maxHot, took[0].perRequest()/took[1].perRequest())
			})
			ready.process.Kill()
		}
	})
	b.Run("cold", func(b *testing.B) {
		sides := append([]*cpuSide{startByline(b, blog, data, "--cache", "0")}, peers...)
		for _, p := range cpuPatterns {
			compareResponses(b, blog, p, sides)
			for _, connections := range []int{cpuConnections, manyConnections} {
				b.Run(fmt.Sprintf("%s/%d", p.name, connections), func(b *testing.B) {
					took := measureCPU(b, p, blog, connections, sides...)
					took[0].reportLatencies(b, "")
					if len(peers) == 0 {
						return
					}
					cpu, tail := math.Inf(1), math.Inf(1)
					for i, peer := range took[1:] {
						peer.reportLatencies(b, peers[i].name+"-")
						cpu, tail = min(cpu, peer.perRequest()), min(tail, peer.latency(99))
					}
					if connections == cpuConnections {
						limit := maxColdRead
						if p.writes {
							limit = maxColdWrite
						}
						ratios.add(b, "CPU ÷ best peer", "times-best-peer", limit, took[0].perRequest()/cpu)
					}
					ratios.add(b, "p99 ÷ best peer", "p99-times-best-peer", maxTail, took[0].latency(99)/tail)
				})
			}
		}
	})
	ratios.print(b)
}

// cpuSide is a server that is measured.
type cpuSide struct {
	name     string // "" is Byline
	root     string // its URL, without a path
	pid      int
	database int // process of its database, whose children are measured, too; 0 for none
	client   *http.Client
	process  *process // nil if .ci/peer has started it

	// user and post return the ids that the users and posts of the blog have there.
	user, post func(i int) string

	sent     map[string]*atomic.Int64 // requests, by pattern: the same write is sent to every server
	warmed   map[string]bool
	accept   string       // Accept-Encoding; "" for that of a browser
	received atomic.Int64 // bytes of bodies
}

func newCPUSide(name, root string, pid int, user, post func(int) string) *cpuSide {
	s := &cpuSide{name: name, root: root, pid: pid, user: user, post: post,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: manyConnections}},
		sent:   map[string]*atomic.Int64{}, warmed: map[string]bool{}}
	for _, p := range pathPatterns {
		s.sent[p.name] = new(atomic.Int64)
	}
	return s
}

// startByline starts Byline and waits until the projections have applied the load, and the engine is idle, so that
// the CPU of the load is not measured.
func startByline(b *testing.B, blog *cpuBlog, data string, args ...string) *cpuSide {
	return idleByline(b, blog,
		bylineCommand(append([]string{"--listen", "localhost:0", "--data", data, "--no-demo"}, args...)...))
}

// idleByline is startByline for a command of the program.
func idleByline(b *testing.B, blog *cpuBlog, cmd *exec.Cmd) *cpuSide {
	p := servertest.StartCommand(b, cmd)
	s := newCPUSide("", p.Root, p.Cmd.Process.Pid, blog.userID, blog.postID)
	s.process = p
	for began, idle := time.Now(), 0; idle < 3; idle++ {
		before := s.cpu(b)
		<-time.After(time.Second) // the period of the measurement
		took := s.cpu(b) - before
		all, err := scrape(p.Root)
		if err != nil {
			b.Fatal(err)
		}
		leases, _ := total(all, "byline_projection_leases", nil)
		lag, _ := total(all, "byline_projection_lag_transactions", nil)
		if leases < 3 || lag > 0 || took > time.Second/10 { // polls take a fifth of that
			idle = -1
		}
		if time.Since(began) > 15*time.Minute {
			b.Fatalf("15 minutes after the start: %v leases, a lag of %v, %v of CPU a second", leases, lag, took)
		}
	}
	return s
}

// cpu returns the CPU that the processes have used so far.
func (s *cpuSide) cpu(b *testing.B) time.Duration {
	took := cpuOf(b, s.pid)
	if s.database != 0 {
		took += cpuOfFamily(b, s.database)
	}
	return took
}

// cpuTook is the CPU and the latencies of a server in a measurement.
type cpuTook struct {
	cpu       time.Duration
	latencies []time.Duration // sorted
}

// perRequest returns microseconds.
func (t *cpuTook) perRequest() float64 {
	return float64(t.cpu.Nanoseconds()) / 1000 / float64(len(t.latencies))
}

// latency returns a percentile in milliseconds.
func (t *cpuTook) latency(p int) float64 {
	return float64(percentile(t.latencies, p).Microseconds()) / 1000
}

func (t *cpuTook) reportLatencies(b *testing.B, prefix string) {
	for _, p := range []int{50, 90, 99} {
		b.ReportMetric(t.latency(p), fmt.Sprintf("%sp%d-ms", prefix, p))
	}
}

// measureCPU sends b.N requests to each side, alternating between them.
func measureCPU(b *testing.B, p cpuPattern, blog *cpuBlog, connections int, sides ...*cpuSide) []*cpuTook {
	took := make([]*cpuTook, len(sides))
	for i, side := range sides {
		took[i] = &cpuTook{}
		if b.N >= minSamples && !side.warmed[p.name] {
			side.send(b, p, blog, connections, warmUp)
			side.warmed[p.name] = true
		}
	}
	settle := func() {
		if p.writes && b.N >= minSamples {
			<-time.After(settleTime)
		}
	}
	settle()
	stop := profileTo(sides[0].process, strings.ReplaceAll(strings.TrimPrefix(b.Name(), "BenchmarkCPU/"), "/", "-"))
	for left := b.N; left > 0; left -= alternateAfter {
		for i, side := range sides {
			before := side.cpu(b)
			took[i].latencies = append(took[i].latencies,
				side.send(b, p, blog, connections, min(alternateAfter, left))...)
			settle()
			took[i].cpu += side.cpu(b) - before
		}
	}
	stop()
	b.ReportMetric(0, "ns/op") // meaningless: the time of all sides together
	for i, side := range sides {
		slices.Sort(took[i].latencies)
		b.ReportMetric(took[i].perRequest(), strings.TrimPrefix(side.name+"-cpu-µs/op", "-"))
	}
	return took
}

// send sends count requests concurrently, and returns how long each took.
func (s *cpuSide) send(b *testing.B, p cpuPattern, blog *cpuBlog, connections, count int) []time.Duration {
	var left atomic.Int64
	left.Store(int64(count))
	took := make([][]time.Duration, connections)
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				user, body := blog.request(p, s, int(s.sent[p.name].Add(1)))
				began := time.Now()
				response := s.do(b, user, body)
				took[i] = append(took[i], time.Since(began))
				if response == nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return slices.Concat(took...)
}

// browser has the headers of a GraphQL client in a browser.
var browser = http.Header{
	"Accept":          {"application/graphql-response+json,application/json;q=0.9"},
	"Accept-Encoding": {"gzip, deflate, br, zstd"},
	"Accept-Language": {"en-US,en;q=0.9"},
	"Byline-Cost":     {"none"}, // as in production
	"Content-Type":    {"application/json"},
	"Origin":          {"http://localhost:3000"},
	"Referer":         {"http://localhost:3000/"},
	"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 " +
		"Safari/537.36"},
}

// do sends a request, and returns its response, or nil if the request failed.
func (s *cpuSide) do(t testing.TB, user string, body []byte) []byte {
	text, _ := s.exchange(t, user, body, nil)
	return text
}

// exchange sends a request with more headers, and returns the text of its response and the response on the wire; nil if
// the request failed.
func (s *cpuSide) exchange(t testing.TB, user string, body []byte, more map[string]string) ([]byte, *readyResponse) {
	r, err := http.NewRequest(http.MethodPost, s.root+"/graphql", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	r.Header = browser.Clone()
	if s.accept != "" {
		r.Header.Set("Accept-Encoding", s.accept)
	}
	if user != "" {
		r.Header.Set("Authorization", "Bearer demo:"+user)
	}
	for name, value := range more {
		r.Header.Set(name, value)
	}
	res, err := s.client.Do(r)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	defer res.Body.Close()
	wire, err := io.ReadAll(res.Body)
	text := wire
	if err == nil {
		text, err = decoded(wire, res.Header.Get("Content-Encoding"))
	}
	if err != nil || res.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"errors"`)) {
		t.Errorf("%s %v %v: %.500s", res.Status, err, res.Header, text)
		return nil, nil
	}
	s.received.Add(int64(len(wire)))
	return text, &readyResponse{Coding: res.Header.Get("Content-Encoding"), Body: wire}
}

// decoded returns a body without its coding.
func decoded(body []byte, coding string) ([]byte, error) {
	switch coding {
	case "":
		return body, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		return zstdDecoder().DecodeAll(body, nil)
	}
	return nil, fmt.Errorf("Content-Encoding %s", coding)
}

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil)
	if err != nil {
		panic(err) // without options
	}
	return d
})

// cpuOf returns the CPU that a process has used so far.
func cpuOf(b *testing.B, pid int) time.Duration {
	used, err := cpuClock(pid)
	if err != nil {
		b.Fatalf("CPU of process %d, which needs Linux: %v", pid, err)
	}
	return used
}

// cpuClock reads the CPU clock of a process, see clock_getcpuclockid(3).
func cpuClock(pid int) (time.Duration, error) {
	const ofProcess = 2
	var used unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|ofProcess), &used)
	return time.Duration(used.Nano()), err
}

// cpuRatios are the ratios that were measured, in order.
type cpuRatios []*cpuRatio

type cpuRatio struct {
	benchmark, what string
	limit           float64
	measured        []float64 // once for each -count
}

// add reports a ratio, and adds it to the table if there were enough requests.
func (r *cpuRatios) add(b *testing.B, what, metric string, limit, ratio float64) {
	b.ReportMetric(ratio, metric)
	if b.N < minSamples {
		return
	}
	name := strings.TrimPrefix(b.Name(), "BenchmarkCPU/")
	i := slices.IndexFunc(*r, func(have *cpuRatio) bool { return have.benchmark == name && have.what == what })
	if i < 0 {
		i = len(*r)
		*r = append(*r, &cpuRatio{benchmark: name, what: what, limit: limit})
	}
	(*r)[i].measured = append((*r)[i].measured, ratio)
}

// print prints the table of medians, and fails if one is over its target.
func (r cpuRatios) print(b *testing.B) {
	slices.SortStableFunc(r, func(x, y *cpuRatio) int { return cmp.Compare(x.what, y.what) })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	missed := 0
	for i, ratio := range r {
		if i == 0 {
			fmt.Fprintln(w, "\nrequest\tratio\tmedian\trange\ttarget")
		}
		slices.Sort(ratio.measured)
		n := len(ratio.measured)
		median, verdict := (ratio.measured[(n-1)/2]+ratio.measured[n/2])/2, ""
		if median > ratio.limit {
			missed++
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.2f to %.2f\t%.1f\t%s\n",
			ratio.benchmark, ratio.what, median, ratio.measured[0], ratio.measured[n-1], ratio.limit, verdict)
	}
	if err := w.Flush(); err != nil {
		b.Error(err)
	}
	if missed > 0 {
		b.Errorf("%d of %d ratios miss their targets", missed, len(r))
	}
}

// readyMade is the environment variable that makes the test binary a server of ready-made responses: it
// names a JSON file of requests and responses.
const readyMade = "BYLINE_TEST_READY_MADE"

// readyResponse is a response as it is sent.
type readyResponse struct {
	Coding string // "": it is not compressed
	Body   []byte
}

// startReadyMade starts a server of a side's responses to the reads of a pattern.
func startReadyMade(b *testing.B, blog *cpuBlog, p cpuPattern, of *cpuSide) *cpuSide {
	responses := map[string]*readyResponse{}
	for n := range blog.different(p) {
		user, body := blog.request(p, of, n)
		_, responses[string(body)] = of.exchange(b, user, body, nil)
	}
	return serveResponses(b, of, responses)
}

// serveResponses starts a server of responses, by the bodies or, without one, the paths of their requests.
func serveResponses(b *testing.B, of *cpuSide, responses map[string]*readyResponse) *cpuSide {
	file := filepath.Join(b.TempDir(), "responses")
	text, err := json.Marshal(responses)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	ready := &process{Instance: instance{T: b, Log: &output{}}, Cmd: exec.Command(os.Args[0])}
	ready.Cmd.Env = append(os.Environ(), readyMade+"="+file)
	ready.Cmd.Stderr = ready.Log
	if err := ready.Cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(ready.Kill)
	eventually(b, func() error {
		_, address, ok := strings.Cut(strings.TrimSuffix(ready.Log.String(), "\n"), "listening ")
		if !ok {
			return fmt.Errorf("not listening: %s", ready.Log)
		}
		ready.Root = "http://" + address
		return nil
	})
	s := newCPUSide("ready-made", ready.Root, ready.Cmd.Process.Pid, of.user, of.post)
	s.process = ready
	return s
}

// serveReadyMade is the main function of the process that startReadyMade starts.
func serveReadyMade() error {
	text, err := os.ReadFile(os.Getenv(readyMade))
	if err != nil {
		return err
	}
	var responses map[string]*readyResponse
	if err := json.Unmarshal(text, &responses); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		response, ok := responses[cmp.Or(string(body), r.URL.Path)]
		if err != nil || !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(response.Body)))
		if response.Coding != "" {
			w.Header().Set("Content-Encoding", response.Coding)
		}
		_, _ = w.Write(response.Body)
	}))
}
