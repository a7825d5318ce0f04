// Package partitionkey places items in physical partitions: partition keys, simple or hierarchical, their effective
// partition keys, hashed like the service and its SDKs do, and the ranges of these that physical partitions have.
//
// Paths is the definition of a container's partition key. It yields the Key of a request (Parse) or of a document
// (Of). The address of an item, by which it is stored, begins with the effective partition key, so that a physical
// partition is a Range of addresses; the Key follows (AppendPartition), so that a logical partition is the addresses
// with a common prefix. A prefix of a hierarchical key yields a prefix of both.
package partitionkey
