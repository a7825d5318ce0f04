// Package store is the blog on Azure Cosmos DB: users, posts, comments and likes in the V3 containers of Microsoft's
// article "How to model and partition data on Azure Cosmos DB using a real-world example".
//
// A read is a point read, a query of one partition or a bounded ReadMany; a write is one operation or a transactional
// batch in one partition. The change feed carries changes to the views (package projection) and to every instance,
// where the tails that Run starts invalidate cached items and feed the streams of package live.
//
// New does no I/O. Call Provision, which creates missing containers, first. Run blocks until its context ends. A Store
// is safe for concurrent use, and any number of processes can share an account. Every error is a *blog.Error.
package store
