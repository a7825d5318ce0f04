package changefeed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a source container and a leases container of one test.
type world struct {
	t       testing.TB
	account *cosmostest.Account
	*client      // not tied to a process
	next    int  // the id of the next range, if it is split
	same    bool // write writes to one logical partition, whose changes have an order

	mu   sync.Mutex
	seen []string // guarded by mu; items passed to handlers
}

// client is the connection of one process to the account.
type client struct {
	source, leases *azcosmos.ContainerClient

	account *cosmostest.Account
	mu      sync.Mutex
	wire    func(*http.Request) *http.Response // guarded by mu; its response, unless nil, replaces that of the account
}

func (c *client) Do(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	wire := c.wire
	c.mu.Unlock()
	if wire != nil {
		if resp := wire(r); resp != nil {
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			resp.Request = r
			return resp, nil
		}
	}
	return c.account.Transport.Do(r)
}

func (c *client) intercept(f func(*http.Request) *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wire = f
}

// run runs a subtest as cosmostest.Run does.
func run(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { cosmostest.Run(t, test) })
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, emulator.Options{})
}

func newWorldWith(t testing.TB, o emulator.Options) *world {
	t.Helper()
	return newWorldOn(t, cosmostest.Open(t, o))
}

func newWorldOn(t testing.TB, account *cosmostest.Account) *world {
	t.Helper()
	w := &world{t: t, account: account}
	if _, err := w.connect(w.account.Transport).CreateDatabase(t.Context(),
		azcosmos.DatabaseProperties{ID: w.account.Database}, nil); err != nil {
		t.Fatal(err)
	}
	w.makeContainers("source", "leases")
	w.client = w.process()
	return w
}

func (w *world) makeContainers(ids ...string) {
	w.t.Helper()
	db, err := w.connect(w.account.Transport).NewDatabase(w.account.Database)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		path := "/id"
		if id == "source" {
			path = "/pk"
		}
		if _, err := db.CreateContainer(w.t.Context(), azcosmos.ContainerProperties{ID: id,
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{path}, Version: 2}},
			nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// process connects another process.
func (w *world) process() *client {
	w.t.Helper()
	c := &client{account: w.account}
	azure := w.connect(c)
	var err error
	if c.source, err = azure.NewContainer(w.account.Database, "source"); err != nil {
		w.t.Fatal(err)
	}
	if c.leases, err = azure.NewContainer(w.account.Database, "leases"); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// connect returns a client like that of the store's processors.
func (w *world) connect(transport policy.Transporter) *azcosmos.Client {
	w.t.Helper()
	account, err := cosmos.Open(cosmos.Options{Endpoint: w.account.Endpoint, Key: w.account.Key,
		Credential: w.account.Credential, Transport: transport})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(account.Close)
	return account.Background().Client()
}

func (w *world) write(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		pk := id
		if w.same {
			pk = "same"
		}
		if _, err := w.source.UpsertItem(w.t.Context(), azcosmos.NewPartitionKeyString(pk),
			fmt.Appendf(nil, `{"id":%q,"pk":%q}`, id, pk), nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ranges returns the number of feed ranges of the source.
func (w *world) ranges() int {
	w.t.Helper()
	all, err := w.source.ReadFeedRanges(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(all)
}

// needRange skips the test on an endpoint whose containers have several feed ranges.
func (w *world) needRange() {
	w.t.Helper()
	if w.account.Engine == nil && w.ranges() > 1 {
		w.t.Skip("needs a source of one feed range")
	}
}

// needRanges splits the only range of the source into n, a power of two. On an endpoint it skips the
// test if there are fewer than least.
func (w *world) needRanges(n, least int) {
	w.t.Helper()
	if w.account.Engine == nil {
		if have := w.ranges(); have < least {
			w.t.Skipf("needs a source of %d feed ranges, not %d", least, have)
		}
		return
	}
	for have := 1; have < n; have *= 2 {
		w.split()
	}
}

func (w *world) remove(id string) {
	w.t.Helper()
	if _, err := w.source.DeleteItem(w.t.Context(), azcosmos.NewPartitionKeyString(id), id, nil); err != nil {
		w.t.Fatal(err)
	}
}

// handle records the items.
func (w *world) handle(_ context.Context, items [][]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, raw := range items {
		var item struct{ ID string }
		if err := json.Unmarshal(raw, &item); err != nil {
			return err
		}
		w.seen = append(w.seen, item.ID)
	}
	return nil
}

func (w *world) have() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen, " ")
}

// run runs a processor until stop is called.
func (w *world) run(owner string, handle changefeed.Handler, expiry time.Duration) (stop func()) {
	w.t.Helper()
	return w.runOn(w.client, owner, handle, expiry)
}

func (w *world) runOn(c *client, owner string, handle changefeed.Handler, expiry time.Duration) (stop func()) {
	w.t.Helper()
	return w.runWith(c, handle,
		changefeed.Options{Name: "test", Owner: owner, MaxItems: 2, PollInterval: 5 * time.Millisecond, Expiry: expiry})
}

func (w *world) runWith(c *client, handle changefeed.Handler, o changefeed.Options) (stop func()) {
	w.t.Helper()
	p, err := changefeed.New(c.source, c.leases, handle, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.start(p)
}

// start runs a processor until stop is called.
func (w *world) start(p *changefeed.Processor) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(w.t, done); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) wait(check func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !check(); pass(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("handled so far: %s", w.have())
		}
	}
}

// pass waits: in synctest on the fake clock, on an endpoint in real time, where nothing else can show that
// something does not happen.
func pass(d time.Duration) { time.Sleep(d) }

func (w *world) waitFor(want string) {
	w.t.Helper()
	w.wait(func() bool { return w.have() == want })
}

// leaseID is the lease of the only range.
const leaseID = "test.-FF"

// checkpoint waits for the first checkpoint and returns the lease.
func (w *world) checkpoint() (lease map[string]any) {
	w.t.Helper()
	w.wait(func() bool {
		r, err := w.leases.ReadItem(w.t.Context(), azcosmos.NewPartitionKeyString(leaseID), leaseID, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := json.Unmarshal(r.Value, &lease); err != nil {
			w.t.Fatal(err)
		}
		return lease["continuation"] != ""
	})
	return lease
}

func TestProcessor_DeliversInOrder(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("a", "b", "c")
		stop := w.run("one", w.handle, 0)
		w.waitFor("a b c")
		w.write("d", "a")
		w.waitFor("a b c d a")
		stop()
		w.write("e")
		w.run("one", w.handle, 0)
		w.waitFor("a b c d a e") // resumes from its checkpoint
	})
}

func TestHandlerError_PageRepeated(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("a", "b", "c")
		failures := 2
		w.run("one", func(ctx context.Context, items [][]byte) error {
			if len(items) == 1 && failures > 0 {
				failures--
				return errors.New("not now")
			}
			return w.handle(ctx, items)
		}, 0)
		w.waitFor("a b c")
	})
}

func TestCrash_PageRepeated(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("a", "b", "c")
		ctx, crash := context.WithCancel(t.Context())
		p, err := changefeed.New(w.source, w.leases, func(ctx context.Context, items [][]byte) error {
			defer crash()
			w.intercept(func(*http.Request) *http.Response { // from now on all requests fail
				return &http.Response{StatusCode: 503, Body: http.NoBody, Header: http.Header{}}
			})
			return w.handle(ctx, items)
		}, changefeed.Options{Name: "test", Owner: "one", MaxItems: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(ctx); err != nil {
			t.Fatal(err)
		}
		w.intercept(nil)
		w.run("one", w.handle, 0)
		w.waitFor("a b a b c")
	})
}

// After a page that is full by items or by bytes, the next is read at once. The poll interval is an hour.
func TestFullPages_ReadWithoutWait(t *testing.T) {
	for name, c := range map[string]struct{ items, bytes int }{
		"full by changes": {200, 10},
		"full by bytes":   {8, 1_500_000},
	} {
		run(t, name, func(t *testing.T) {
			w := newWorld(t)
			text, written := strings.Repeat("x", c.bytes), ids("a", c.items)
			for _, id := range written {
				if _, err := w.source.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(id),
					[]byte(`{"id":"`+id+`","pk":"`+id+`","text":"`+text+`"}`), nil); err != nil {
					t.Fatal(err)
				}
			}
			var pages atomic.Int64
			w.runWith(w.client, func(ctx context.Context, items [][]byte) error {
				pages.Add(1)
				return w.handle(ctx, items)
			}, changefeed.Options{Name: "test", Owner: "one", PollInterval: time.Hour})
			w.wait(func() bool { return w.all(written) })
			if n := pages.Load(); n < 2 {
				t.Errorf("got %d pages, want at least 2", n)
			}
		})
	}
}

// The last of several full pages gets a checkpoint as soon as the feed ends.
func TestFullPages_Checkpointed(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write("a", "b", "c", "d") // two pages
		w.run("one", w.handle, time.Hour)
		w.waitFor("a b c d")
		w.wait(func() bool {
			status, err := changefeed.Status(t.Context(), w.source, w.leases, "test")
			return err == nil && len(status) == 1 && status[0].Lag == 0
		})
	})
}

// A processor that stops saves its position with the release, even past the last checkpoint.
func TestRelease_SavesPosition(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("a", "b", "c", "d", "e", "f") // three pages
		third := make(chan struct{})
		began := time.Now()
		stop := w.runWith(w.client, func(ctx context.Context, items [][]byte) error {
			if strings.Contains(string(items[0]), `"e"`) {
				close(third)
				<-ctx.Done()
				return ctx.Err()
			}
			return w.handle(ctx, items)
			// so that no time passes between two checkpoints
		}, changefeed.Options{Name: "test", Owner: "one", MaxItems: 2, Expiry: time.Hour, Clock: func() time.Time {
			return began
		}})
		testkit.Receive(t, third)
		stop()
		w.run("one", w.handle, 0)
		w.waitFor("a b c d e f")
	})
}

func TestLease_SingleOwner(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.run("one", w.handle, time.Hour)
		w.write("a")
		w.waitFor("a")
		w.run("two", func(context.Context, [][]byte) error {
			t.Error("the second owner works on a range of the first")
			return nil
		}, time.Hour)
		w.write("b", "c", "d")
		w.waitFor("a b c d")
	})
}

func TestLease_DeadOwner(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write("a")
		stop := w.run("one", w.handle, 0)
		w.waitFor("a")
		w.checkpoint()
		w.intercept(func(r *http.Request) *http.Response { // it dies: its release does not get through
			if r.Method == http.MethodPut {
				return &http.Response{StatusCode: 503, Body: http.NoBody, Header: http.Header{}}
			}
			return nil
		})
		stop()
		w.intercept(nil)
		w.write("b")
		w.run("two", w.handle, 200*time.Millisecond)
		w.waitFor("a b")
	})
}

func TestLease_RenewedDuringHandler(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write("a")
		const expiry = 300 * time.Millisecond
		begun, finish := make(chan struct{}), make(chan struct{})
		w.run("one", func(ctx context.Context, items [][]byte) error {
			close(begun)
			select {
			case <-finish:
				return w.handle(ctx, items)
			case <-ctx.Done():
				t.Error("the lease was lost")
				return ctx.Err()
			}
		}, expiry)
		testkit.Receive(t, begun)
		w.run("two", func(context.Context, [][]byte) error {
			t.Error("the second owner took the lease")
			return nil
		}, expiry)
		pass(3 * expiry)
		close(finish)
		w.waitFor("a")
	})
}

func TestLostLease_StopsWorker(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRange()
		w.write("a")
		w.run("one", w.handle, time.Hour)
		w.waitFor("a")
		lease := w.checkpoint() // then another process takes the lease
		lease["owner"] = "other"
		raw, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.leases.ReplaceItem(t.Context(), azcosmos.NewPartitionKeyString(leaseID), leaseID, raw,
			nil); err != nil {
			t.Fatal(err)
		}
		// The old owner may finish its page, but its checkpoint is refused, and then it stops.
		w.write("b")
		w.waitFor("a b")
		pass(11 * time.Second) // until after the checkpoint is due
		w.write("c", "d")
		pass(50 * time.Millisecond)
		if have := w.have(); have != "a b" {
			t.Errorf("handled %q, want %q: the old owner continues without the lease", have, "a b")
		}
	})
}

// conditional checks that no lease is changed or removed without If-Match, nor overwritten. It counts
// requests by method.
type conditional struct {
	t  testing.TB
	mu sync.Mutex
	n  map[string]int // guarded by mu
}

func (c *conditional) wire(r *http.Request) *http.Response {
	if !strings.Contains(r.URL.Path, "/colls/leases/docs") {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[r.Method]++
	switch r.Method {
	case http.MethodPut, http.MethodDelete:
		if r.Header.Get("If-Match") == "" {
			c.t.Errorf("%s of a lease without If-Match", r.Method)
		}
	case http.MethodPatch:
		c.t.Error("a lease is patched")
	case http.MethodPost:
		if r.Header.Get("x-ms-documentdb-is-upsert") != "" || r.Header.Get("x-ms-cosmos-is-batch-request") != "" {
			c.t.Error("a lease is upserted")
		}
	}
	return nil
}

func (c *conditional) count(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[method]
}

func TestLeaseWrites_Conditional(t *testing.T) {
	run(t, "taking, checkpoints and release", func(t *testing.T) {
		w, c := newWorld(t), &conditional{t: t}
		w.needRange()
		w.intercept(c.wire)
		stop := w.run("one", w.handle, 300*time.Millisecond)
		for i := range 5 {
			w.write(fmt.Sprint(i))
		}
		w.waitFor("0 1 2 3 4")
		w.checkpoint()
		stop()
		if owner := w.checkpoint()["owner"]; owner != "" {
			t.Errorf("%v still owns the lease", owner)
		}
		if n := c.count(http.MethodPut); n < 3 {
			t.Errorf("got %d writes, want at least three: acquire, checkpoint and release", n)
		}
		if n := c.count(http.MethodDelete); n != 0 {
			t.Errorf("%d leases were removed, want 0", n)
		}
	})
	run(t, "a split", func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w, c := newWorld(t), &conditional{t: t}
		w.intercept(c.wire)
		w.run("one", w.handle, clusterExpiry)
		w.write("a")
		w.waitFor("a")
		w.checkpoint()
		w.split()
		w.waitRanges(2)
		if c.count(http.MethodDelete) == 0 {
			t.Error("no lease was removed")
		}
	})
	run(t, "a merge", func(t *testing.T) {
		cosmostest.NeedsEngine(t, whyMerge)
		w, c, m := newWorld(t), &conditional{t: t}, mergeable{new(atomic.Bool)}
		w.intercept(m.wire(w, c.wire))
		w.run("one", w.handle, clusterExpiry)
		w.waitRanges(2)
		m.merged.Store(true)
		w.write("a")
		w.waitRanges(1)
		if n := c.count(http.MethodDelete); n < 2 {
			t.Errorf("%d leases were removed, want at least 2", n)
		}
	})
	run(t, "stealing", func(t *testing.T) {
		w, c := newWorld(t), &conditional{t: t}
		w.needRanges(2, 2)
		n := w.ranges()
		w.run("one", w.handle, clusterExpiry)
		w.wait(func() bool { return w.owners()["one"] == n })
		process := w.process()
		process.intercept(c.wire)
		w.runOn(process, "two", w.handle, clusterExpiry)
		w.wait(func() bool { return w.owners()["two"] == n/2 })
		if c.count(http.MethodPut) == 0 {
			t.Error("no lease was written")
		}
	})
}

func TestNew_MissingNames(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		for _, o := range []changefeed.Options{{}, {Name: "x"}, {Owner: "x"}} {
			if _, err := changefeed.New(w.source, w.leases, w.handle, o); err == nil {
				t.Errorf("%+v: no error", o)
			}
		}
	})
}
