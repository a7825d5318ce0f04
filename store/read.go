package store

import (
	"context"

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

// cachedMany is cosmos.GetMany.
func cachedMany[T any](ctx context.Context, c *cosmos.Container, partitions []string, what string, read func(_ context.Context, partitions []string) ([]T, error)) ([]T, error) {
	all, err := cosmos.GetMany(ctx, c, partitions, what, read)
	return all, stored.Error("read", err)
}
