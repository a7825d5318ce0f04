// Package emulator is an embedded, durable engine that speaks the REST protocol of Azure Cosmos DB
// for NoSQL, on Pebble. README.md lists what it supports.
//
// An Engine is both a policy.Transporter (Do) and an http.Handler (ServeHTTP). It refuses what it
// does not support. Request charges are estimates (see package charge).
//
// Each write request is one Pebble batch with one LSN, evaluated under the mutex of its physical
// partition and acknowledged when the write-ahead log is synced. Reads, too, wait until what they
// return is durable. After a write that cannot be made durable, the engine refuses writes with 503
// until it is opened again.
//
// This package has the protocol and the transactions: a request comes in at handler.go, is dispatched in route.go,
// and a write of items is a transaction (transaction.go). Below it, package query turns SQL into pages of items, by
// the indexes of package index; partitionkey places items in physical partitions, layout is the format of the stored
// data, and storage opens Pebble.
//
// An Engine is safe for concurrent use. Open starts the background work (purge of expired items);
// Close stops it and waits for requests in progress. One process at a time can open a data
// directory.
package emulator
