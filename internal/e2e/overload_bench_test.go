package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkOverload sends the article's reads, and one comment in ten requests, to a server in its own
// process, with the demo blog and without caches. A closed load finds the capacity; open loads follow
// with a tenth of it, four times as much, and a tenth again; then 500 clients repeat refused requests at
// once. It reports the latency of requests that were not refused, from when they were sent (also
// without the first half second, in which hundreds of connections are opened) and from when they were
// due; the peak memory of the server; and the CPU use of the sender at four times the capacity: near
// 100%, the sender limits the latency.
//
// The load comes from the same machine. With taskset, server and load each have their own processor, so
// that the benchmark measures load shedding and not scheduling; without, it logs a message.
//
//	go test ./internal/e2e -run '^$' -bench Overload -benchtime 1x
func BenchmarkOverload(b *testing.B) {
	short, long := 2*time.Second, 12*time.Second
	if testing.Short() { // checks that it works, not how fast
		short, long = time.Second, 2*time.Second
	}
	b.Setenv("GOMAXPROCS", "1") // of the server
	makeProfileDir(b)
	for b.Loop() {
		s := startProcess(b, "--data", b.TempDir(), "--cache", "0")
		unpin := pin(b, s.Cmd.Process.Pid)
		s.WaitReady()
		l := newSenders(b, &s.Instance)
		l.closed(4, time.Second) // warm-up
		capacity := float64(len(l.closed(4, short).accepted)) / short.Seconds()
		idle := memory(b, s)

		before := l.open(capacity/10, short)
		var peak float64
		done, watched := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(watched)
			for tick := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-done:
					tick.Stop()
					return
				case <-tick.C:
					peak = max(peak, memory(b, s))
				}
			}
		}()
		profiled := profileTo(s, "overload")
		sentFrom := cpuOf(b, os.Getpid())
		over := l.open(4*capacity, long)
		sending := cpuOf(b, os.Getpid()) - sentFrom
		profiled()
		close(done)
		<-watched
		<-time.After(200 * time.Millisecond) // it is no longer overloaded then: docs/limits.md
		after := l.open(capacity/10, short)
		repeated := l.closed(500, long)

		ms := func(d []time.Duration) float64 { return float64(percentile(d, 99).Microseconds()) / 1000 }
		b.ReportMetric(capacity, "capacity/s")
		b.ReportMetric(float64(len(over.accepted))/long.Seconds(), "answered/s")
		b.ReportMetric(float64(over.refused)/long.Seconds(), "refused/s")
		b.ReportMetric(float64(over.unsent)/long.Seconds(), "unsent/s")
		b.ReportMetric(100*sending.Seconds()/long.Seconds(), "%-busy-sending")
		b.ReportMetric(ms(before.accepted), "p99-ms-before")
		b.ReportMetric(ms(over.accepted), "p99-ms-overloaded")
		b.ReportMetric(ms(over.later), "p99-ms-later")
		b.ReportMetric(ms(over.accepted)/ms(before.accepted), "times-before")
		b.ReportMetric(ms(over.later)/ms(before.later), "times-before-later")
		b.ReportMetric(ms(after.accepted), "p99-ms-after")
		b.ReportMetric(ms(over.fromDue)/ms(before.fromDue), "times-before-from-due")
		b.ReportMetric(float64(len(repeated.accepted))/long.Seconds(), "answered/s-of-500-clients")
		b.ReportMetric(idle, "MB-idle")
		b.ReportMetric(peak, "MB-peak")
		if before.refused+after.refused > 0 {
			b.Errorf("%d requests are refused before the load, %d after it", before.refused, after.refused)
		}
		if len(over.accepted) == 0 || len(repeated.accepted) == 0 {
			b.Error("the overloaded server accepts no requests")
		}
		s.Kill()
		unpin()
	}
}

// pin pins a process to the first processor and this one to the second, until the returned function is
// called.
func pin(b *testing.B, pid int) (unpin func()) {
	taskset := func(cpus string, pid int) error {
		out, err := exec.Command("taskset", "-acp", cpus, strconv.Itoa(pid)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	}
	if err := errors.Join(taskset("0", pid), taskset("1", os.Getpid())); err != nil {
		b.Log("server and load share processors:", err)
		return func() {}
	}
	procs := runtime.GOMAXPROCS(1)
	return func() {
		runtime.GOMAXPROCS(procs)
		if err := taskset(fmt.Sprintf("0-%d", runtime.NumCPU()-1), os.Getpid()); err != nil {
			b.Error(err)
		}
	}
}

// memory returns the memory of the process in MB; 0 without /proc.
func memory(b *testing.B, p *process) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	m := regexp.MustCompile(`VmRSS:\s*(\d+) kB`).FindSubmatch(status)
	if err != nil || m == nil {
		b.Errorf("%v %s", err, status)
		return 0
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024
}

// senders has the requests to a server and the idle connections.
type senders struct {
	b        *testing.B
	address  string
	requests [][]byte

	mu   sync.Mutex
	idle []*loadConn // guarded by mu
}

type loadResult struct {
	accepted []time.Duration // latencies from when requests were sent; sorted
	fromDue  []time.Duration // latencies from when requests were due; sorted, of open loads
	settled  time.Time       // half a second after the first request
	later    []time.Duration // as accepted, of requests due after settled
	refused  int
	unsent   int // because maxInFlight requests were in flight
}

// maxInFlight bounds the concurrent requests: each takes a file descriptor, which are limited.
const maxInFlight = 4000

// percentile returns 0 if there are no durations.
func percentile(sorted []time.Duration, n int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)*n/100]
}

// newSenders prepares a cycle of a hundred different requests.
func newSenders(b *testing.B, s *instance) *senders {
	l := &senders{b: b, address: strings.TrimPrefix(s.Root, "http://")}
	feed := at(b, s.Do("", `{ feed(first: 100) { edges { node { id author { id } } } } }`, nil), "feed.edges").([]any)
	for n := range 100 {
		node := find(feed[n%len(feed)], "node")
		post, user := map[string]any{"id": find(node, "id")}, map[string]any{"id": find(node, "author.id")}
		query, variables := q6, map[string]any(nil)
		switch n % 10 {
		case 0:
			query, variables = createComment, map[string]any{"post": post["id"], "content": "Well put."}
		case 1, 2:
			query, variables = q1, user
		case 3, 4, 5:
			query, variables = q2, post
		case 6:
			query, variables = q3, user
		case 7:
			query, variables = q4, post
		case 8:
			query, variables = q5, post
		}
		body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
		if err != nil {
			b.Fatal(err)
		}
		l.requests = append(l.requests,
			fmt.Appendf(nil,
				"POST /graphql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer demo:ada\r\nContent-Type: "+
					"application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
	b.Cleanup(func() {
		for _, c := range l.idle {
			c.Close()
		}
	})
	return l
}

// closed is a closed load: each client waits for the response before it sends the next request.
func (l *senders) closed(clients int, d time.Duration) loadResult {
	results := make([]loadResult, clients)
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for i := range clients {
		all.Go(func() {
			for n := i; time.Now().Before(end); n++ {
				l.send(n, time.Time{}, &results[i], nil)
			}
		})
	}
	all.Wait()
	var sum loadResult
	for _, r := range results {
		sum.accepted, sum.refused = append(sum.accepted, r.accepted...), sum.refused+r.refused
	}
	return sum
}

// open is an open load: it sends perSecond requests a second, whether or not responses arrive.
func (l *senders) open(perSecond float64, d time.Duration) loadResult {
	var result loadResult
	var mu sync.Mutex
	var all sync.WaitGroup
	var inFlight atomic.Int64
	began := time.Now()
	result.settled = began.Add(time.Second / 2)
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / perSecond * float64(time.Second))
		if due > d {
			break
		}
		if wait := due - time.Since(began); wait > 0 {
			<-time.After(wait)
		}
		if inFlight.Load() >= maxInFlight {
			result.unsent++
			continue
		}
		inFlight.Add(1)
		all.Go(func() {
			defer inFlight.Add(-1)
			l.send(n, began.Add(due), &result, &mu)
		})
	}
	all.Wait()
	slices.Sort(result.accepted)
	slices.Sort(result.fromDue)
	slices.Sort(result.later)
	return result
}

// send sends a request and records the result.
func (l *senders) send(n int, due time.Time, result *loadResult, mu *sync.Mutex) {
	c, err := l.connection()
	if err != nil {
		l.b.Error(err)
		return
	}
	began := time.Now()
	status, err := c.do(l.requests[n%len(l.requests)])
	took, fromDue := time.Since(began), time.Since(due)
	if err != nil {
		l.b.Error(err)
		c.Close()
		return
	}
	l.mu.Lock()
	l.idle = append(l.idle, c)
	l.mu.Unlock()
	if mu != nil {
		mu.Lock()
		defer mu.Unlock()
	}
	switch status {
	case http.StatusOK:
		result.accepted = append(result.accepted, took)
		result.fromDue = append(result.fromDue, fromDue)
		if due.After(result.settled) {
			result.later = append(result.later, took)
		}
	case http.StatusServiceUnavailable:
		result.refused++
	default:
		l.b.Errorf("status %d", status)
	}
}

// connection returns an idle connection or opens one.
func (l *senders) connection() (*loadConn, error) {
	l.mu.Lock()
	if last := len(l.idle) - 1; last >= 0 {
		defer l.mu.Unlock()
		c := l.idle[last]
		l.idle = l.idle[:last]
		return c, nil
	}
	l.mu.Unlock()
	c, err := net.Dial("tcp", l.address)
	if err != nil {
		return nil, err
	}
	return &loadConn{c, bufio.NewReader(c)}, nil
}

// loadConn is an HTTP/1.1 client with little overhead.
type loadConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *loadConn) do(request []byte) (status int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		switch text := bytes.TrimSpace(line); {
		case first:
			if len(text) < 12 {
				return 0, fmt.Errorf("status line %q", text)
			}
			status, err = strconv.Atoi(string(text[9:12]))
		case len(text) == 0:
			_, err = c.r.Discard(length)
			return status, err
		case bytes.HasPrefix(text, []byte("Content-Length: ")):
			length, err = strconv.Atoi(string(text[len("Content-Length: "):]))
		}
		if err != nil {
			return 0, err
		}
	}
}
