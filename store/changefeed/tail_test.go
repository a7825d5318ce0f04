package changefeed_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/internal/cosmostest"
)

// tail runs a Tail and waits until it is ready.
func (w *world) tail(c *client, handle changefeed.Handler) {
	w.t.Helper()
	w.tailWith(c.source, handle,
		changefeed.Options{PollInterval: time.Millisecond, MaxItems: 2, Expiry: 20 * time.Millisecond})
}

func (w *world) tailWith(source changefeed.Container, handle changefeed.Handler, o changefeed.Options) {
	w.t.Helper()
	tail := changefeed.NewTail(source, handle, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tail.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := testkit.Receive(w.t, done); err != nil {
			w.t.Error(err)
		}
	})
	select {
	case <-tail.Ready():
	case <-time.After(time.Minute):
		w.t.Fatal("not ready")
	}
}

// readBy is a container whose change feed a function reads.
type readBy struct {
	changefeed.Container
	read func(context.Context, *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error)
}

func (r readBy) ReadChangeFeed(
	ctx context.Context, o *azcosmos.ChangeFeedOptions,
) (azcosmos.ChangeFeedResponse, error) {
	return r.read(ctx, o)
}

func TestTail_StartsAtEnd(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("before", "and", "more")
		w.tail(w.client, w.handle)
		w.write("a", "b", "c", "a")
		w.wait(func() bool { return strings.HasSuffix(w.have(), "a") && strings.Contains(w.have(), "c") })
		if have := w.have(); strings.Contains(have, "before") || strings.Contains(have, "more") ||
			len(w.leaseItems()) != 0 {
			t.Errorf("handled %q with %d leases", have, len(w.leaseItems()))
		}
	})
}

// TestTail_PollInterval: changes that arrive one by one are read together, once per PollInterval.
func TestTail_PollInterval(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		const poll = 50 * time.Millisecond
		w := newWorld(t)
		w.needRange()
		var reads atomic.Int64
		w.tailWith(w.client.source, w.handle,
			changefeed.Options{PollInterval: poll, Observe: func(changefeed.Progress) {
				reads.Add(1)
			}})
		began := time.Now()
		written := ids("a", 200)
		for _, id := range written {
			w.write(id)
			pass(time.Millisecond)
		}
		w.wait(func() bool { return w.all(written) })
		if n, most := reads.Load(), int64(time.Since(began)/poll)+2; n > most {
			t.Errorf("got %d reads, want at most %d", n, most)
		}
	})
}

// TestTail_IdleInterval: while nothing changes, waits double up to IdleInterval; Wake ends them.
func TestTail_IdleInterval(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		var reads atomic.Int64
		var wake changefeed.Signal
		w.tailWith(w.client.source, w.handle,
			changefeed.Options{PollInterval: 100 * time.Millisecond, IdleInterval: 10 * time.Second, Wake: &wake,
				Observe: func(changefeed.Progress) { reads.Add(1) }})
		pass(time.Minute)
		if n := reads.Load(); n < 10 || n > 15 { // 0.1 s, 0.2 s, ..., 6.4 s, and then 10 s
			t.Errorf("got %d reads in a minute, want 10 to 15", n)
		}
		w.write("a")
		wake.Set()
		pass(100 * time.Millisecond)
		if have := w.have(); have != "a" {
			t.Errorf("handled %q after Wake, want a", have)
		}
		w.write("b") // soon after a change polls are frequent again
		pass(time.Second)
		if have := w.have(); have != "a b" {
			t.Errorf("handled %q a second after a change, want %q", have, "a b")
		}
	})
}

// TestTail_Unwatched: while it is unwatched, a Tail polls on Wake, and every 30 s; otherwise every second.
func TestTail_Unwatched(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		var wake changefeed.Signal
		var watched atomic.Bool
		w.tailWith(w.client.source, w.handle,
			changefeed.Options{PollInterval: 100 * time.Millisecond, IdleInterval: 20 * time.Second, Wake: &wake,
				Unwatched: func() bool { return !watched.Load() }})
		handled := func(after time.Duration, want string) {
			t.Helper()
			pass(after)
			if have := w.have(); have != want {
				t.Errorf("handled %q, want %q", have, want)
			}
		}
		handled(time.Second, "")
		w.write("a")
		handled(25*time.Second, "")
		wake.Set()
		handled(100*time.Millisecond, "a")
		w.write("b")
		handled(25*time.Second, "a")
		handled(6*time.Second, "a b")
		watched.Store(true)
		wake.Set()
		pass(10 * time.Second)
		w.write("c")
		handled(time.Second, "a b c")
	})
}

func TestTails_ReceiveEveryChange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.needRanges(2, 1)
		others := []*world{{t: t}, {t: t}, {t: t}}
		for _, o := range others {
			w.tail(w.process(), o.handle)
		}
		w.write(ids("a", 20)...)
		for _, o := range others {
			o.wait(func() bool { return o.all(ids("a", 20)) })
		}
	})
}

func TestTail_SplitWithoutRepeats(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		w.tail(w.client, w.handle)
		var written []string
		for round := range 3 {
			more := ids(fmt.Sprintf("r%d-", round), 20)
			w.write(more[:10]...)
			w.split()
			w.write(more[10:]...)
			written = append(written, more...)
			w.wait(func() bool { return w.all(written) })
		}
		if n := len(strings.Fields(w.have())); n != len(written) {
			t.Errorf("%d changes were handled %d times, want once each", len(written), n)
		}
	})
}

// While a full page is handled, its range is split, and both parts are written to. The Tail does not report
// progress of a part before it has read it, and both parts are read without waiting for the next poll, which
// is in an hour.
func TestTail_ProgressOfSplitRange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		read, handling, resume := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var reads, handled atomic.Int64
		var mu sync.Mutex
		var written time.Time                     // guarded by mu
		reported := map[azcosmos.FeedRange]bool{} // guarded by mu; ranges reported without a lag
		before, after := ids("a", 20), ids("b", 20)
		whole := azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"}
		source := readBy{w.client.source,
			func(ctx context.Context, o *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error) {
				if reads.Add(1) == 2 { // the first reads the end of the feed
					<-read
				}
				return w.client.source.ReadChangeFeed(ctx, o)
			}}
		w.tailWith(source, func(ctx context.Context, items [][]byte) error {
			if handled.Add(1) == 1 {
				close(handling)
				<-resume
			}
			return w.handle(ctx, items)
		}, changefeed.Options{PollInterval: time.Hour, Expiry: time.Hour, MaxItems: int32(len(before)),
			Observe: func(p changefeed.Progress) {
				mu.Lock()
				defer mu.Unlock()
				if p.Err != nil || p.Lag > 0 || written.IsZero() || !p.Began.After(written) {
					return
				}
				if reported[p.Range] = true; p.Range == whole && !w.all(after) {
					t.Error("the whole range is reported, but a part has not been read")
				}
			}})
		w.write(before...)
		close(read)
		testkit.Receive(t, handling)
		w.split()
		w.write(after...)
		mu.Lock()
		written = time.Now()
		mu.Unlock()
		pass(time.Millisecond) // reads after it have a later time
		close(resume)
		w.wait(func() bool { return w.all(after) })
		w.wait(func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(reported) == 2 && !reported[whole]
		})
	})
}

// A range in a long backoff does not delay the parts of another range that is split.
func TestTail_SplitBesideWaitingRange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		w.split()
		var busy atomic.Bool
		waits := make(chan struct{})
		source := readBy{w.client.source,
			func(ctx context.Context, o *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error) {
				if o.Continuation != nil && strings.Contains(*o.Continuation, `"FF"`) &&
					busy.CompareAndSwap(true, false) {
					close(waits)
					return azcosmos.ChangeFeedResponse{}, &azcore.ResponseError{StatusCode: http.StatusTooManyRequests,
						RawResponse: &http.Response{Header: http.Header{"X-Ms-Retry-After-Ms": {"3600000"}}}}
				}
				return w.client.source.ReadChangeFeed(ctx, o)
			}}
		w.tailWith(source, w.handle, changefeed.Options{PollInterval: time.Millisecond, Expiry: 20 * time.Millisecond})
		busy.Store(true)
		testkit.Receive(t, waits)
		if err := w.account.Engine.Split(w.account.Database, "source", "1"); err != nil {
			t.Fatal(err)
		}
		written := ids("a", 20)
		w.write(written...)
		w.wait(func() bool { return w.all(written) })
	})
}

func TestTail_Merge(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whyMerge)
		w := newWorld(t)
		m := mergeable{new(atomic.Bool)}
		process := w.process()
		process.intercept(m.wire(w, nil))
		w.tail(process, w.handle)
		w.write(ids("a", 5)...)
		w.wait(func() bool { return w.all(ids("a", 5)) })
		m.merged.Store(true)
		w.write(ids("b", 5)...)
		w.wait(func() bool { return w.all(ids("b", 5)) })
		once := func() bool { // while there are two readers, each of them reads the item
			id := fmt.Sprint("c", time.Now().UnixNano())
			w.write(id)
			w.wait(func() bool { return w.all([]string{id}) })
			pass(30 * time.Millisecond)
			return strings.Count(w.have(), id) == 1
		}
		w.wait(once)
	})
}

func TestTail_Errors(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		process := w.process()
		var calls atomic.Int64
		w.tail(process, func(ctx context.Context, items [][]byte) error {
			if calls.Add(1)%2 == 1 {
				return errors.New("not now")
			}
			return w.handle(ctx, items)
		})
		w.write("a", "b", "c")
		process.intercept(func(r *http.Request) *http.Response { return unavailable(r) })
		w.write("d", "e")
		pass(50 * time.Millisecond)
		process.intercept(nil)
		w.waitFor("a b c d e")
	})
}

// TestTail_RecreatedContainer: all changes of a container that replaces another are delivered.
// A Tail that cannot read the end of the feed tries again until it can, or until it is stopped.
func TestTail_StartFails(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		var reads, failures atomic.Int64
		failures.Store(3)
		source := readBy{w.source, func(
			ctx context.Context, o *azcosmos.ChangeFeedOptions,
		) (azcosmos.ChangeFeedResponse, error) {
			if reads.Add(1) <= failures.Load() {
				return azcosmos.ChangeFeedResponse{}, errors.New("not now")
			}
			return w.source.ReadChangeFeed(ctx, o)
		}}
		w.tailWith(source, w.handle, changefeed.Options{PollInterval: time.Millisecond, Expiry: 20 * time.Millisecond})
		w.write("a")
		w.waitFor("a")

		failures.Store(math.MaxInt64)
		before := reads.Load()
		tail := changefeed.NewTail(source, w.handle, changefeed.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tail.Run(ctx) }()
		w.wait(func() bool { return reads.Load() > before+10 })
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
		select {
		case <-tail.Ready():
			t.Error("it is ready, although it has no position")
		default:
		}
	})
}

func TestTail_RecreatedContainer(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		w.split()
		w.write(ids("a", 5)...)
		w.tail(w.client, w.handle)
		w.write(ids("b", 5)...)
		w.wait(func() bool { return w.all(ids("b", 5)) })
		if _, err := w.source.Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Millisecond) // some polls
		w.makeContainers("source")
		w.write(ids("c", 5)...)
		w.wait(func() bool { return w.all(ids("c", 5)) })
	})
}

// TestTail_RecreatedContainerOfOneRange: the feed range of the new container has the id and the bounds of the
// old one.
func TestTail_RecreatedContainerOfOneRange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.tail(w.client, w.handle)
		w.write(ids("a", 5)...)
		w.wait(func() bool { return w.all(ids("a", 5)) })
		if _, err := w.source.Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		w.makeContainers("source")
		w.write(ids("b", 3)...)
		w.wait(func() bool { return w.all(ids("b", 3)) })
	})
}
