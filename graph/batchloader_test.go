package graph

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/graph/fields"
	"byline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// recorder records the batches of its fetch.
type recorder struct {
	mu      sync.Mutex
	batches [][]string
	err     error
}

func (r *recorder) fetch(_ context.Context, keys []string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, slices.Sorted(slices.Values(keys)))
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = "value of " + k
	}
	return values, r.err
}

func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%03d", i)
	}
	return keys
}

func TestLoader_AnnouncedGroupIsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		l := newLoader(t.Context(), r.fetch)
		l.expect()(func() []string { return keys(100) })
		// Sequential loads, with more than a batch's wait after the first.
		for _, k := range keys(100) {
			v, err := l.load(t.Context(), k)
			if err != nil || v != "value of "+k {
				t.Fatal(v, err)
			}
			if k == "k000" {
				testkit.Advance(3 * loaderWait)
			}
		}
		if diff := cmp.Diff([][]string{keys(100)}, r.batches); diff != "" {
			t.Error(diff)
		}
	})
}

// A batch waits for the groups of lists that are still being read.
func TestLoader_WaitsForExpectedGroups(t *testing.T) {
	var r recorder
	l := newLoader(t.Context(), r.fetch)
	first, second := l.expect(), l.expect()
	first(func() []string { return []string{"a", "b"} })
	var loads sync.WaitGroup
	load := func(keys ...string) {
		for _, key := range keys {
			loads.Go(func() {
				if v, err := l.load(t.Context(), key); err != nil || v != "value of "+key {
					t.Error(v, err)
				}
			})
		}
	}
	load("x", "a", "a")
	testkit.WaitFor(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.held != nil && len(l.held.keys) == 3
	})
	second(func() []string { return []string{"c"} })
	loads.Wait()
	load("c") // nothing is expected any more
	loads.Wait()
	if diff := cmp.Diff([][]string{{"a", "b", "x"}, {"c"}}, r.batches); diff != "" {
		t.Error(diff)
	}
}

func TestLoader(t *testing.T) {
	t.Run("a duplicate key is read once", func(t *testing.T) {
		var r recorder
		l := newLoader(t.Context(), r.fetch)
		values, err := l.loadMany(t.Context(), []string{"a", "b", "a"})
		if diff := cmp.Diff([]string{"value of a", "value of b", "value of a"}, values); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if diff := cmp.Diff([][]string{{"a", "b"}}, r.batches); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a primed key is not read, not even with its group", func(t *testing.T) {
		var r recorder
		l := newLoader(t.Context(), r.fetch)
		l.expect()(func() []string { return []string{"a", "b"} })
		l.prime("a", "known")
		b, _ := l.load(t.Context(), "b")
		a, _ := l.load(t.Context(), "a")
		if a != "known" || b != "value of b" {
			t.Error(a, b)
		}
		if diff := cmp.Diff([][]string{{"b"}}, r.batches); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("groups without a load are not read", func(t *testing.T) {
		var r recorder
		l := newLoader(t.Context(), r.fetch)
		l.expect()(func() []string { return []string{"a", "b"} })
		l.expect()(func() []string { return []string{"c", "d"} })
		if _, err := l.load(t.Context(), "c"); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([][]string{{"c", "d"}}, r.batches); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("no batch is over BatchSize", func(t *testing.T) {
		var r recorder
		l := newLoader(t.Context(), r.fetch)
		if _, err := l.loadMany(t.Context(), keys(250)); err != nil {
			t.Fatal(err)
		}
		for _, batch := range r.batches {
			if len(batch) > fields.BatchSize {
				t.Errorf("a batch of %d", len(batch))
			}
		}
	})
	t.Run("an error fails the whole batch and is not cached", func(t *testing.T) {
		r := recorder{err: errors.New("once")}
		l := newLoader(t.Context(), r.fetch)
		if _, err := l.loadMany(t.Context(), []string{"a", "b"}); err == nil {
			t.Error("no error")
		}
		r.err = nil
		if v, err := l.load(t.Context(), "a"); v != "value of a" || err != nil {
			t.Error(v, err)
		}
	})
	t.Run("a panic is an error", func(t *testing.T) {
		l := newLoader(t.Context(), func(context.Context, []string) ([]string, error) { panic("boom") })
		_, err := l.load(t.Context(), "a")
		var crash *panicked
		if !errors.As(err, &crash) {
			t.Error(err)
		}
	})
	t.Run("a batch outlives its first field, not the response", func(t *testing.T) {
		response, endResponse := context.WithCancel(t.Context())
		l := newLoader(response, func(ctx context.Context, keys []string) ([]string, error) { return keys, ctx.Err() })
		field, endField := context.WithCancel(response)
		endField()
		if _, err := l.load(field, "a"); err != nil {
			t.Errorf("ended with the field: %v", err)
		}
		endResponse()
		if _, err := l.load(t.Context(), "b"); err == nil {
			t.Error("continues after the response")
		}
	})
}

func TestMemo(t *testing.T) {
	t.Run("concurrent calls share one read", func(t *testing.T) {
		var m memo[string, int]
		var wg sync.WaitGroup
		reads := 0
		for range 50 {
			wg.Go(func() {
				v, err := m.do("a", func() (int, error) { reads++; return 7, nil })
				if v != 7 || err != nil {
					t.Error(v, err)
				}
			})
		}
		wg.Wait()
		if reads != 1 {
			t.Errorf("%d reads, want 1", reads)
		}
		if v, _ := m.do("b", func() (int, error) { return 8, nil }); v != 8 {
			t.Error(v)
		}
	})
	t.Run("all calls get the error", func(t *testing.T) {
		var m memo[string, int]
		once := errors.New("once")
		for range 2 {
			if _, err := m.do("a", func() (int, error) { err := once; once = nil; return 0, err }); err == nil {
				t.Error("no error")
			}
		}
	})
	t.Run("a panic is an error for all calls", func(t *testing.T) {
		var m memo[string, int]
		for range 2 {
			_, err := m.do("a", func() (int, error) { panic("boom") })
			var crash *panicked
			if !errors.As(err, &crash) {
				t.Error(err)
			}
		}
	})
}

// One batch completes the items of pages that arrive at different times.
func TestLoader_PagesArriveAtDifferentTimes(t *testing.T) {
	b := newBlog(t, Options{})
	for _, name := range []string{"ada", "alan", "grace", "edsger"} {
		b.user(t, name)
		b.comment(t, name, b.post(t, name, "by "+name, "c"), "my own")
	}
	var all sync.WaitGroup
	var nth atomic.Int64
	all.Add(4)
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		if describeRequest(r).what == "query posts" {
			n := nth.Add(1)
			all.Done()
			all.Wait()
			// a slow response; no bubble, as the loaders wait with a lock held
			time.Sleep(time.Duration(n) * 10 * loaderWait)
		}
		return nil, nil
	})
	defer func() { b.wire.setFail(nil) }()
	b.wire.reset()
	if a := post(t, b, "", `{ feed { edges { node { comments { edges { node { author { createdAt } } } } } } } }`,
		nil); a.code() != "" {
		t.Fatal(a.body)
	}
	reads := slices.DeleteFunc(b.wire.seen(), func(what string) bool { return !strings.HasSuffix(what, "users") })
	if len(reads) > 2 { // the last page may be too late for the batch of the others
		t.Errorf("got reads %v, want at most two", reads)
	}
}
