package blog

import "fmt"

// FeedServed is how many posts of the feed are read from its summaries, which the feed container has of the newest
// posts, in one partition or in each of several. Older posts are read by the timeline of all posts.
const FeedServed = 100

// FeedKept is how many posts the feed container keeps: more than are served, so that deletes leave no gap.
const FeedKept = 150

// FeedRefill is the number of posts below which the feed is refilled after deletes.
const FeedRefill = 125

// MaxFeedPartitions is the most partitions that the feed can have: publishing a post writes to
// each of them.
const MaxFeedPartitions = 64

// FeedPartitionPrefix is the prefix of the partition keys of a feed with several partitions.
const FeedPartitionPrefix = TypePost + "."

// FeedPartitionKeys returns the partition keys of a feed with n partitions: the items' type,
// with a suffix if n is more than 1.
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
