package blog

import "fmt"

// The feed container holds short forms of the newest posts in one partition, or in
// each of several.
const FeedServed = 100 // what readers see

// FeedKept is how many posts the feed keeps: more than it serves, so that deletes leave
// no gap.
const FeedKept = 150

// MaxFeedPartitions is over how many partitions the feed can be spread: whoever
// publishes a post waits for a write in each of them.
const MaxFeedPartitions = 64

// spreadPrefix begins the synthetic keys of a feed that is spread.
const FeedPartitionPrefix = TypePost + "."

// FeedPartitionKeys returns the partition keys of a feed of n partitions: the type that
// everything in it has or, if it is spread, that type and a suffix.
func FeedPartitionKeys(n int) []string {
	if n <= 1 {
		return []string{TypePost}
	}
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(FeedPartitionPrefix, i)
	}
	return all
}
