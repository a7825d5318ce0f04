package cosmos

import (
	"bytes"
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

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// scripted is a Cosmos DB that gives all requests about items the same response.
type scripted struct {
	policy.Transporter
	status   int
	header   map[string]string
	body     string
	requests atomic.Int64
	before   func(n int64) // called before the n-th response, which it may change
}

func (s *scripted) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Ms-Documentdb-Partitionkey") == "" {
		return s.Transporter.Do(r)
	}
	n := s.requests.Add(1)
	if s.before != nil {
		s.before(n)
	}
	resp := &http.Response{StatusCode: s.status, Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader([]byte(s.body)))}
	for name, value := range s.header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// open returns an account whose requests about items are answered by the script.
func (s *scripted) open(t *testing.T) *Account {
	o := options(cosmostest.Open(t, emulator.Options{}))
	s.Transporter, o.Transport = o.Transport, s
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
			return &scripted{status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": retryAfter}}
		},
		"operation of a batch": func(retryAfter string) *scripted {
			return &scripted{status: http.StatusMultiStatus, body: strings.ReplaceAll(throttledBatch, "%", retryAfter)}
		},
	} {
		for _, tt := range []struct {
			retryAfter string
			want       time.Duration // that the caller is told
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
					ctx, began := account.Begin(t.Context(), "C4"), time.Now()
					_, err = posts.Batch(ctx, "p", &b)
					if e := ErrorOf(err); e == nil || e.Status != http.StatusTooManyRequests || e.RetryAfter != tt.want {
						t.Errorf("%+v, want a 429 with retry-after %s", e, tt.want)
					}
					if took := time.Since(began); took > retryBudget {
						t.Errorf("took %s", took)
					}
					if n := s.requests.Load(); n != tt.requests {
						t.Errorf("%d requests, want %d", n, tt.requests)
					}
				})
			})
		}
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
		ctx, began := account.Begin(t.Context(), "Q2"), time.Now()
		for range 5 {
			if _, err := posts.Read(ctx, Key{"a", "a"}); !HasStatus(err, http.StatusTooManyRequests) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > retryBudget {
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

// A request that is throttled for short is repeated as long as an operation of a batch is.
func TestThrottled_ForShort(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, s := range map[string]*scripted{
		"request":              {status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": "5"}},
		"operation of a batch": {status: http.StatusMultiStatus, body: strings.ReplaceAll(throttledBatch, "%", "5")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				account := s.open(t)
				if took := giveUp(t, account.Begin(t.Context(), "C4"), account); took > retryBudget || took < retryBudget-2*lastPause {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

// A write that meets another after it was throttled is repeated, too.
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
		if _, err = posts.Batch(account.Begin(t.Context(), "C4"), "p", &b); err != nil {
			t.Error(err)
		}
	})
}

// An operation waits for 2 s in all, whatever for.
func TestThrottled_BudgetIsSharedByAllWaits(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, then := range map[string]*scripted{
		"a write that meets another": {status: statusRetryWith},
		"a batch that meets another": {status: http.StatusMultiStatus, body: `[{"statusCode":449}]`},
		"a replica that is behind":   {status: http.StatusNotFound, header: map[string]string{substatusHeader: substatusReadSession}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": "900"}}
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
				account.sessions.known.learn(posts.path, hashRID(""), "0:-1#7", instanceRanges)
				var b Batch
				b.Create([]byte(`{"id":"a"}`))
				ctx, began := WithSession(account.Begin(t.Context(), "C4"), nil), time.Now()
				_, err = posts.Batch(ctx, "p", &b)
				if e := ErrorOf(err); e == nil || e.Status != statusRetryWith && e.Substatus != substatusReadSession {
					t.Errorf("%+v", e)
				}
				if took := time.Since(began); took > retryBudget {
					t.Errorf("took %s", took)
				}
				if n := s.requests.Load(); n < 5 {
					t.Errorf("%d requests: nothing was repeated in the rest of the time", n)
				}
			})
		})
	}
}

// What is part of no operation waits as long as an operation.
func TestThrottled_WithoutPattern(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	for name, s := range map[string]*scripted{
		"request":              {status: http.StatusTooManyRequests, header: map[string]string{"x-ms-retry-after-ms": "900"}},
		"operation of a batch": {status: http.StatusMultiStatus, body: strings.ReplaceAll(throttledBatch, "%", "900")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if took := giveUp(t, ctx, s.open(t)); took > retryBudget {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

func TestPartitionFull_IsFinal(t *testing.T) {
	for name, s := range map[string]*scripted{
		"request":              {status: http.StatusForbidden, header: map[string]string{"x-ms-substatus": "1014"}},
		"operation of a batch": {status: http.StatusMultiStatus, body: `[{"statusCode":403,"subStatusCode":1014,"requestCharge":0}]`},
	} {
		t.Run(name, func(t *testing.T) {
			account := s.open(t)
			posts, err := account.Container("blog", "posts")
			if err != nil {
				t.Fatal(err)
			}
			var b Batch
			b.Create([]byte(`{"id":"a"}`))
			_, err = posts.Batch(account.Begin(t.Context(), "C4"), "p", &b)
			if e := ErrorOf(err); e == nil || !e.PartitionFull() || e.Unavailable() {
				t.Errorf("%+v: full %t, unavailable %t", e, e.PartitionFull(), e.Unavailable())
			}
			if n := s.requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
			if n := testutil.ToFloat64(account.meter.refusals.WithLabelValues("403/1014")); n != 1 {
				t.Errorf("byline_cosmos_refusals_total counts %v", n)
			}
		})
	}
}

// A write that met another of the same item is sent again, a few times: also in the background, where one
// that fails repeats a page of changes.
func TestMet_IsSentAgain(t *testing.T) {
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
				if err := posts.Create(account.Begin(t.Context(), "C4"), "a", []byte(`{"id":"a"}`)); !HasStatus(err, statusRetryWith) {
					t.Error(err)
				}
				if n := s.requests.Load(); n != 7 {
					t.Errorf("%d requests, want 7", n)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
