package projection

import (
	"context"
	"encoding/json"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

// outdated returns the posts whose summaries are missing or older. It reads the summaries only if the
// changes may be repeated: one request for each partition key range then replaces a conditional write,
// which would fail, for each summary.
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
		if json.Unmarshal(raw, &item) == nil { // malformed summaries are overwritten
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
