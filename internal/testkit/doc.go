// Package testkit is what the tests of most packages need: Main runs the tests of a package; Until, WaitFor and Receive
// wait for what has no event, and no other package polls; Heavy, Pick and Long say how long a test may take. PipeServer
// connects clients and servers in memory, so that tests with both can run in a synctest bubble, where minutes of
// timeouts pass at once. Tests register the keys and tokens that they use with Secret and log to Logger; Main and Exit
// fail a run that has leaked one of them.
//
// It is for tests only, and safe for concurrent use.
package testkit
