// Package seed generates and loads blogs of any size: the demo blog, and the data set of the
// article.
//
// A Blog is data that is computed, not kept: every user and every post is derived from
// the blog's seed and its own number, so that many can work on one blog, and loading
// resumes after an interruption. Nothing holds more than one user's posts for
// each worker.
//
// Load blocks until it is done and waits for every goroutine it started.
package seed
