// Package cosmos is Azure Cosmos DB as this program uses it: azcosmos with session tokens, retries, regions, request
// charges and an item cache. Open does no I/O. All but a Batch and a Patch are safe for concurrent use.
package cosmos
