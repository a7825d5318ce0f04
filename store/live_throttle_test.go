package store_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// The first subscriber while the change feed is throttled gets Throttled with RetryAfter once the retry
// budget is used up.
func TestStreams_FirstWhileThrottled(t *testing.T) {
	for name, cacheBytes := range map[string]int{"with a cache": 1 << 20, "without a cache": 0} {
		for _, retryAfter := range []time.Duration{300 * time.Millisecond, time.Second, 7 * time.Second} {
			t.Run(name+", retry after "+retryAfter.String(), func(t *testing.T) {
				cosmostest.Run(t, func(t *testing.T) {
					cosmostest.NeedsEngine(t, "it injects throttling")
					account := cosmostest.Open(t, emulator.Options{})
					a := newCachedStore(t, account, cacheBytes)
					storetest.Pass(45 * time.Second) // the cache is not up to date
					account.Inject(func(o faulttest.Operation) faulttest.Response {
						if o.Kind != faulttest.ChangeFeed {
							return faulttest.Response{}
						}
						return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}
					})
					for range 3 {
						began := time.Now()
						s, err := a.PublishedPosts(t.Context())
						if err == nil {
							s.Close()
						}
						if e := (*blog.Error)(nil); !errors.As(err, &e) || e.Code != blog.Throttled ||
							e.RetryAfter != retryAfter {
							t.Errorf("got %v, want throttled, retry after %v", err, retryAfter)
						}
						if took := time.Since(began); took > 2*time.Second+10*time.Millisecond {
							t.Errorf("took %v, want at most 2 s", took)
						}
					}
					account.Inject(nil)
					testkit.Until(t, func() error {
						s, err := a.PublishedPosts(t.Context())
						if err == nil {
							s.Close()
						}
						return err
					})
				})
			})
		}
	}
}
