// Package store is the blog on Azure Cosmos DB: users, posts, comments and likes
// in the V3 containers of Microsoft's article "How to model and partition data
// on Azure Cosmos DB using a real-world example".
//
// Reads are point reads, one-partition queries or a bounded ReadMany; writes are
// single operations or transactional batches in one partition. The copies that
// make reads cheap (short forms of posts, names on posts, comments and likes)
// are kept true by Run, which follows the change feed.
//
// The package talks to Cosmos DB through package cosmos alone and knows nothing of
// GraphQL or of the embedded engine. It keeps no state but the streams that are being
// read: a Store is safe for concurrent use, and any number of processes may share an
// account. Streams tell of what happens, in any of them.
//
// Lifecycle: New does no I/O; Provision creates what is missing and comes before
// everything else; Run blocks until its context ends. Every error that leaves
// the package is an *Error.
package store
