// Package load asks a Byline server what the readers of a blog ask: a few posts most of
// the time, and all others now and then. It measures how long answers take, and takes
// from the server's metrics what they cost it.
//
// Run blocks until it is done and waits for every goroutine it started.
package load
