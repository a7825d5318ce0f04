package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The peer of BenchmarkPeer: its address, and the processes of the peer and its database, which are
// measured with their children. `.ci/peer` starts bench/peer.
const (
	peerURL  = "BYLINE_PEER"
	peerPIDs = "BYLINE_PEER_PIDS"
)

// peerJudged is the number of requests from which on BenchmarkPeer may fail: the background work of
// writes comes in intervals longer than 500 requests.
const peerJudged = 10_000

// BenchmarkPeer measures the CPU that Byline, without caches, and a peer take for the same requests, in
// turn: all processes of each, the database included. Both are filled by the same mutations and must
// return responses of the same shape. It fails if Byline takes more.
func BenchmarkPeer(b *testing.B) {
	if os.Getenv(peerURL) == "" {
		b.Skip("no peer: see .ci/peer")
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cpuConnections}}
	byline := startProcess(b, "--data", b.TempDir(), "--no-demo", "--cache", "0")
	peer := &process{Instance: instance{T: b, Root: os.Getenv(peerURL), Log: &output{}}}
	sides := []*peerSide{
		{root: byline.Root, pids: []int{byline.Cmd.Process.Pid}, requests: cpuRequests(byline)},
		{root: peer.Root, requests: cpuRequests(peer)},
	}
	for _, text := range strings.Fields(os.Getenv(peerPIDs)) {
		var pid int
		if _, err := fmt.Sscan(text, &pid); err != nil {
			b.Fatalf("%s: %q", peerPIDs, text)
		}
		sides[1].pids = append(sides[1].pids, pid)
	}
	if res, err := client.Post(peer.Root+"/filled", "application/json", strings.NewReader("{}")); err != nil || res.StatusCode != http.StatusOK {
		b.Fatal(res, err)
	}
	waitIdle(b, byline)
	for i, r := range sides[0].requests {
		for _, side := range sides {
			side.asked.Store(0)
		}
		b.Run(r.name, func(b *testing.B) { measurePeer(b, client, i, sides) })
	}
}

// peerSide is one side of the comparison.
type peerSide struct {
	root     string
	pids     []int
	requests []cpuRequest
	asked    atomic.Int64 // requests sent; makes every write different
}

func measurePeer(b *testing.B, client *http.Client, request int, sides []*peerSide) {
	measure := func(side *peerSide, count int) time.Duration {
		before := cpuOfAll(b, side.pids)
		sendAll(b, client, side.root, count, func() (user, query string) {
			return side.requests[request].make(int(side.asked.Add(1)))
		})
		side.requests[request].settle()
		return cpuOfAll(b, side.pids) - before
	}
	var shapes, sizes [2]string
	for i, side := range sides {
		if side.asked.Load() == 0 {
			measure(side, warmUp)
		}
		user, query := side.requests[request].make(int(side.asked.Add(1)))
		answer := ask(b, client, side.root, user, query)
		var value any
		if err := json.Unmarshal(answer, &value); err != nil {
			b.Fatalf("%s: %v", answer, err)
		}
		shapes[i], sizes[i] = shape(value), fmt.Sprint(len(answer))
	}
	if shapes[0] != shapes[1] {
		b.Fatalf("Byline answers\n%s\nand the peer\n%s", shapes[0], shapes[1])
	}
	var took [2]time.Duration
	b.ResetTimer()
	const turn = 500
	for left := b.N; left > 0; left -= turn {
		for i, side := range sides {
			took[i] += measure(side, min(turn, left))
		}
	}
	b.StopTimer()
	b.Logf("answers of %s bytes", strings.Join(sizes[:], " and "))
	b.ReportMetric(float64(took[0].Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "peer-cpu-µs/op")
	times := float64(took[0]) / float64(max(took[1], 1))
	b.ReportMetric(times, "times-peer")
	if times > 1 && b.N >= peerJudged {
		b.Errorf("%.2f times what the peer takes", times)
	}
}

// shape returns the names, the kinds of values and their number in JSON. The values differ: ids, cursors,
// times and the order of posts.
func shape(v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+shape(v[name]))
		}
	case []any:
		for _, element := range v {
			parts = append(parts, shape(element))
		}
	default:
		return fmt.Sprintf("%T", v)
	}
	return fmt.Sprintf("%T(%s)", v, strings.Join(parts, ", "))
}

// cpuOfAll returns the CPU that processes and their children have used so far, ended ones included.
func cpuOfAll(b *testing.B, pids []int) (took time.Duration) {
	for _, pid := range pids {
		took += cpuOf(b, pid) + cpuOfEnded(b, pid)
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		if err != nil || len(threads) == 0 {
			b.Fatalf("process %d has ended, or the kernel names no children", pid)
		}
		for _, name := range threads {
			children, err := os.ReadFile(name)
			if err != nil {
				continue // the thread has ended
			}
			for _, text := range strings.Fields(string(children)) {
				var child int
				if _, err := fmt.Sscan(text, &child); err != nil {
					b.Fatalf("%s: %q", name, children)
				}
				took += cpuOf(b, child)
			}
		}
	}
	return took
}

// cpuOfEnded returns the CPU of the ended children of a process, in steps of 10 ms.
func cpuOfEnded(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the third on
	var user, system int64
	if _, err := fmt.Sscan(fields[16-3]+" "+fields[17-3], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
