package changefeed

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// backoff is the wait between tries: from 100 ms, doubling, to 10 s, with jitter.
type backoff struct{ tries int }

func (b *backoff) reset() { b.tries = 0 }

func (b *backoff) next() time.Duration {
	d := min(100*time.Millisecond<<b.tries, 10*time.Second)
	if b.tries < 10 {
		b.tries++
	}
	return d/2 + rand.N(d/2+1)
}

// after is the wait after an error: as long as Cosmos DB asks for if it is too
// busy, which is no failure and does not lengthen later waits.
func (b *backoff) after(err error) (d time.Duration, throttled bool) {
	if d, throttled = pauseOf(err); throttled {
		return d + rand.N(d/4+1), true
	}
	return b.next(), false
}

// pauseOf looks for a 429 anywhere among the errors that err wraps.
func pauseOf(err error) (time.Duration, bool) {
	if r, ok := err.(*azcore.ResponseError); ok && r.StatusCode == http.StatusTooManyRequests {
		d := 100 * time.Millisecond
		if r.RawResponse != nil {
			if asked, err := time.ParseDuration(r.RawResponse.Header.Get("x-ms-retry-after-ms") + "ms"); err == nil && asked >= 0 {
				d = asked
			}
		}
		return d, true
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range several.Unwrap() {
			if d, ok := pauseOf(e); ok {
				return d, true
			}
		}
		return 0, false
	}
	if err = errors.Unwrap(err); err != nil {
		return pauseOf(err)
	}
	return 0, false
}

// sleep waits, and reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
