package store

import (
	"context"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/stored"
)

// readPost is Post without the item cache and without the text of a long post, which is
// Truncated.
func (b *base) readPost(ctx context.Context, id string) (*blog.Post, error) {
	const op = "read post"
	if !blog.ValidID(id) {
		return nil, nil
	}
	raw, err := stored.Read(ctx, op, b.posts, stored.Key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	p, err := blog.DecodePost(op, raw)
	return b.visible(p), err
}

// readWhole is Post without the item cache.
func (b *base) readWhole(ctx context.Context, id string) (*blog.Post, error) {
	const op = "read post"
	if !blog.ValidID(id) {
		return nil, nil
	}
	raw, text, err := b.readItems(ctx, op, id)
	if err != nil {
		return nil, err
	}
	item, ok, err := decodePostItem(op, raw)
	if !ok {
		return nil, err
	}
	p, err := b.withText(ctx, op, item, text)
	addDerived(ctx, p)
	return b.visible(p), err
}

// addDerived adds what is computed from posts to the size of the cached value that is read in ctx.
func addDerived(ctx context.Context, posts ...*blog.Post) {
	for _, p := range posts {
		if p != nil {
			itemcache.AddSize(ctx, p.DerivedBytes())
		}
	}
}

// readItems reads a post and, if its id tells that it has one, concurrently its text. Both may be nil.
func (b *base) readItems(ctx context.Context, op, id string) (post, text []byte, err error) {
	var g errgroup.Group
	if blog.IsLongID(id) {
		g.Go(func() (err error) {
			text, err = stored.Read(ctx, op, b.posts, stored.Key(id, blog.TextID))
			return err
		})
	}
	post, err = stored.Read(ctx, op, b.posts, stored.Key(id, id))
	if textErr := g.Wait(); err == nil {
		err = textErr
	}
	return post, text, err
}

// decodePostItem decodes a post. It returns false for a tombstone and for nil.
func decodePostItem(op string, raw []byte) (item blog.PostItem, ok bool, err error) {
	if raw == nil {
		return item, false, nil
	}
	return blog.Decode[blog.PostItem](op, blog.TypePost, raw)
}

// withText returns a post with its text. It reads the text unless it is passed; text may be nil. The post is
// Truncated if its text is lost.
func (b *base) withText(ctx context.Context, op string, item blog.PostItem, text []byte) (*blog.Post, error) {
	p, ok := item.Whole(text)
	if !ok && text == nil {
		text, err := stored.Read(ctx, op, b.posts, stored.Key(item.ID, blog.TextID))
		if err != nil {
			return nil, err
		}
		p, ok = item.Whole(text)
	}
	for range 3 {
		if ok {
			break
		}
		// An edit came between the two reads: read a snapshot.
		r, err := batch(ctx, b.posts, item.ID, func(pair *cosmos.Batch) {
			pair.Read(item.ID)
			pair.Read(blog.TextID)
		})
		if err != nil {
			return nil, stored.Error(op, err)
		}
		switch {
		case r.Failed == 0 && r.Status == http.StatusNotFound:
			return nil, nil
		case r.Failed == 1 && r.Status == http.StatusNotFound: // the text is lost, or the post has become short
			raw, err := stored.Read(ctx, op, b.posts, stored.Key(item.ID, item.ID))
			if err != nil {
				return nil, err
			}
			r.Items = [][]byte{raw, nil}
		case r.Failed >= 0:
			return nil, stored.Error(op, r.Err())
		}
		now, there, err := decodePostItem(op, r.Items[0])
		if !there {
			return nil, err
		}
		if p, ok = now.Whole(r.Items[1]); r.Failed < 0 || now.TextDigest == item.TextDigest {
			break
		}
		item = now
	}
	return p, nil
}

// readWholes is Posts without the item cache.
func (b *base) readWholes(ctx context.Context, ids []string) ([]*blog.Post, error) {
	const op = "read posts"
	if len(ids) == 1 {
		p, err := b.readWhole(ctx, ids[0])
		return []*blog.Post{p}, err
	}
	items, texts := map[string]blog.PostItem{}, map[string][]byte{}
	read := func(keys []cosmos.Key) error {
		all, err := b.posts.ReadMany(ctx, keys)
		if err != nil {
			return stored.Error(op, err)
		}
		for _, raw := range all {
			var e blog.Authored
			if err := blog.Unmarshal(raw, &e, blog.Lenient); err == nil && e.Type == blog.TypeText {
				texts[e.PostID] = raw
				continue
			}
			item, ok, err := decodePostItem(op, raw)
			if err != nil {
				return err
			}
			if ok {
				items[item.ID] = item
			}
		}
		return nil
	}
	var keys, more []cosmos.Key
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if !blog.ValidID(id) {
			continue
		}
		keys = append(keys, stored.Key(id, id))
		if blog.IsLongID(id) {
			keys = append(keys, stored.Key(id, blog.TextID))
		}
	}
	if err := read(keys); err != nil {
		return nil, err
	}
	for id, item := range items {
		if item.TextDigest != "" && texts[id] == nil {
			more = append(more, stored.Key(id, blog.TextID))
		}
	}
	if err := read(more); err != nil {
		return nil, err
	}
	posts := make([]*blog.Post, len(ids))
	for i, id := range ids {
		item, ok := items[id]
		if !ok {
			continue
		}
		var err error
		if posts[i], err = b.withText(ctx, op, item, texts[id]); err != nil {
			return nil, err
		}
		posts[i] = b.visible(posts[i])
	}
	addDerived(ctx, posts...)
	return posts, nil
}
