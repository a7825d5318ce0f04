// Package session holds session tokens: those of Cosmos DB, of which State keeps the newest of each partition key
// range, and those of Byline, by which any instance reads the writes of a client. It parses, merges, encodes and
// authenticates them. To send and to record them, and to wait for replicas, is left to package cosmos.
//
// State and Session are safe for concurrent use.
package session
