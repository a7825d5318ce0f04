// Package load sends a Byline server the requests of a blog's readers: a few posts most of the
// time, and all others now and then. It measures latencies, and takes CPU and request units from
// the server's metrics.
//
// Run blocks until it is done and waits for every goroutine it started.
package load
