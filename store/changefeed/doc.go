// Package changefeed follows the change feed of an Azure Cosmos DB container, as
// Microsoft's change feed processor does for other languages, on azcosmos alone.
// It knows nothing of what the items mean.
//
// # Processor
//
// A Processor hands every change to a Handler, at least once and in order within
// a feed range; processors of one name share the ranges among them. What has been
// done is remembered in lease items of another container (partition key /id), one
// for each range, so that a process that starts later goes on where the last one
// stopped. A lease is created if it does not exist, and changed or removed only by
// a conditional write on its ETag. Every change of owner raises its generation.
//
//   - Processes balance the leases: they take those that are free or have expired,
//     or else steal one from who has too many. A lease has expired if it has not
//     changed for its owner's Options.Expiry, by the clock of who wants it.
//   - An owner that finds its lease changed by another stops working on the range,
//     and so does one that could not renew it in time. Its handler's context ends.
//     A process that was paused and wakes up can save nothing.
//   - When the container splits a feed range, its lease is replaced by one for each
//     part, which goes on where the whole was; when it merges ranges, theirs are
//     replaced by one that goes on where the part was that had come least far.
//   - What fails is tried again, with backoff, until it succeeds; nothing is
//     skipped. A handler that meets an item it can never handle must set it aside.
//     When Cosmos DB is too busy (429), the range pauses as long as it asks for.
//
// Changes come again after a failure, after a crash (a page, or what was handled of
// full pages since the last checkpoint, at least one in 50 ms), when a lease changes
// hands, and after a merge.
//
// Status tells how far the processors of a name have come, and Reset sends them
// back to the beginning of the feed, from any process.
//
// # Tail
//
// A Tail hands every change from now on to its Handler, in every process that
// runs one, without leases or memory.
//
// # Lifecycle
//
// New and NewTail do no I/O and start nothing; Run blocks until its context ends
// and waits for every goroutine it started. Handlers are called for several feed
// ranges at once, and for one range one page at a time.
package changefeed
