package changefeed

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// backoff computes the wait between attempts: 100 ms, doubling up to 10 s, with jitter.
type backoff struct{ tries int }

func (b *backoff) reset() { b.tries = 0 }

func (b *backoff) next() time.Duration {
	d := min(100*time.Millisecond<<b.tries, 10*time.Second)
	if b.tries < 10 {
		b.tries++
	}
	return d/2 + rand.N(d/2+1)
}

// after returns the wait after an error. After a 429 it is the retry-after interval, and later waits
// do not grow.
func (b *backoff) after(err error) (d time.Duration, throttled bool) {
	if d, throttled = retryAfter(err); throttled {
		return d + rand.N(d/4+1), true
	}
	return b.next(), false
}

// retryAfter returns the retry-after interval of a 429 that err is or wraps; 100 ms if it has none.
func retryAfter(err error) (time.Duration, bool) {
	if r, ok := err.(*azcore.ResponseError); ok && r.StatusCode == http.StatusTooManyRequests {
		d := 100 * time.Millisecond
		if r.RawResponse != nil {
			if asked, err := time.ParseDuration(r.RawResponse.Header.Get("x-ms-retry-after-ms") + "ms"); err == nil &&
				asked >= 0 {
				d = asked
			}
		}
		return d, true
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range several.Unwrap() {
			if d, ok := retryAfter(e); ok {
				return d, true
			}
		}
		return 0, false
	}
	if err = errors.Unwrap(err); err != nil {
		return retryAfter(err)
	}
	return 0, false
}
