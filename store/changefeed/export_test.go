package changefeed

import "context"

// ErrLeaseLost is for the tests of package changefeed_test.
var ErrLeaseLost = errLeaseLost

// LeaseOf returns the lease under which a Processor called the handler whose context ctx is. It
// reports false for other contexts.
func LeaseOf(ctx context.Context) (Lease, bool) {
	v, ok := ctx.Value(leaseKey{}).(Lease)
	return v, ok
}
