package store

import (
	"context"
	"encoding/json"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// cached is cosmos.Get.
func cached[T any](
	ctx context.Context, c *cosmos.Container, partition, what string, read func(context.Context) (T, error),
) (T, error) {
	v, err := cosmos.Get(ctx, c, partition, what, read)
	return v, stored.Error("read", err)
}

// countItems returns the result of a query SELECT VALUE COUNT(1).
func countItems(ctx context.Context, op string, c *cosmos.Container, q cosmos.Query) (n int, err error) {
	for page, err := range c.Query(ctx, q) {
		if err != nil {
			return 0, stored.Error(op, err)
		}
		for _, raw := range page {
			part := 0
			if err := json.Unmarshal(raw, &part); err != nil {
				return 0, blog.Malformed(op, "count", err)
			}
			n += part
		}
	}
	return n, nil
}

// cachedMany is cosmos.GetMany.
func cachedMany[T any](ctx context.Context, c *cosmos.Container, partitions []string, what string, read func(_ context.Context, partitions []string) ([]T, error)) ([]T, error) {
	all, err := cosmos.GetMany(ctx, c, partitions, what, read)
	return all, stored.Error("read", err)
}
