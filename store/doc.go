// Package store is the blog on Azure Cosmos DB: users, posts, comments and likes in the V3
// containers of Microsoft's article "How to model and partition data on Azure Cosmos DB using a
// real-world example".
//
// Reads are point reads, one-partition queries or a bounded ReadMany; writes are single
// operations or transactional batches in one partition. Package projection, which Run starts,
// maintains the denormalized views. Package live streams changes made by any process, package deletion knows what
// reads hide.
//
// A write such as LikePost changes the posts container alone, and returns. The change feed carries the
// change to the views (projectPosts in package projection) and to every instance: there the tails that Run
// starts invalidate the item cache of package cosmos, and send events to the streams of package live.
//
// UpdateUser changes the user's item, and for a new username the reservations (package username). The change feed then
// makes projectUsers enqueue a job (rename in package projection), which sets the byline on the user's posts, comments
// and likes. The change feed carries these writes to the summaries and the feed, like any others.
//
// New does no I/O. Call Provision, which creates missing containers, before everything else.
// Run blocks until its context ends. A Store is safe for concurrent use, and any number of
// processes can share an account. Every error that leaves the package is a *blog.Error.
package store
