package cosmos

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/time/rate"

	"byline/store/internal/sleep"
)

// Rate limits the request units per second of background work. The charge of a request is known only
// from its response, so the next requests wait until it is paid off. Nil is no limit.
type Rate struct{ units *rate.Limiter } // a unit is 0.01 RU, the precision of charges

const unitsPerRU = 100

// NewRate returns a Rate of ru request units per second, at least 1. Unused units expire after a second.
func NewRate(ru float64) *Rate {
	return &Rate{rate.NewLimiter(rate.Limit(ru*unitsPerRU), int(ru*unitsPerRU))}
}

// wait waits until all charges are paid off.
func (r *Rate) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		debt := -r.units.Tokens()
		if debt <= 0 {
			break
		}
		if !sleep.For(ctx, max(time.Millisecond, time.Duration(debt/float64(r.units.Limit())*float64(time.Second)))) {
			break
		}
	}
	return ctx.Err()
}

// charge adds a charge to the debt.
func (r *Rate) charge(ru float64) {
	now := time.Now()
	for units := int(math.Ceil(ru * unitsPerRU)); units > 0; {
		n := min(units, r.units.Burst())
		r.units.ReserveN(now, n)
		units -= n
	}
}

// rated is the Rate of a context.
type rated struct {
	rate  *Rate
	waits bool
}

type rateKey struct{}

// Limit returns a context whose requests of Account.Background wait for the rate, and count towards it.
func (r *Rate) Limit(ctx context.Context) context.Context {
	return context.WithValue(ctx, rateKey{}, rated{r, true})
}

// WithoutRate returns a context whose requests do not wait for the rate of ctx, but count towards it: for
// urgent requests, such as the renewal of a claim.
func WithoutRate(ctx context.Context) context.Context {
	r, _ := ctx.Value(rateKey{}).(rated)
	return context.WithValue(ctx, rateKey{}, rated{r.rate, false})
}

// limitRate is a policy, per call and within meterCalls, for background work. It is not per try: then the
// wait would count against the timeout of the try.
func limitRate(req *policy.Request) (*http.Response, error) {
	r, _ := req.Raw().Context().Value(rateKey{}).(rated)
	if r.rate == nil {
		return req.Next()
	}
	if r.waits {
		if err := r.rate.wait(req.Raw().Context()); err != nil {
			return nil, err
		}
	}
	resp, err := req.Next()
	var o *Operation
	req.OperationValue(&o)
	r.rate.charge(o.RU)
	return resp, err
}
