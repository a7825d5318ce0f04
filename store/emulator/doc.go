// Package emulator is an embedded, durable engine that speaks the REST protocol of Azure Cosmos DB
// for NoSQL, on Pebble. docs/emulator.md lists what it supports.
//
// An Engine is both a policy.Transporter (Do) and an http.Handler (ServeHTTP). It refuses what it
// does not support. Request charges are estimates (see package charge).
//
// Each write request is one Pebble batch with one LSN, evaluated under the mutex of its physical
// partition and acknowledged when the write-ahead log is synced. Reads, too, wait until what they
// return is durable. After a write that cannot be made durable, the engine refuses writes with 503
// until it is opened again.
//
// A request comes in at handler.go and is dispatched in route.go. A write of items (item.go, patch.go,
// batch.go, bulk.go) is a transaction: transaction.go applies it, indexwriter.go maintains the indexes,
// durability.go waits for the sync. A query (query.go) is parsed by package sql; queryrun.go executes one
// page of it, by the plan that plan.go chooses from the indexes of index.go: scan.go and lookup.go find the
// items, sorted.go and aggregation.go process those that need more than one pass. Keys are in keys.go.
//
// An Engine is safe for concurrent use. Open starts the background work (purge of expired items);
// Close stops it and waits for requests in progress. One process at a time can open a data
// directory.
package emulator
