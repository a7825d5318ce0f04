package emulator

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// scale makes the benchmarks of this file large. To compare an engine of a million items with one of a thousand:
//
//	go test ./store/emulator -run '^$' -bench 'Scale|Bulk|Memory' -scale 1000000 -timeout 30m
var scale = flag.Int("scale", 10_000, "number of items of the larger data set of the benchmarks")

const smallScale = 1_000

// Limits of an engine of up to a million items.
const (
	maxResidentMB = 256
	maxStart      = time.Second // until the first response
)

// scaled is an engine with n items in logical partitions of bulkBatch items, like the comments and likes of a post.
type scaled struct {
	n      int
	dir    string
	engine *Engine
	client *azcosmos.ContainerClient // in process, or over HTTP
	random *rand.Rand
	runs   int    // of batch
	feed   string // a continuation of the change feed
}

func newScaled(b *testing.B, n int) *scaled {
	b.Helper()
	s := &scaled{n: n, dir: b.TempDir(), random: rand.New(rand.NewPCG(1, uint64(n)))}
	e, err := Open(s.dir, scaleOptions())
	if err != nil {
		b.Fatal(err)
	}
	scaleContainer(b, e)
	if err := bulkLoad(e, 0, n); err != nil {
		b.Fatal(err)
	}
	if err := e.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	s.open(b)
	b.Cleanup(func() { s.engine.Close() })
	return s
}

func (s *scaled) open(b *testing.B) {
	b.Helper()
	var err error
	if s.engine, err = Open(s.dir, Options{}); err != nil {
		b.Fatal(err)
	}
	s.connect(b, newClient(b, s.engine))
}

func (s *scaled) connect(b *testing.B, client *azcosmos.Client) {
	b.Helper()
	var err error
	if s.client, err = client.NewContainer("db", "c"); err != nil {
		b.Fatal(err)
	}
	s.feed = "" // a continuation contains the account
}

// serve connects over HTTP, like another process.
func (s *scaled) serve(b *testing.B) {
	b.Helper()
	server := httptest.NewServer(s.engine)
	b.Cleanup(server.Close)
	cred, err := azcosmos.NewKeyCredential(WellKnownKey)
	if err != nil {
		b.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(server.URL, cred, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	s.connect(b, client)
}

// item chooses an item: its partition key, its id and its number.
func (s *scaled) item() (key, id string, i int) {
	i = s.random.IntN(s.n)
	return scaleKey(i), scaleID(i), i
}

var feedPositions = regexp.MustCompile(`\\"\d+\\"`)

// The operations that BenchmarkScale compares.

func (s *scaled) pointRead() error {
	key, id, _ := s.item()
	_, err := s.client.ReadItem(context.Background(), pk(key), id, nil)
	return err
}

func (s *scaled) keysetPage() error {
	key, _, i := s.item()
	i += 20 - i%bulkBatch + s.random.IntN(bulkBatch-20) // there are 20 before it in its partition
	o := &azcosmos.QueryOptions{PageSizeHint: 20,
		QueryParameters: params("@t", "comment", "@d", scaleDate(i), "@id", "0")}
	page, err := s.client.NewQueryItemsPager(keyset, pk(key), o).NextPage(context.Background())
	if err == nil && len(page.Items) != 20 {
		err = fmt.Errorf("%d items", len(page.Items))
	}
	return err
}

func (s *scaled) feedPage() error {
	last := s.engine.catalog.Load().databases["db"].containers["c"].ranges[0].synced.Load()
	o := &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"},
		MaxItemCount: 100}
	if s.feed != "" { // the client's token with another position
		at := feedPositions.ReplaceAllString(s.feed, fmt.Sprintf(`\"%d\"`, s.random.Uint64N(last)))
		o.Continuation = &at
	}
	page, err := s.client.ReadChangeFeed(context.Background(), o)
	if err == nil && page.Count < 1 {
		err = errors.New("an empty page")
	}
	s.feed = page.ContinuationToken
	return err
}

func (s *scaled) batch() error {
	key, id, i := s.item()
	s.runs++
	batch := s.client.NewTransactionalBatch(pk(key))
	batch.CreateItem(fmt.Appendf(nil, `{"id":"new-%d","pk":%q,"type":"like","creationDate":%q,"userId":"u"}`, s.runs,
		key, scaleDate(i)), nil)
	batch.PatchItem(id, patchOf("/likes", 1), nil)
	out, err := s.client.ExecuteTransactionalBatch(context.Background(), batch, nil)
	if err == nil && !out.Success {
		err = fmt.Errorf("%v", statuses(out))
	}
	return err
}

// BenchmarkScale alternates each operation between a thousand items and -scale of them, each time
// on other items. It reports the percentiles on the larger set and their ratio to those on the
// smaller: in process and over HTTP. It fails if opening takes longer than maxStart.
func BenchmarkScale(b *testing.B) {
	small, large := newScaled(b, smallScale), newScaled(b, *scale)
	b.Run("in process", func(b *testing.B) { benchmarkGrowth(b, small, large) })
	small.serve(b)
	large.serve(b)
	b.Run("HTTP", func(b *testing.B) { benchmarkGrowth(b, small, large) })
	for _, s := range []*scaled{small, large} {
		b.Run(fmt.Sprintf("start/n=%d", s.n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if err := s.engine.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				began := time.Now()
				s.open(b)
				if took := time.Since(began); took > maxStart {
					b.Errorf("opening took %v, more than %v", took, maxStart)
				}
			}
		})
	}
}

func benchmarkGrowth(b *testing.B, small, large *scaled) {
	for _, op := range []struct {
		name string
		run  func(*scaled) error
	}{
		{"point read", (*scaled).pointRead},
		{"keyset page", (*scaled).keysetPage},
		{"change feed page", (*scaled).feedPage},
		{"batch", (*scaled).batch},
	} {
		b.Run(op.name, func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, s := range []*scaled{small, large} {
					began := time.Now()
					if err := op.run(s); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for _, p := range []int{50, 99} {
				var at [2]float64
				for i := range took {
					slices.Sort(took[i])
					at[i] = float64(took[i][len(took[i])*p/100])
				}
				b.ReportMetric(at[1], fmt.Sprintf("p%d-ns", p))
				b.ReportMetric(at[1]/at[0], fmt.Sprintf("p%d-growth", p))
			}
		})
	}
}

// roundTrip sends a request to the engine and reads the response.
func roundTrip(e *Engine, req *http.Request, body []byte) error {
	req.Body = io.NopCloser(bytes.NewReader(body))
	res, err := e.Do(req)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s", req.Method, req.URL.Path, res.Status)
	}
	return nil
}

// scaleOptions open an engine for a bulk load.
func scaleOptions() Options { return Options{NoSync: true} }

func scaleContainer(t testing.TB, e *Engine) {
	t.Helper()
	newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
}

// scaleID scatters the ids like random ones.
func scaleID(i int) string { return fmt.Sprintf("%08x", uint32(i)*2654435761) }

// scaleKey is the partition key of an item.
func scaleKey(i int) string { return fmt.Sprintf("p%d", i/bulkBatch) }

func scaleDate(i int) string {
	return time.Unix(1_700_000_000+int64(i), 0).UTC().Format("2006-01-02T15:04:05.000Z")
}

const (
	bulkBatch   = 100
	bulkClients = 8
)

// bulkLoad creates the items [from, to), of about 350 bytes each, in batches of concurrent clients.
func bulkLoad(e *Engine, from, to int) error {
	content := strings.Repeat("x", 200)
	var next atomic.Int64
	next.Store(int64(from))
	errs := make([]error, bulkClients)
	var wg sync.WaitGroup
	for client := range bulkClients {
		wg.Go(func() {
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
					body = fmt.Appendf(body,
						`{"operationType":"Create","resourceBody":{"id":%q,"pk":%q,"type":"comment","creationDate":%q,"userId":"u%d","likes":0,"content":%q}}`,
						scaleID(i), scaleKey(i), scaleDate(i), i%100, content)
				}
				h := http.Header{"X-Ms-Documentdb-Partitionkey": {fmt.Sprintf("[%q]", scaleKey(at))},
					"X-Ms-Cosmos-Is-Batch-Request": {"true"}, "Prefer": {"return=minimal"}}
				if err := roundTrip(e, signed(noTB{}, "POST", "/dbs/db/colls/c/docs", h, nil),
					append(body, ']')); err != nil {
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

// noTB lets helpers be called outside of a test. A failure panics.
type noTB struct{ testing.TB }

func (noTB) Helper() {}

func (noTB) Cleanup(func()) {}

func (noTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// BenchmarkBulkLoad reports the items per second of a bulk load.
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

// scaleDir is the environment variable that makes this test binary the process whose memory BenchmarkMemory measures.
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

// scaleChild loads items, opens the engine again, reads the change feed, and prints the time and memory.
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
	read := signed(noTB{}, "GET", "/dbs/db/colls/c/docs/"+scaleID(n/2),
		http.Header{"X-Ms-Documentdb-Partitionkey": {fmt.Sprintf("[%q]", scaleKey(n/2))}}, nil)
	if err := roundTrip(e, read, nil); err != nil {
		return err
	}
	fmt.Println("start-ms", float64(time.Since(began).Microseconds())/1000)
	total := 0
	for after := "0"; ; {
		h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"},
			"X-Ms-Max-Item-Count": {"1000"}, "If-None-Match": {after}}
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

// resident returns a memory figure of this process in MB, or 0 without /proc.
func resident(field string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), field+":")
	var kb float64
	fmt.Sscan(rest, &kb)
	return kb / 1024
}

// BenchmarkMemory reports, for a process of its own: the speed of loading -scale items, the
// resident memory, the time of the next start to its first response, and the memory after reading
// the whole change feed.
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
				if strings.HasSuffix(unit, "-MB") && value > maxResidentMB {
					b.Errorf("%s: %.0f, more than %d", unit, value, maxResidentMB)
				}
				if took := time.Duration(value * float64(time.Millisecond)); unit == "start-ms" && took > maxStart {
					b.Errorf("the start took %v, more than %v", took, maxStart)
				}
			}
		}
	}
}
