package changefeed

// ErrLeaseLost is for the tests of package changefeed_test.
var ErrLeaseLost = errLeaseLost
