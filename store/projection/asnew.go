package projection

import (
	"context"
	"encoding/json"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

// outdated returns the posts whose summaries are missing or older. It reads the summaries only of
// changes that may be repeated, in one request for each partition key range: a write that its
// condition refuses costs a request for each.
func outdated(ctx context.Context, c *cosmos.Container, posts []*blog.Post, partition func(*blog.Post) string) ([]*blog.Post, error) {
	if len(posts) < 2 || !changefeed.Repeated(ctx) || changefeed.Replaying(ctx) {
		return posts, nil
	}
	keys := make([]cosmos.Key, len(posts))
	for i, p := range posts {
		keys[i] = blog.Key(partition(p), p.ID)
	}
	items, err := c.ReadMany(ctx, keys)
	if err != nil {
		return nil, blog.CosmosError("read summaries", err)
	}
	revisions := map[string]int64{}
	for _, raw := range items {
		var item struct {
			ID       string
			Revision int64
		}
		if json.Unmarshal(raw, &item) == nil { // a malformed one is written
			revisions[item.ID] = item.Revision
		}
	}
	var left []*blog.Post
	for _, p := range posts {
		if revisions[p.ID] < p.Revision {
			left = append(left, p)
		}
	}
	return left, nil
}
