package changefeed

// For the tests of package changefeed_test.
var (
	ErrLeaseLost = errLeaseLost
	LeaseOf      = leaseOf
)
