package store

import (
	"context"

	"byline/store/cosmos"
)

// key names an item.
func key(partition, id string) cosmos.Key { return cosmos.Key{Partition: partition, ID: id} }

// cached is cosmos.Get.
func cached[T any](ctx context.Context, c *cosmos.Container, partition, what string, read func(context.Context) (T, error)) (T, error) {
	v, err := cosmos.Get(ctx, c, partition, what, read)
	return v, cosmosError("read", err)
}

// cachedMany is cosmos.GetMany.
func cachedMany[T any](ctx context.Context, c *cosmos.Container, partitions []string, what func(partition string) string, read func(_ context.Context, partitions []string) ([]T, error)) ([]T, error) {
	all, err := cosmos.GetMany(ctx, c, partitions, what, read)
	return all, cosmosError("read", err)
}

// readItem is a point read; nil if there is no such item.
func readItem(ctx context.Context, op string, c *cosmos.Container, k cosmos.Key) ([]byte, error) {
	item, err := c.Read(ctx, k)
	return item.Value, cosmosError(op, err)
}

// readAll reads items by id in one request and returns them in the order of ids,
// nil where there is none. Repeated ids are read once.
func readAll[T any](ctx context.Context, op string, c *cosmos.Container, ids []string,
	identity func(string) cosmos.Key, decode func(string, []byte) (*T, error), idOf func(*T) string) ([]*T, error) {
	found := make(map[string]*T, len(ids))
	keys := make([]cosmos.Key, 0, len(ids))
	for _, id := range ids {
		if _, twice := found[id]; !twice && validID(id) {
			found[id] = nil
			keys = append(keys, identity(id))
		}
	}
	items, err := c.ReadMany(ctx, keys)
	if err != nil {
		return nil, cosmosError(op, err)
	}
	for _, raw := range items {
		v, err := decode(op, raw)
		if err != nil {
			return nil, err
		}
		if v != nil {
			found[idOf(v)] = v
		}
	}
	result := make([]*T, len(ids))
	for i, id := range ids {
		result[i] = found[id]
	}
	return result, nil
}
