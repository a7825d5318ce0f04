package cosmos

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"byline/store/cosmos/session"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// scripted is a transport that gives all requests for items the same response.
type scripted struct {
	policy.Transporter
	status   int
	header   map[string]string
	body     string
	requests atomic.Int64
	date     atomic.Value  // X-Ms-Date of the last request, a string
	before   func(n int64) // called before the n-th response; may change it

	err           error // instead of a response
	unknownLength bool  // the responses have no Content-Length
}

func (s *scripted) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Ms-Documentdb-Partitionkey") == "" {
		return s.Transporter.Do(r)
	}
	n := s.requests.Add(1)
	s.date.Store(r.Header.Get("X-Ms-Date"))
	if s.before != nil {
		s.before(n)
	}
	if s.err != nil {
		return nil, s.err
	}
	resp := &http.Response{StatusCode: s.status, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(s.body)), ContentLength: int64(len(s.body))}
	for name, value := range s.header {
		resp.Header.Set(name, value)
	}
	if s.unknownLength {
		resp.ContentLength = -1
	}
	return resp, nil
}

// open returns an account with the transport.
func (s *scripted) open(t *testing.T, regions ...string) *Account {
	o := options(cosmostest.Open(t, emulator.Options{}))
	s.Transporter, o.Transport, o.Regions = o.Transport, s, regions
	account, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	return account
}

// throttledBatch is the response to a batch of which one operation is throttled.
const throttledBatch = `[{"statusCode":424,"requestCharge":0},{"statusCode":429,"subStatusCode":3200,"retryAfterMilliseconds":%,"requestCharge":0}]`

func TestThrottled_WaitsAtMostTwoSeconds(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, response := range map[string]func(retryAfter string) *scripted{
		"request": func(retryAfter string) *scripted {
			return &scripted{status: http.StatusTooManyRequests,
				header: map[string]string{"x-ms-retry-after-ms": retryAfter}}
		},
		"operation of a batch": func(retryAfter string) *scripted {
			return &scripted{status: http.StatusMultiStatus, body: strings.ReplaceAll(throttledBatch, "%", retryAfter)}
		},
	} {
		for _, tt := range []struct {
			retryAfter string
			want       time.Duration // Error.RetryAfter
			requests   int64
		}{
			{"7000", 7 * time.Second, 1},
			{"900", 900 * time.Millisecond, 3},
		} {
			t.Run(name+", retry after "+tt.retryAfter, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := response(tt.retryAfter)
					account := s.open(t)
					posts, err := account.Container("blog", "posts")
					if err != nil {
						t.Fatal(err)
					}
					var b Batch
					b.Create([]byte(`{"id":"a"}`))
					b.Create([]byte(`{"id":"b"}`))
					ctx, began := account.Begin(t.Context(), "likePost"), time.Now()
					_, err = posts.Batch(ctx, "p", &b)
					if e := ErrorOf(err); e == nil || e.Status != http.StatusTooManyRequests ||
						e.RetryAfter != tt.want {
						t.Errorf("got %+v, want a 429 with retry-after %s", e, tt.want)
					}
					if took := time.Since(began); took > defaultRetryBudget {
						t.Errorf("took %s", took)
					}
					if n := s.requests.Load(); n != tt.requests {
						t.Errorf("got %d requests, want %d", n, tt.requests)
					}
				})
			})
		}
	}
}

// TestThrottled_EachTryIsDated: the service refuses a request that is dated more than 15 minutes ago.
func TestThrottled_EachTryIsDated(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it throttles all requests")
		s := &scripted{status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": "60000"}}
		ctx, cancel := context.WithCancel(t.Context())
		const tries = 20
		s.before = func(n int64) {
			if date, err := http.ParseTime(s.date.Load().(string)); err != nil || time.Since(date) >= time.Minute {
				t.Errorf("try %d is dated %v, and it is %v: %v", n, date, time.Now(), err)
			}
			if n == tries {
				cancel()
			}
		}
		posts, err := s.open(t).Background().Container("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := posts.Read(ctx, Key{"a", "a"}); err == nil || s.requests.Load() != tries {
			t.Errorf("%d tries: %v", s.requests.Load(), err)
		}
	})
}

// TestUnavailable_ReadIsRepeatedOnce: without regions by this package, with one by azcosmos.
func TestUnavailable_ReadIsRepeatedOnce(t *testing.T) {
	read := func(ctx context.Context, posts *Container) error {
		_, err := posts.Read(ctx, Key{"a", "a"})
		return err
	}
	withoutRetries := func(ctx context.Context, posts *Container) error { return read(WithoutRetries(ctx), posts) }
	patch := func(ctx context.Context, posts *Container) error {
		var p Patch
		p.Increment("/n", 1)
		_, err := posts.Patch(ctx, Key{"a", "a"}, p)
		return err
	}
	for name, tt := range map[string]struct {
		regions    []string
		do         func(context.Context, *Container) error
		background bool
		refused    int64 // requests
		want       int64
	}{
		"once":            {do: read, refused: 1, want: 2},
		"always":          {do: read, refused: 100, want: 2},
		"one region":      {regions: []string{"West US"}, do: read, refused: 100, want: 2},
		"without retries": {do: withoutRetries, refused: 100, want: 1},
		"background":      {do: read, background: true, refused: 100, want: 1},
		"write":           {do: patch, refused: 100, want: 2}, // the second is for the session token
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				cosmostest.NeedsEngine(t, "it refuses all requests")
				s := &scripted{body: `{"id":"a"}`}
				s.before = func(n int64) {
					if s.status = http.StatusOK; n <= tt.refused {
						s.status = http.StatusServiceUnavailable
					}
				}
				account := s.open(t, tt.regions...)
				if tt.background {
					account = account.Background()
				}
				posts, err := account.Container("blog", "posts")
				if err != nil {
					t.Fatal(err)
				}
				err = tt.do(t.Context(), posts)
				if (err != nil) != (tt.refused > 1) || s.requests.Load() != tt.want {
					t.Errorf("%d requests: %v", s.requests.Load(), err)
				}
			})
		})
	}
}

// The requests of an operation wait 2 s in all, not each.
func TestThrottled_BudgetIsSharedByAnOperation(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it throttles all requests")
		s := &scripted{status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": "900"}}
		account := s.open(t)
		posts, err := account.Container("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		ctx, began := account.Begin(t.Context(), "onePost"), time.Now()
		for range 5 {
			if _, err := posts.Read(ctx, Key{"a", "a"}); !HasStatus(err, http.StatusTooManyRequests) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > defaultRetryBudget {
			t.Errorf("took %s", took)
		}
	})
}

// giveUp sends a batch that is throttled until it fails, and returns how long that took.
func giveUp(t *testing.T, ctx context.Context, account *Account) time.Duration {
	t.Helper()
	posts, err := account.Container("blog", "posts")
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Create([]byte(`{"id":"a"}`))
	b.Create([]byte(`{"id":"b"}`))
	began := time.Now()
	if _, err = posts.Batch(ctx, "p", &b); !HasStatus(err, http.StatusTooManyRequests) {
		t.Error(err)
	}
	return time.Since(began)
}

// A request with a short retry-after is repeated for as long as a throttled batch.
func TestThrottled_ShortRetryAfter(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, s := range map[string]*scripted{
		"request": {status: http.StatusTooManyRequests,
			header: map[string]string{"x-ms-retry-after-ms": "5"}},
		"operation of a batch": {status: http.StatusMultiStatus, body: strings.ReplaceAll(throttledBatch, "%", "5")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				account := s.open(t)
				if took := giveUp(t, account.Begin(t.Context(), "likePost"), account); took > defaultRetryBudget ||
					took < defaultRetryBudget-2*lastPause {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

// A write that conflicts with another after it was throttled is repeated, too.
func TestThrottled_ThenContended(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{status: http.StatusMultiStatus}
		s.before = func(n int64) {
			switch {
			case n <= 8:
				s.body = strings.ReplaceAll(throttledBatch, "%", "5")
			case n == 9:
				s.body = `[{"statusCode":449},{"statusCode":424}]`
			default:
				s.status, s.body = http.StatusOK, `[{"statusCode":201},{"statusCode":201}]`
			}
		}
		account := s.open(t)
		posts, err := account.Container("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		b := Batch{NoItems: true}
		b.Create([]byte(`{"id":"a"}`))
		b.Create([]byte(`{"id":"b"}`))
		if _, err = posts.Batch(account.Begin(t.Context(), "likePost"), "p", &b); err != nil {
			t.Error(err)
		}
	})
}

// An operation waits for 2 s in all, whatever the reasons.
func TestThrottled_BudgetIsSharedByAllWaits(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, then := range map[string]*scripted{
		"conflicting write": {status: statusRetryWith},
		"conflicting batch": {status: http.StatusMultiStatus, body: `[{"statusCode":449}]`},
		"replica behind": {status: http.StatusNotFound,
			header: map[string]string{substatusHeader: session.Substatus}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{status: http.StatusTooManyRequests,
					header: map[string]string{"x-ms-retry-after-ms": "900"}}
				s.before = func(n int64) {
					if n == 3 { // after 1.8 s
						s.status, s.header, s.body = then.status, then.header, then.body
					}
				}
				account := s.open(t)
				posts, err := account.Container("blog", "posts")
				if err != nil {
					t.Fatal(err)
				}
				account.sessions.known.Learn(session.TargetOf(posts.path, "", ""), nil, "0:-1#7", "")
				var b Batch
				b.Create([]byte(`{"id":"a"}`))
				ctx, began := WithSession(account.Begin(t.Context(), "likePost"), nil), time.Now()
				_, err = posts.Batch(ctx, "p", &b)
				if e := ErrorOf(err); e == nil || e.Status != statusRetryWith && e.Substatus != session.Substatus {
					t.Errorf("got %+v, want 449 or 404/1002", e)
				}
				if took := time.Since(began); took > defaultRetryBudget {
					t.Errorf("took %s", took)
				}
				if n := s.requests.Load(); n < 5 {
					t.Errorf("got %d requests: nothing was repeated in the remaining time", n)
				}
			})
		})
	}
}

// A request outside of an operation has the retry budget of an operation.
func TestThrottled_WithoutPattern(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, s := range map[string]*scripted{
		"request": {status: http.StatusTooManyRequests,
			header: map[string]string{"x-ms-retry-after-ms": "900"}},
		"operation of a batch": {status: http.StatusMultiStatus, body: strings.ReplaceAll(throttledBatch, "%", "900")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if took := giveUp(t, ctx, s.open(t)); took > defaultRetryBudget {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestPartitionFull_NotRetried(t *testing.T) {
	for name, s := range map[string]*scripted{
		"request": {status: http.StatusForbidden,
			header: map[string]string{"x-ms-substatus": "1014"}},
		"operation of a batch": {status: http.StatusMultiStatus,
			body: `[{"statusCode":403,"subStatusCode":1014,"requestCharge":0}]`},
		"operation of a batch, with status 200": {status: http.StatusOK,
			body: `[{"statusCode":403,"subStatusCode":1014,"requestCharge":0}]`},
	} {
		t.Run(name, func(t *testing.T) {
			account := s.open(t)
			posts, err := account.Container("blog", "posts")
			if err != nil {
				t.Fatal(err)
			}
			var b Batch
			b.Create([]byte(`{"id":"a"}`))
			_, err = posts.Batch(account.Begin(t.Context(), "likePost"), "p", &b)
			if e := ErrorOf(err); e == nil || !e.PartitionFull() || e.Unavailable() {
				t.Errorf("%+v: got full %t, unavailable %t, want true, false", e, e.PartitionFull(), e.Unavailable())
			}
			if n := s.requests.Load(); n != 1 {
				t.Errorf("got %d requests, want 1", n)
			}
			if n := testutil.ToFloat64(account.meter.refusals.WithLabelValues("403/1014")); n != 1 {
				t.Errorf("got byline_cosmos_refusals_total %v, want 1", n)
			}
		})
	}
}

// A write that conflicts with a concurrent write of the same item (449) is repeated a few times: also in the
// background, where a failed write repeats a page of changes.
func TestContendedWrite_Retried(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, of := range map[string]func(*Account) *Account{
		"request":    func(a *Account) *Account { return a },
		"background": (*Account).Background,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{status: statusRetryWith}
				account := of(s.open(t))
				posts, err := account.Container("blog", "posts")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := posts.Create(account.Begin(t.Context(), "likePost"), "a", []byte(`{"id":"a"}`)); !HasStatus(err,
					statusRetryWith) {
					t.Error(err)
				}
				if n := s.requests.Load(); n != 7 {
					t.Errorf("got %d requests, want 7", n)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
