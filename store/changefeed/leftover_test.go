package changefeed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// makeLease writes a lease as another process would have.
func (w *world) makeLease(ctx context.Context, c *client, lease map[string]any) {
	w.t.Helper()
	item, err := json.Marshal(lease)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.leases.CreateItem(ctx, azcosmos.NewPartitionKeyString(lease["id"].(string)), item, nil); err != nil {
		w.t.Error(err)
	}
}

// The leases of the parts exist when a process splits a range, from before its Reset, and another process owns them:
// they are reset, and the process works on none of them before it has taken it.
func TestSplit_PartsOfAnotherProcess(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		f := fences{t: t, owner: map[string]string{}}
		one, two := w.process(), w.process()
		one.intercept(func(r *http.Request) *http.Response {
			if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/colls/leases/") {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			var lease map[string]any
			if err := json.Unmarshal(body, &lease); err != nil || lease["owner"] != "one" {
				return nil // a query, or the first lease
			}
			lease["owner"], lease["expiry"], lease["resets"] = "two", time.Hour, 0
			w.makeLease(r.Context(), two, lease)
			f.mu.Lock()
			defer f.mu.Unlock()
			from, to := lease["minInclusive"].(string), lease["maxExclusive"].(string)
			f.owner[fmt.Sprint(azcosmos.FeedRange{MinInclusive: from, MaxExclusive: to}, lease["generation"])] = "two"
			return nil
		})
		w.write("a")
		w.makeLease(t.Context(), two, map[string]any{"id": leaseID, "maxExclusive": "FF", "resets": 1})
		w.runOn(one, "one", f.handle(w.handle), clusterExpiry)
		w.waitFor("a")
		w.checkpoint()
		w.split()
		w.waitRanges(2)
		f.mu.Lock()
		if n := strings.Count(fmt.Sprint(f.owner), ":two"); n != 2 {
			t.Errorf("the other process owned %d leases, want 2", n)
		}
		f.mu.Unlock()
		for _, v := range w.leaseItems() {
			if v.Resets != 1 {
				t.Errorf("lease %s was reset %d times, want 1", v.ID, v.Resets)
			}
		}
		w.write(ids("b", 20)...)
		w.wait(func() bool { return strings.Contains(w.have(), "b") }) // of a lease that it took
	})
}

// pausedFeed is a container whose change feed cannot be read for some time.
type pausedFeed struct {
	changefeed.Container
	paused *atomic.Bool
}

func (c pausedFeed) ReadChangeFeed(
	ctx context.Context, o *azcosmos.ChangeFeedOptions,
) (azcosmos.ChangeFeedResponse, error) {
	if c.paused.Load() {
		return azcosmos.ChangeFeedResponse{},
			&azcore.ResponseError{StatusCode: http.StatusServiceUnavailable, RawResponse: &http.Response{}}
	}
	return c.Container.ReadChangeFeed(ctx, o)
}

// Two leases are merged whose positions cannot be compared: one is from a container that was since deleted and
// created again. All changes are handled again.
func TestMerge_PositionsOfTwoContainers(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "its positions are known")
		w := newWorld(t)
		written := ids("a", 20)
		w.write(written...)
		source, err := w.source.Read(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		const middle = "1F"
		lease := func(from, to, owner, container, lsn string) {
			at := map[string]any{"version": 1, "resourceId": container, "continuation": []any{
				map[string]any{"minInclusive": from, "maxExclusive": to, "continuationToken": `"` + lsn + `"`}}}
			token, err := json.Marshal(at)
			if err != nil {
				t.Fatal(err)
			}
			w.makeLease(t.Context(), w.client, map[string]any{"id": "test." + from + "-" + to,
				"minInclusive": from, "maxExclusive": to, "generation": 1, "continuation": string(token),
				"owner": owner, "expiry": time.Hour})
		}
		lease("", middle, "", "deleted==", "1000")
		lease(middle, "FF", "two", source.ContainerProperties.ResourceID, "15")
		var paused atomic.Bool
		paused.Store(true) // else the first lease is reset before it is merged
		p, err := changefeed.New(pausedFeed{w.source, &paused}, w.leases, w.handle,
			changefeed.Options{Name: "test", Owner: "one", PollInterval: 5 * time.Millisecond, Expiry: clusterExpiry})
		if err != nil {
			t.Fatal(err)
		}
		w.start(p)
		w.waitRanges(1)
		paused.Store(false)
		w.wait(func() bool { return w.all(written) })
	})
}
