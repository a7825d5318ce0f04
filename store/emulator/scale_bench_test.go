package emulator

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// scale makes the benchmarks of this file large. What an engine of a million
// items does, beside one of a thousand:
//
//	go test ./store/emulator -run '^$' -bench 'Scale|Bulk|Memory' -scale 1000000 -timeout 30m
var scale = flag.Int("scale", 10_000, "number of items of the larger data set of the benchmarks")

// BenchmarkScale runs each operation on a thousand items of one logical partition
// and on -scale of them, each time on other items, and reports the percentiles.
func BenchmarkScale(b *testing.B) {
	for _, n := range []int{1_000, *scale} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			e, err := Open(dir, scaleOptions())
			if err != nil {
				b.Fatal(err)
			}
			scaleContainer(b, e)
			if err := bulkLoad(e, 0, n); err != nil {
				b.Fatal(err)
			}
			settle(e)
			b.Run("start", func(b *testing.B) {
				b.StopTimer()
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				for b.Loop() {
					if e, err = Open(dir, Options{}); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if err := e.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				if e, err = Open(dir, Options{}); err != nil {
					b.Fatal(err)
				}
			})
			defer func() { e.Close() }()
			client := newClient(b, e)
			c, err := client.NewContainer("db", "c")
			if err != nil {
				b.Fatal(err)
			}
			benchScale(b, e, c, n)
		})
	}
}

// settle waits until the load's compactions are done: they are measured as part
// of BenchmarkBulkLoad, not as part of what comes later.
func settle(e *Engine) {
	for m := e.db.Metrics(); m.Compact.NumInProgress > 0 || m.Compact.EstimatedDebt > 64<<20; m = e.db.Metrics() {
		time.Sleep(10 * time.Millisecond)
	}
}

func benchScale(b *testing.B, e *Engine, c *azcosmos.ContainerClient, n int) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, uint64(n)))
	b.Run("point read", func(b *testing.B) {
		measure(b, func(int) (float64, error) {
			res, err := c.ReadItem(ctx, pk("p"), scaleID(random.IntN(n)), nil)
			return float64(res.RequestCharge), err
		})
	})
	b.Run("point read, engine alone", func(b *testing.B) {
		// The signature is of the path, so the requests are made beforehand.
		requests := make([]*http.Request, 1000)
		for i := range requests {
			requests[i] = signed(b, "GET", "/dbs/db/colls/c/docs/"+scaleID(random.IntN(n)), http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}, nil)
		}
		measure(b, func(i int) (float64, error) { return charged(e, requests[i%len(requests)], nil) })
	})
	b.Run("keyset page", func(b *testing.B) {
		measure(b, func(int) (float64, error) {
			o := &azcosmos.QueryOptions{PageSizeHint: 20, QueryParameters: params("@t", "comment", "@d", scaleDate(20+random.IntN(n-20)), "@id", "0")}
			page, err := c.NewQueryItemsPager(keyset, pk("p"), o).NextPage(ctx)
			if err == nil && len(page.Items) != 20 {
				err = fmt.Errorf("%d items", len(page.Items))
			}
			return float64(page.RequestCharge), err
		})
	})
	b.Run("change feed page", func(b *testing.B) {
		last := e.catalog.Load().databases["db"].containers["c"].ranges[0].synced.Load()
		measure(b, func(int) (float64, error) {
			h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}, "X-Ms-Max-Item-Count": {"100"},
				"If-None-Match": {fmt.Sprintf(`"%d"`, random.Uint64N(last))}}
			return charged(e, signed(b, "GET", "/dbs/db/colls/c/docs", h, nil), nil)
		})
	})
	b.Run("batch", func(b *testing.B) {
		run := time.Now().UnixNano()
		measure(b, func(i int) (float64, error) {
			batch := c.NewTransactionalBatch(pk("p"))
			batch.CreateItem(fmt.Appendf(nil, `{"id":"%d-%d","pk":"p","type":"like","creationDate":%q,"userId":"u"}`, run, i, scaleDate(random.IntN(n))), nil)
			batch.PatchItem(scaleID(random.IntN(n)), patchOf("/likes", 1), nil)
			out, err := c.ExecuteTransactionalBatch(ctx, batch, nil)
			if err == nil && !out.Success {
				err = fmt.Errorf("%v", statuses(out))
			}
			return float64(out.RequestCharge), err
		})
	})
}

// measure runs op b.N times and reports percentiles and the mean charge.
func measure(b *testing.B, op func(i int) (ru float64, err error)) {
	b.Helper()
	b.ReportAllocs()
	took := make([]time.Duration, 0, 1<<12)
	charge, i := 0.0, 0
	for b.Loop() {
		began := time.Now()
		ru, err := op(i)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		charge += ru
		i++
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
	b.ReportMetric(charge/float64(i), "RU/op")
}

// charged sends a request to the engine and reads its charge.
func charged(e *Engine, req *http.Request, body []byte) (float64, error) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	res, err := e.Do(req)
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0, err
	}
	if res.StatusCode >= 300 {
		return 0, fmt.Errorf("%s %s: %s", req.Method, req.URL.Path, res.Status)
	}
	var ru float64
	_, err = fmt.Sscan(res.Header.Get("X-Ms-Request-Charge"), &ru)
	return ru, err
}

// scaleOptions open an engine for a bulk load.
func scaleOptions() Options { return Options{NoSync: true} }

func scaleContainer(t testing.TB, e *Engine) {
	t.Helper()
	newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
}

// scaleID scatters the ids, as ids in real life are.
func scaleID(i int) string { return fmt.Sprintf("%08x", uint32(i)*2654435761) }

func scaleDate(i int) string {
	return time.Unix(1_700_000_000+int64(i), 0).UTC().Format("2006-01-02T15:04:05.000Z")
}

const (
	bulkBatch   = 100
	bulkClients = 8
)

// bulkLoad creates the items from and up to but without to, of about 350 bytes,
// in batches of some clients.
func bulkLoad(e *Engine, from, to int) error {
	content := strings.Repeat("x", 200)
	var next atomic.Int64
	next.Store(int64(from))
	errs := make([]error, bulkClients)
	var wg sync.WaitGroup
	for client := range bulkClients {
		wg.Go(func() {
			h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Cosmos-Is-Batch-Request": {"true"}, "Prefer": {"return=minimal"}}
			req := signed(noTB{}, "POST", "/dbs/db/colls/c/docs", h, nil)
			for {
				at := int(next.Add(bulkBatch)) - bulkBatch
				if at >= to {
					return
				}
				body := []byte{'['}
				for i := at; i < min(at+bulkBatch, to); i++ {
					if i > at {
						body = append(body, ',')
					}
					body = fmt.Appendf(body, `{"operationType":"Create","resourceBody":{"id":%q,"pk":"p","type":"comment","creationDate":%q,"userId":"u%d","likes":0,"content":%q}}`,
						scaleID(i), scaleDate(i), i%100, content)
				}
				if _, err := charged(e, req, append(body, ']')); err != nil {
					errs[client] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// noTB is for helpers that are called outside of a test, and cannot fail there.
type noTB struct{ testing.TB }

func (noTB) Helper() {}

func (noTB) Cleanup(func()) {}

func (noTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// BenchmarkBulkLoad reports how many items a second a bulk load writes.
func BenchmarkBulkLoad(b *testing.B) {
	n := *scale
	for b.Loop() {
		b.StopTimer()
		e, err := Open(b.TempDir(), scaleOptions())
		if err != nil {
			b.Fatal(err)
		}
		scaleContainer(b, e)
		b.StartTimer()
		if err := bulkLoad(e, 0, n); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

// scaleDir, in the environment, makes this test binary the process whose memory
// BenchmarkMemory measures.
const scaleDir = "EMULATOR_SCALE_DIR"

func runScaleChild() bool {
	dir := os.Getenv(scaleDir)
	if dir == "" {
		return false
	}
	if err := scaleChild(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// scaleChild loads items and reads the change feed, starts again and reads it
// again, and prints what that took.
func scaleChild(dir string) error {
	n, err := strconv.Atoi(os.Getenv("EMULATOR_SCALE"))
	if err != nil {
		return err
	}
	e, err := Open(dir, scaleOptions())
	if err != nil {
		return err
	}
	scaleContainer(noTB{}, e)
	began := time.Now()
	if err := bulkLoad(e, 0, n); err != nil {
		return err
	}
	fmt.Println("items/s", float64(n)/time.Since(began).Seconds())
	fmt.Println("loaded-MB", resident("VmRSS"))
	if err := e.Close(); err != nil {
		return err
	}
	began = time.Now()
	if e, err = Open(dir, Options{}); err != nil {
		return err
	}
	read := signed(noTB{}, "GET", "/dbs/db/colls/c/docs/"+scaleID(n/2), http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}, nil)
	if _, err := charged(e, read, nil); err != nil {
		return err
	}
	fmt.Println("start-ms", float64(time.Since(began).Microseconds())/1000)
	total := 0
	for after := "0"; ; {
		h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}, "X-Ms-Max-Item-Count": {"1000"}, "If-None-Match": {after}}
		res, err := e.Do(signed(noTB{}, "GET", "/dbs/db/colls/c/docs", h, nil))
		if err != nil {
			return err
		}
		if res.StatusCode == http.StatusNotModified {
			break
		}
		count, err := strconv.Atoi(res.Header.Get("X-Ms-Item-Count"))
		if err != nil {
			return fmt.Errorf("%s: %w", res.Status, err)
		}
		total, after = total+count, res.Header.Get("Etag")
	}
	if total != n {
		return fmt.Errorf("the change feed has %d items of %d", total, n)
	}
	fmt.Println("read-MB", resident("VmRSS"))
	fmt.Println("peak-MB", resident("VmHWM"))
	return e.Close()
}

// resident reads this process's memory, in MB, where the system tells it.
func resident(what string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), what+":")
	var kb float64
	fmt.Sscan(rest, &kb)
	return kb / 1024
}

// BenchmarkMemory reports, of a process of its own: how fast it loads -scale
// items, how much memory is resident then, how long the next start takes to its
// first answer, and the memory after the whole change feed was read.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), scaleDir+"="+b.TempDir(), fmt.Sprintf("EMULATOR_SCALE=%d", *scale))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			var unit string
			var value float64
			if n, _ := fmt.Sscan(line, &unit, &value); n == 2 {
				b.ReportMetric(value, unit)
			}
		}
	}
}
