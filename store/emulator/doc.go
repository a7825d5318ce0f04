// Package emulator is an embedded, durable engine that speaks the REST protocol
// of Azure Cosmos DB for NoSQL, so that a Cosmos SDK can use it as it would use
// an account. It keeps its data in one directory, on Pebble.
//
// An Engine is an azcore policy.Transporter (Do) and an http.Handler
// (ServeHTTP); both are the same handler. It offers databases, containers,
// throughput offers, partition key ranges, items, patches, transactional
// batches, queries within the subset of its sql package, the latest-version
// change feed, session tokens and time to live. It does not offer stored
// procedures, triggers, user-defined functions, users and permissions, or the
// all-versions change feed. Request charges are estimates (see charge.go).
//
// # Storage
//
// Every request that writes is one Pebble batch with one LSN. It is evaluated
// under the mutex of its physical partition, handed to Pebble in LSN order, and
// acknowledged when the write-ahead log is synced; requests that wait at the
// same time share one sync. Whatever else an answer rests on is synced, too: a
// read, a conflict or a page of the change feed waits for the writes that it saw,
// if they are still on their way to the disk. If a write cannot be made durable,
// it and all later ones are answered with 503 until the engine is opened again;
// reads of what is durable go on. The layout of the keys is described in keys.go.
//
// # Partitions and faults
//
// A container has one or more physical partitions, each with its own LSNs and,
// with Options.RUs, its own budget of request units. Split splits one while
// clients work. Inject makes requests slow or fail, and Options.ReplicaLag makes reads
// see what was, for tests.
//
// # Concurrency and lifecycle
//
// An Engine is safe for concurrent use. Open starts one goroutine, which purges
// expired items; Close stops it, waits for the requests that are under way, and
// answers later ones with 503. One process owns a data directory at a time.
package emulator
