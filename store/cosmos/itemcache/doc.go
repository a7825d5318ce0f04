// Package itemcache caches items, and pages of lists, until their partition changes: by a write of this process, which
// invalidates at once, or by a write of another, which the change feed shows within a poll. So callers who write
// through this process read their own writes. A session that is newer than a cached value bypasses it.
//
// A container is cached while its Tail runs. A ReadSet says for how long a response made of cached values may be
// returned. To read values, and to share reads, is left to package cosmos. Everything is safe for concurrent use.
package itemcache
