// Package emulator is an embedded, durable engine that speaks the REST protocol of Azure Cosmos DB
// for NoSQL, on Pebble. docs/emulator.md lists what it supports.
//
// An Engine is both a policy.Transporter (Do) and an http.Handler (ServeHTTP). It refuses what it
// does not support. Request charges are estimates (see charge.go).
//
// Each write request is one Pebble batch with one LSN, evaluated under the mutex of its physical
// partition and acknowledged when the write-ahead log is synced. Reads, too, wait until what they
// return is durable. After a write that cannot be made durable, the engine refuses writes with 503
// until it is opened again.
//
// An Engine is safe for concurrent use. Open starts the background work (purge of expired items);
// Close stops it and waits for requests in progress. One process at a time can open a data
// directory.
package emulator
