// Package seed fills a store with a small demo blog: 25 users, 250 posts, and the
// comments and likes they get. It writes through the store's own operations, as
// users would, only with dates of its own.
//
// The blog is the same every time. Every write has an idempotency key, so that
// loading goes on where an interrupted one stopped. Load blocks until it is done
// and waits for every goroutine it started.
package seed
