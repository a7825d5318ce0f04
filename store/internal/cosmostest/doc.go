// Package cosmostest gives each test an account of its own: by default an embedded engine in memory,
// and with BYLINE_TEST_ENDPOINT set a database on that endpoint, so that the same tests judge the
// engine by a real account.
//
// A test opens its clients with the fields of an Account, creates what it needs in
// Account.Database, and leaves removing it to the package. A test that injects faults into the
// engine or depends on its options says so with NeedsEngine. A test that is to run on a fake clock
// where it can is passed to Run.
//
// It is for tests only, and safe for concurrent use. Open starts nothing that outlives the test.
package cosmostest
