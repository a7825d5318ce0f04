// Package e2e has the tests of the whole process: over HTTP and WebSocket, with clients and
// browsers, and of processes that are killed, paused and told to stop; and the benchmarks of a
// whole server. It has no code of its own.
package e2e
