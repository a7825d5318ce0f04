// Package e2e has the tests of the whole process, over HTTP and WebSocket, with clients and
// browsers, and with processes that are killed, paused and stopped, and the benchmarks of a whole
// server. It has no code but tests.
package e2e
