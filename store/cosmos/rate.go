package cosmos

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/time/rate"
)

// Rate limits the request units per second of background work. A charge is known when the response
// has come: a request waits until the earlier ones are paid for. Nil is no limit.
type Rate struct{ units *rate.Limiter } // a unit is a hundredth of an RU, as charges are given

const unitsPerRU = 100

// NewRate returns a Rate of so many request units per second, which must be at least 1. What was not
// used for a second is lost.
func NewRate(ru float64) *Rate {
	return &Rate{rate.NewLimiter(rate.Limit(ru*unitsPerRU), int(ru*unitsPerRU))}
}

// wait waits until what was charged is paid.
func (r *Rate) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		debt := -r.units.Tokens()
		if debt <= 0 {
			break
		}
		if !sleep(ctx, max(time.Millisecond, time.Duration(debt/float64(r.units.Limit())*float64(time.Second)))) {
			break
		}
	}
	return ctx.Err()
}

// charge makes a debt of a charge.
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

// WithRate returns a context whose requests of Account.Background wait for the rate, and count in it.
func WithRate(ctx context.Context, r *Rate) context.Context {
	return context.WithValue(ctx, rateKey{}, rated{r, true})
}

// WithoutRate returns a context whose requests do not wait for the rate of ctx. They count in it: for
// what must not be late, such as the renewal of a claim.
func WithoutRate(ctx context.Context) context.Context {
	r, _ := ctx.Value(rateKey{}).(rated)
	return context.WithValue(ctx, rateKey{}, rated{r.rate, false})
}

// limitRate is a policy, per call and within meterCalls, for background work. Per try, the wait
// would be part of the time for the try.
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
