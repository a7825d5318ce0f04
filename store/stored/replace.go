package stored

import (
	"context"

	"byline/internal/itemjson"
	"byline/store/cosmos"
)

// Replace replaces an item, as read, by another with its unknown properties: see itemjson.EncodeOver. It fails with 412
// if the item has changed since.
func Replace(ctx context.Context, c *cosmos.Container, k cosmos.Key, have cosmos.Item, item any) error {
	raw, err := itemjson.EncodeOver(item, have.Value)
	if err != nil {
		return err
	}
	_, err = c.Replace(ctx, k, raw, have.ETag)
	return err
}
