package store

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// readItem is a point read; nil if there is no such item.
func readItem(ctx context.Context, op string, c *azcosmos.ContainerClient, pk azcosmos.PartitionKey, id string) ([]byte, error) {
	r, err := c.ReadItem(ctx, pk, id, nil)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, cosmosError(op, err)
	}
	return r.Value, nil
}

// readMany reads items by (id, partition) in one request, in no order; what does
// not exist is left out. A single one is a point read, which costs less. An item may
// come twice, of which the later is as new or newer.
func readMany(ctx context.Context, op string, c *azcosmos.ContainerClient, keys []azcosmos.ItemIdentity) ([][]byte, error) {
	switch len(keys) {
	case 0:
		return nil, nil
	case 1:
		item, err := readItem(ctx, op, c, keys[0].PartitionKey, keys[0].ID)
		if item == nil || err != nil {
			return nil, err
		}
		return [][]byte{item}, nil
	}
	ctx, x := receivingItems(ctx)
	_, err := c.ReadManyItems(ctx, keys, nil)
	if err == nil {
		err = ctx.Err() // azcosmos does not say that it has left some out then
	}
	if err = x.passed(err); err != nil {
		return nil, cosmosError(op, err)
	}
	return x.items, nil
}

// readAll reads items by id in one request and returns them in the order of ids,
// nil where there is none. Repeated ids are read once.
func readAll[T any](ctx context.Context, op string, c *azcosmos.ContainerClient, ids []string,
	identity func(string) azcosmos.ItemIdentity, decode func(string, []byte) (*T, error), idOf func(*T) string) ([]*T, error) {
	found := make(map[string]*T, len(ids))
	keys := make([]azcosmos.ItemIdentity, 0, len(ids))
	for _, id := range ids {
		if _, twice := found[id]; !twice && validID(id) {
			found[id] = nil
			keys = append(keys, identity(id))
		}
	}
	items, err := readMany(ctx, op, c, keys)
	if err != nil {
		return nil, err
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
