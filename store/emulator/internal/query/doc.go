// Package query turns SQL into pages of items.
//
// Engine.Parse makes a Request of the headers and the body of a query request. Request.Plan answers a client that
// merges the pages of partitions itself: the rewritten query for each, and how to combine their rows. Request.Over
// runs the query over a list of resources. Request.On starts a page over the items of a Container: it determines the
// ranges that the query covers (scope.go). Query.Open takes a state of the database and chooses how to find the items
// by the container's indexes (plan.go, textscan.go); Query.Page reads them (scan.go, lookup.go, postings.go), sorts
// or aggregates them if the indexes do not deliver the rows (sorted.go, aggregation.go), and stops at a position that
// goes into a continuation token (continuation.go). The engine's part is what surrounds that: locks, session tokens,
// throughput and durability.
//
// An Engine is safe for concurrent use, a Query is not. Between Open and Close a Query holds an iterator, and no lock.
package query
