package stored

import (
	"context"

	"byline/store/blog"
	"byline/store/cosmos"
)

// ReadPosts is ReadAll for posts.
func ReadPosts(
	ctx context.Context, c *cosmos.Container, ids []string, decode func(string, []byte) (*blog.Post, error),
) ([]*blog.Post, error) {
	return ReadAll(ctx, "read posts", c, ids,
		func(id string) cosmos.Key {
			return Key(id, id)
		},
		decode, func(p *blog.Post) string { return p.ID })
}

// ReadUser reads a user. It returns nil if it does not exist.
func ReadUser(ctx context.Context, op string, c *cosmos.Container, id string) (*blog.User, error) {
	item, err := ReadUserItem(ctx, op, c, id)
	if item == nil {
		return nil, err
	}
	return &item.User, nil
}

// ReadUserItem is ReadUser with the properties that only the item has.
func ReadUserItem(ctx context.Context, op string, c *cosmos.Container, id string) (*blog.UserItem, error) {
	if !blog.ValidID(id) {
		return nil, nil
	}
	raw, err := Read(ctx, op, c, Key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	item, ok, err := blog.Decode[blog.UserItem](op, blog.TypeUser, raw)
	if !ok {
		return nil, err
	}
	return &item, nil
}

// ReadUsers is ReadAll for users.
func ReadUsers(
	ctx context.Context, c *cosmos.Container, ids []string, decode func(string, []byte) (*blog.User, error),
) ([]*blog.User, error) {
	return ReadAll(ctx, "read users", c, ids,
		func(id string) cosmos.Key {
			return Key(id, id)
		},
		decode, func(u *blog.User) string { return u.UserID })
}

// Key returns the key of an item.
func Key(partition, id string) cosmos.Key { return cosmos.Key{Partition: partition, ID: id} }

// ETagOf returns the ETag of an item as read.
func ETagOf(raw []byte) cosmos.ETag {
	var item struct {
		ETag cosmos.ETag `json:"_etag"`
	}
	_ = blog.Unmarshal(raw, &item, blog.Lenient) // every item has an ETag
	return item.ETag
}

// Read is a point read. It returns nil if the item does not exist.
func Read(ctx context.Context, op string, c *cosmos.Container, k cosmos.Key) ([]byte, error) {
	item, err := c.Read(ctx, k)
	return item.Value, Error(op, err)
}

// ReadAll reads items in one request and returns them in the order of ids, nil for those that
// do not exist. Repeated ids are read once.
func ReadAll[T any](ctx context.Context, op string, c *cosmos.Container, ids []string,
	identity func(string) cosmos.Key, decode func(string, []byte) (*T, error), idOf func(*T) string) ([]*T, error) {
	found := make(map[string]*T, len(ids))
	keys := make([]cosmos.Key, 0, len(ids))
	for _, id := range ids {
		if _, twice := found[id]; !twice && blog.ValidID(id) {
			found[id] = nil
			keys = append(keys, identity(id))
		}
	}
	items, err := c.ReadMany(ctx, keys)
	if err != nil {
		return nil, Error(op, err)
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
