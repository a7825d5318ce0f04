// Package changefeed reads the change feed of an Azure Cosmos DB container with azcosmos alone, as
// Microsoft's change feed processor does in other languages. What the items mean is up to Handlers.
//
// A Processor delivers every change to a Handler at least once, in order within a feed range.
// Processors of one name divide the ranges through lease items in another container (partition key
// /id). A Tail delivers every change from now on, in every process that runs one, without leases.
// Status reports progress; Reset replays the feed from the beginning; BeginLoad lets processors start
// after a bulk load.
//
// New and NewTail do no I/O. Run blocks until its context ends and waits for the goroutines it
// started. Handlers run concurrently for different ranges, one page at a time for each.
package changefeed
