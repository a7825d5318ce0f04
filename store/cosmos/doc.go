// Package cosmos is Azure Cosmos DB as this program uses it: azcosmos with session tokens, signed
// sessions, ambiguous writes, retries within a budget, regions, the account's time, request charges,
// and an item cache. The meaning of errors and items is left to the caller.
//
// Everything is safe for concurrent use, a Batch and a Patch excepted. Open does no I/O and
// starts nothing. A container is cached while its Tail runs.
package cosmos
