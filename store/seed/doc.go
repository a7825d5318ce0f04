// Package seed makes up blogs, of any size, and loads them: the small demo blog, and
// the data set of the article that the store implements.
//
// A Blog is data that is computed, not kept: every user and every post is derived from
// the blog's seed and its own number, so that many can work on one blog, and loading
// goes on where an interrupted one stopped. Nothing holds more than one user's posts for
// each worker.
//
// Load blocks until it is done and waits for every goroutine it started.
package seed
