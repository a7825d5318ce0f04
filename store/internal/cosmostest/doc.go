// Package cosmostest gives each test an account of its own: by default an embedded engine in memory, and with
// BYLINE_TEST_ENDPOINT set a database on that endpoint, so that the same tests compare the engine with a real
// account.
//
// A test opens its clients with the fields of an Account and creates its containers in Account.Database,
// which the package deletes. A test that injects faults into the engine or depends on its options calls
// NeedsEngine. Run runs a test on a fake clock where possible.
//
// It is for tests only, and safe for concurrent use. Open starts nothing that outlives the test.
package cosmostest
