package graph

import (
	"context"
	"time"
)

// rates are the limits on how much anybody may ask for.
type rates struct {
	viewerRequests  *limiter
	addressRequests *limiter
}

func newRates(o Options) rates {
	return rates{newLimiter(o.RequestsPerViewer), newLimiter(o.RequestsPerAddress)}
}

// admitAddress counts a request of the address, before anything of it is read.
func (l rates) admitAddress(ctx context.Context) error {
	key := requestFrom(ctx).address
	if key == "" {
		return nil
	}
	return tooManyUnless(l.addressRequests.take(key, 1), "too many requests from this address; try again later")
}

// admitViewer counts a request of whoever is signed in.
func (l rates) admitViewer(ctx context.Context) error {
	key := requestFrom(ctx).viewer
	if key == "" {
		return nil
	}
	return tooManyUnless(l.viewerRequests.take(key, 1), "too many requests from this user; try again later")
}

// admit is admitAddress and admitViewer, for what has been signed in before.
func (l rates) admit(ctx context.Context) error {
	if err := l.admitAddress(ctx); err != nil {
		return err
	}
	return l.admitViewer(ctx)
}

func tooManyUnless(wait time.Duration, message string) error {
	if wait == 0 {
		return nil
	}
	return &refusal{code: throttled, message: message, retryAfter: wait}
}
