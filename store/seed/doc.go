// Package seed generates and loads blogs of any size: the demo blog, and the data set of the article.
//
// A Blog is computed, not stored: every user and post is derived from the blog's seed and its own number, so
// that processes can share a blog, and an interrupted load can resume. Each worker holds at most one user's
// posts in memory.
//
// Load blocks until it is done and waits for every goroutine it started.
package seed
