package emulator

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestThrottling spends a budget of 20 RU/s on a fake clock.
func TestThrottling(t *testing.T) {
	ctx := context.Background()
	clock := newFakeClock()
	e := newEngine(t, Options{RUs: 20, Partitions: 2, Clock: clock.Now})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	low := azcosmos.PriorityLevelLow
	read := func(key string, o *azcosmos.ItemOptions) error {
		_, err := c.ReadItem(ctx, pk(key), "1", o)
		if statusOf(err) == http.StatusNotFound {
			return nil
		}
		return err
	}
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`) // 5.9 RU
	for range 5 {
		if err := read("p", nil); err != nil { // 1 RU each
			t.Fatal(err)
		}
	}
	err := read("p", &azcosmos.ItemOptions{PriorityLevel: &low})
	wantStatus(t, err, http.StatusTooManyRequests, "3200")
	for range 10 {
		if err := read("p", nil); err != nil {
			t.Fatal("throttled before the budget is spent: ", err)
		}
	}
	err = read("p", nil)
	wantStatus(t, err, http.StatusTooManyRequests, "3200")
	res := rawResponse(err)
	if got := res.Header.Get("x-ms-request-charge"); got != "0.38" {
		t.Errorf("charge %s", got)
	}
	if res.Header.Get("Retry-After") != "" {
		t.Error("got a Retry-After header, which the service does not send")
	}
	ms, err := strconv.Atoi(res.Header.Get("x-ms-retry-after-ms"))
	if err != nil || ms <= 0 || ms > 1000 {
		t.Fatalf("x-ms-retry-after-ms %d %v", ms, err)
	}

	for name, call := range map[string]func() error{
		"create": func() error {
			_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"2","pk":"p"}`), nil)
			return err
		},
		"batch": func() error {
			b := c.NewTransactionalBatch(pk("p"))
			b.ReadItem("1", nil)
			_, err := c.ExecuteTransactionalBatch(ctx, b, nil)
			return err
		},
		"query": func() error {
			_, err := c.NewQueryItemsPager("SELECT * FROM c", pk("p"), nil).NextPage(ctx)
			return err
		},
		"change feed": func() error {
			key := pk("p")
			_, err := c.ReadChangeFeed(ctx,
				&azcosmos.ChangeFeedOptions{PartitionKey: &key, FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
			return err
		},
	} {
		if got := statusOf(call()); got != http.StatusTooManyRequests {
			t.Errorf("%s: got status %d, want 429", name, got)
		}
	}
	if err := read(otherRange(t, e, "p"), nil); err != nil {
		t.Errorf("the other partition is throttled, too: %v", err)
	}
	clock.now = clock.now.Add(time.Duration(ms-1) * time.Millisecond)
	if err := read("p", nil); statusOf(err) != http.StatusTooManyRequests {
		t.Errorf("before the end of the retry-after: got %v, want 429", err)
	}
	clock.now = clock.now.Add(time.Millisecond)
	if err := read("p", nil); err != nil {
		t.Errorf("still throttled after the wait: %v", err)
	}

	// After an idle hour the budget is that of one second.
	clock.now = clock.now.Add(time.Hour)
	n := 0
	for read("p", nil) == nil {
		n++
	}
	if n != 20 {
		t.Errorf("%d reads of 1 RU with a budget of 20 RU, want 20", n)
	}
}

// TestThrottling_SeveralPartitions: a page over several physical partitions needs the budget of each of
// them, and they share its charge.
func TestThrottling_SeveralPartitions(t *testing.T) {
	for name, query := range map[string]string{
		"interval": `SELECT * FROM c WHERE c.n > 0`,
		"points":   `SELECT * FROM c WHERE c.id = "1" AND c.pk IN ("p", "q")`,
	} {
		t.Run(name, func(t *testing.T) {
			clock := newFakeClock()
			e := newEngine(t, Options{RUs: 100, Partitions: 2, Clock: clock.Now})
			c := newContainer(t, e, azcosmos.ContainerProperties{})
			for _, key := range []string{"p", otherRange(t, e, "p")} {
				mustCreate(t, c, key, `{"id":"1","pk":"`+key+`","n":1}`)
			}
			ranges := e.catalog.Load().databases["db"].containers["c"].ranges
			send := func() *http.Response {
				return do(t, e, http.MethodPost, "/dbs/db/colls/c/docs", `{"query":`+strconv.Quote(query)+`}`,
					"Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "true")
			}
			before := []float64{ranges[0].budget.left, ranges[1].budget.left}
			res := send()
			charge, err := strconv.ParseFloat(res.Header.Get("x-ms-request-charge"), 64)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res.Status, err)
			}
			for i, p := range ranges {
				if paid := before[i] - p.budget.left; math.Abs(paid-charge/2) > 0.01 {
					t.Errorf("partition %d paid %.2f of %.2f RU", i, paid, charge)
				}
			}
			for i, p := range ranges {
				clock.now = clock.now.Add(time.Hour)
				if res := send(); res.StatusCode != http.StatusOK {
					t.Error("with a full budget:", res.Status)
				}
				p.budget.pay(100)
				if res := send(); res.StatusCode != http.StatusTooManyRequests {
					t.Errorf("with an empty budget in partition %d: got %s, want 429", i, res.Status)
				}
			}
		})
	}
}

// otherRange returns a key that is not in the physical partition of key.
func otherRange(t testing.TB, e *Engine, key string) string {
	for i := 0; ; i++ {
		if s := strconv.Itoa(i); partitionOfKey(t, e, s) != partitionOfKey(t, e, key) {
			return s
		}
	}
}

// epkOf returns the effective partition key of a key in container c, all of whose components are strings.
func epkOf(t testing.TB, e *Engine, key ...string) []byte {
	t.Helper()
	header, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	paths := &e.catalog.Load().databases["db"].containers["c"].def.key
	parsed, err := paths.Parse(string(header))
	if err != nil {
		t.Fatal(err)
	}
	return paths.AppendEPK(nil, parsed)
}

// partitionOfKey returns the physical partition of a key in container c.
func partitionOfKey(t testing.TB, e *Engine, key string) *partition {
	t.Helper()
	return e.catalog.Load().databases["db"].containers["c"].rangeOfLocked(epkOf(t, e, key))
}

// TestThrottling_ClientRetries: azcosmos waits for the retry-after and succeeds.
func TestThrottling_ClientRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		e := newEngine(t, Options{RUs: 100})
		newContainer(t, e, azcosmos.ContainerProperties{})
		cred, err := azcosmos.NewKeyCredential(WellKnownKey)
		if err != nil {
			t.Fatal(err)
		}
		client, err := azcosmos.NewClientWithKey(e.Endpoint(), cred,
			&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
				Transport: e, Retry: policy.RetryOptions{MaxRetries: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := client.NewContainer("db", "c")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 25 {
			if _, err := c.UpsertItem(ctx, pk("p"), []byte(`{"id":"1","pk":"p"}`), nil); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
	})
}

// TestNoSync: writes that do not wait for the disk survive Close.
func TestNoSync(t *testing.T) {
	ctx := context.Background()
	disk := newSlowDisk()
	e := newEngineOn(t, disk.fs(), Options{NoSync: true})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	release := disk.hold()
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"1","pk":"p"}`), nil)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the write waits for the disk")
	}
	if got := changes(t, c, nil); len(got) != 1 {
		t.Errorf("change feed: %v", got)
	}
	release()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	again := newEngineOn(t, disk.crashed(), Options{})
	client, err := newClient(t, again).NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReadItem(ctx, pk("p"), "1", nil); err != nil {
		t.Error(err)
	}
}

// TestBackground_OneAtATime: requests of low priority run one at a time; others do not wait for them.
func TestBackground_OneAtATime(t *testing.T) {
	request := func(ctx context.Context, priority string) *request {
		return &request{ctx: ctx, header: http.Header{"X-Ms-Cosmos-Priority-Level": {priority}}}
	}
	synctest.Test(t, func(t *testing.T) {
		slot := make(backgroundSlot, 1)
		first, second := request(t.Context(), "Low"), request(t.Context(), "low")
		if err := slot.enter(first); err != nil {
			t.Fatal(err)
		}
		entered := make(chan error, 1)
		go func() { entered <- slot.enter(second) }()
		synctest.Wait()
		if len(entered) > 0 {
			t.Error("two requests of low priority run at the same time")
		}
		if err := slot.enter(request(t.Context(), "High")); err != nil {
			t.Errorf("high priority: %v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if err := slot.enter(request(ctx, "Low")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that ends: got %v, want %v", err, context.DeadlineExceeded)
		}
		first.leave()
		first.leave() // does nothing
		if err := <-entered; err != nil {
			t.Errorf("after the first: %v", err)
		}
		second.leave()
	})
}

// TestBackground_SharesSync: a write of low priority that waits for the disk does not hold up the next.
func TestBackground_SharesSync(t *testing.T) {
	disk := newSlowDisk()
	e := newEngineOn(t, disk.fs(), Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	release := disk.hold()
	defer release()
	write := func(id string) func() error {
		return func() error {
			h := http.Header{"X-Ms-Cosmos-Priority-Level": {"Low"}, "X-Ms-Documentdb-Partitionkey": {`["p"]`}}
			r, err := e.Do(signed(t, http.MethodPost, "/dbs/db/colls/c/docs", h, []byte(`{"id":"`+id+`","pk":"p"}`)))
			if err == nil && r.StatusCode != http.StatusCreated {
				err = errors.New(r.Status)
			}
			return err
		}
	}
	first, second := begun(t, e, write("1")), begun(t, e, write("2"))
	release()
	for _, done := range []<-chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
