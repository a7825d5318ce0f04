package store_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/projection"
)

// metered is a world whose account records metrics.
type metered struct {
	*world
	registry *prometheus.Registry

	mu      sync.Mutex
	charged float64 // guarded by mu; RU by the engine's responses
	sent    int     // guarded by mu; requests sent
}

func newMetered(t testing.TB) *metered {
	t.Helper()
	m := &metered{world: newWorld(t), registry: prometheus.NewRegistry()}
	account := m.NewAccount(cosmos.Options{Metrics: m.registry,
		Retry: policy.RetryOptions{RetryDelay: time.Millisecond, MaxRetries: 3}})
	t.Cleanup(account.Close)
	var err error
	m.Store, err = store.New(account,
		store.Options{Database: m.Database, Clock: m.Clock.Now, PollInterval: time.Millisecond, Instance: "test"})
	if err != nil {
		t.Fatal(err)
	}
	m.Wire.After(func(r *http.Response) {
		charge, _ := strconv.ParseFloat(r.Header.Get("x-ms-request-charge"), 64)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.charged += charge
	})
	m.Wire.Intercept(func(*http.Request) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sent++
		return nil
	})
	return m
}

// value sums the series of a metric, or those with a label if one is given.
func (m *metered) value(name string, label ...string) float64 {
	m.T.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		m.T.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, series := range f.Metric {
			match := len(label) == 0
			for _, l := range series.Label {
				match = match || l.GetName() == label[0] && l.GetValue() == label[1]
			}
			if match {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(
					series.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func (m *metered) is(want float64, name string, label ...string) {
	m.T.Helper()
	if got := m.value(name, label...); math.Abs(got-want) > .005 {
		m.T.Errorf("%s%v is %.2f, want %.2f", name, label, got, want)
	}
}

// The metrics count every request and its charge, by pattern and by range: successful, throttled and failed
// ones, and those in the background.
func TestMeter_CountsAllRequests(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	cosmostest.Run(t, func(t *testing.T) {
		m := newMetered(t)
		ada := m.AddUser("ada")
		post := m.AddPost(ada, "t")
		var n int
		m.Inject(func(o faulttest.Operation) faulttest.Response {
			if n++; o.Kind == faulttest.Read && n%2 == 0 {
				return faulttest.Response{Status: http.StatusTooManyRequests}
			}
			return faulttest.Response{}
		})
		for range 4 {
			if _, err := m.Post(t.Context(), post.ID); err != nil {
				t.Fatal(err)
			}
		}
		m.Inject(nil)
		if _, err := m.Post(t.Context(), "absent"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Posts(t.Context(), []string{post.ID, "absent"}); err != nil {
			t.Fatal(err)
		}
		stop := m.Start()
		if _, _, err := m.LikePost(t.Context(), ada.UserID, post.ID); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error {
			// of the view: this store knows the count
			if p, err := m.Feed(t.Context(), store.Paging{First: 1}); err != nil || len(p.Items) == 0 ||
				p.Items[0].Revision != 2 {
				return fmt.Errorf("%v %v", p, err)
			}
			return nil
		})
		m.is(1, "byline_projection_leases", "projection", "projections-posts")
		stop()

		m.mu.Lock()
		charged, sent := m.charged, m.sent
		m.mu.Unlock()
		m.is(charged, "byline_cosmos_request_units_total")
		m.is(charged, "byline_cosmos_range_request_units_total")
		m.is(float64(sent), "byline_cosmos_requests_total")
		m.is(float64(sent), "byline_cosmos_request_seconds")
		m.is(0, "byline_cosmos_requests_total", "pattern", string(cosmos.Unnamed))
		m.is(5, "byline_access_total", "pattern", "onePost")
		if throttles := m.value("byline_cosmos_throttles_total", "pattern", "onePost"); throttles == 0 {
			t.Error("got no throttles for onePost")
		} else {
			m.is(5+throttles, "byline_cosmos_requests_total", "pattern", "onePost")
		}
		m.is(0, "byline_cosmos_errors_total")
		for _, p := range []cosmos.Pattern{store.WriteUser, store.WritePost, store.LikePost, store.Feed,
			store.ManyPosts,
			projection.ProjectPosts, cosmos.ChangeFeed, cosmos.Leases, cosmos.Metadata} {
			if m.value("byline_cosmos_request_units_total", "pattern", string(p)) == 0 {
				t.Errorf("nothing was charged for %s", p)
			}
		}
	})
}

// silent never responds.
type silent struct{}

func (silent) Do(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A timeout counts as an error, a canceled request does not.
func TestMeter_CountsTimeouts(t *testing.T) {
	m := newMetered(t)
	post := m.AddPost(m.AddUser("ada"), "t")
	for name, tt := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want float64
	}{
		"deadline exceeded": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, 1},
		"canceled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := m.value("byline_cosmos_errors_total")
			m.Wire.To = silent{}
			ctx, cancel := tt.end(t.Context())
			defer cancel()
			if _, err := m.Post(ctx, post.ID); err == nil {
				t.Fatal("no error without a response")
			}
			m.is(before+tt.want, "byline_cosmos_errors_total")
		})
	}
}

// A recorder gets each operation once, with all its tries.
func TestRecorder_GetsAllTries(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	m := newMetered(t)
	ada := m.AddUser("ada")
	post := m.AddPost(ada, "t")
	var n int
	m.Inject(func(faulttest.Operation) faulttest.Response {
		if n++; n%3 != 0 {
			return faulttest.Response{Status: http.StatusTooManyRequests}
		}
		return faulttest.Response{}
	})
	m.mu.Lock()
	m.charged, m.sent = 0, 0
	m.mu.Unlock()
	var got []cosmos.Operation
	ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) { got = append(got, *o) })
	for range 3 {
		if _, err := m.Post(ctx, post.ID); err != nil {
			t.Fatal(err)
		}
	}
	ru, tries := 0.0, 0
	for _, o := range got {
		if o.Pattern != store.OnePost || o.Kind != cosmos.KindPointRead || o.Container != "posts" ||
			o.PartitionKey != `["`+post.ID+`"]` || o.Range != "0" || o.Took <= 0 {
			t.Errorf("%+v", o)
		}
		ru += o.RU
		tries += o.Tries
	}
	if len(got) != 3 || tries != m.sent || tries != 9 || math.Abs(ru-m.charged) > .005 {
		t.Errorf("got %d operations, %d tries, %.2f RU, want 3, %d, %.2f", len(got), tries, ru, m.sent, m.charged)
	}
}

// The index of home feeds is measured as it is loaded, grows and is emptied.
func TestMeter_Recency(t *testing.T) {
	m := newMetered(t)
	ada, bob := m.AddUser("ada"), m.AddUser("bob")
	m.AddPost(bob, "first")
	if _, err := m.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
		t.Fatal(err)
	}
	stop := m.Start()
	loaded := func() bool { return m.home(ada) == "first" && m.value("byline_recency_posts") == 1 }
	untilTrue(t, "the index is not loaded", loaded)
	m.AddPost(bob, "second")
	untilTrue(t, "the index does not grow", func() bool { return m.value("byline_recency_posts") == 2 })
	stop()
	m.is(0, "byline_recency_posts")
}
