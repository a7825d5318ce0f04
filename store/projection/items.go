package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// decodeAnyUser decodes a user. For a malformed one it calls skip, and returns a user with only the id.
func (b *base) decodeAnyUser(op string, raw []byte) (*blog.User, error) {
	u, err := blog.DecodeUser(op, raw)
	if err != nil {
		return &blog.User{Byline: blog.Byline{UserID: b.skip(blog.UsersContainer, raw, err)}}, nil
	}
	return u, nil
}

// decodeAnyPost decodes a post. For a malformed one it calls skip, and returns nil.
func (b *base) decodeAnyPost(op string, raw []byte) (*blog.Post, error) {
	p, err := blog.DecodePost(op, raw)
	if err != nil {
		b.skip(blog.PostsContainer, raw, err)
		return nil, nil
	}
	return p, nil
}

// decodeChange decodes the fields that all items of the posts container share. It skips a
// malformed item, which would otherwise stop the projections.
func (b *base) decodeChange(raw []byte) (blog.Authored, bool) {
	var item blog.Authored
	err := blog.Unmarshal(raw, &item, blog.Lenient)
	if err == nil && item.Type != blog.TypePost && item.Type != blog.TypeComment && item.Type != blog.TypeLike &&
		item.Type != blog.TypeText {
		err = fmt.Errorf("unknown type %q", item.Type)
	}
	erased := item.Type == blog.TypePost && item.Deleted && item.UserID == "" // see blog.PostTombstone
	if err == nil && (!blog.ValidID(item.ID) || !blog.ValidID(item.PostID) || !blog.ValidID(item.UserID) && !erased) {
		err = fmt.Errorf("malformed id, postId or userId")
	}
	if err != nil {
		b.skip(blog.PostsContainer, raw, err)
		return item, false
	}
	return item, true
}

// readPages reads all pages of a query.
func readPages[T any](ctx context.Context, op string, c *cosmos.Container, q cosmos.Query) ([]T, error) {
	var all []T
	for items, err := range c.Query(ctx, q) {
		if err != nil {
			return nil, stored.Error(op, err)
		}
		for _, raw := range items {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, &blog.Error{Code: blog.Internal, Op: op, Err: err}
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// Values of Difference.Have for a missing and a malformed item.
const (
	absent     = "absent"
	unreadable = "malformed"
)

// sourceOf reads a post or its tombstone. It returns nil if there is neither.
func (b *base) sourceOf(ctx context.Context, id string) (*blog.Post, error) {
	raw, err := stored.Read(ctx, "verify", b.posts, stored.Key(id, id))
	if raw == nil || err != nil {
		return nil, err
	}
	return blog.DecodePostOrTombstone("verify", raw)
}

// userState is the state of a user item.
type userState int

const (
	noUser      userState = iota
	deletedUser           // a tombstone: a job deletes what the user has written
	liveUser              // or a malformed one
)

// stateOf reads a user.
func (b *base) stateOf(ctx context.Context, id string) (userState, error) {
	if !blog.ValidID(id) {
		return noUser, nil
	}
	raw, err := stored.Read(ctx, "verify", b.users, stored.Key(id, id))
	var e blog.AnyItem
	switch {
	case raw == nil || err != nil:
		return noUser, err
	case blog.Unmarshal(raw, &e, blog.Lenient) == nil && e.Type == blog.TypeUser && e.Deleted:
		return deletedUser, nil
	}
	return liveUser, nil
}

// userState is stateOf, but a user whom a replica does not have may be a new one.
func (b *base) userState(ctx context.Context, id string) (userState, error) {
	state, err := b.stateOf(ctx, id)
	if state != noUser || err != nil || !blog.ValidID(id) {
		return state, err
	}
	if raw, err := b.users.ReadPrimary(ctx, stored.Key(id, id)); raw == nil || err != nil {
		return noUser, stored.Error("verify", err)
	}
	return liveUser, nil
}

// hasJob reports whether a job exists.
func (b *base) hasJob(ctx context.Context, kind, subject string) (bool, error) {
	id := kind + "." + subject
	raw, err := stored.Read(ctx, "verify", b.leases, stored.Key(id, id))
	return raw != nil, err
}

// deletionPending reports whether a job deletes what belongs to a deleted post.
func (b *base) deletionPending(ctx context.Context, postID, authorID string) (bool, error) {
	if exists, err := b.hasJob(ctx, deletePostJob, postID); exists || err != nil {
		return exists, err
	}
	state, err := b.stateOf(ctx, authorID)
	return state == deletedUser, err
}

// currentPosts reads posts from the primary replica, without those that do not exist, or are malformed.
func (b *base) currentPosts(ctx context.Context, ids []string) ([]*blog.Post, error) {
	posts := make([]*blog.Post, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, id := range ids {
		g.Go(func() error {
			raw, err := b.posts.ReadPrimary(ctx, stored.Key(id, id))
			if raw == nil || err != nil {
				return stored.Error("read post", err)
			}
			posts[i], err = b.decodeAnyPost("read post", raw)
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(posts, func(p *blog.Post) bool { return p == nil }), err
}

// changedSince reads posts again, and returns those that have changed, tombstones included. The caller,
// which has written their summaries, must write them again: the change may have been handled, in another
// feed range, before the summary existed. It reads from the primary replica, as a lagging one would not show
// the change.
func (b *base) changedSince(ctx context.Context, c *cosmos.Container, posts []*blog.Post) ([]*blog.Post, error) {
	const op = "read changed post"
	now := make([]*blog.Post, len(posts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, p := range posts {
		if p == nil {
			continue
		}
		g.Go(func() error {
			raw, err := c.ReadPrimary(ctx, stored.Key(p.ID, p.ID))
			if raw == nil || err != nil {
				return stored.Error(op, err)
			}
			have, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				b.skip(blog.PostsContainer, raw, err)
			} else if have.Revision != p.Revision {
				now[i] = have
			}
			return nil
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(now, func(p *blog.Post) bool { return p == nil }), err
}

// describeSummary returns a digest of a summary.
func describeSummary(item blog.SummaryItem) string {
	item.InputDigest = ""
	sum := blog.Digest(string(blog.Encode(item)))
	return fmt.Sprintf("revision %d, %x", item.Revision, sum[:4])
}

// skip logs and counts an item that cannot be projected, and returns its id.
func (b *base) skip(container string, raw []byte, err error) string {
	var item struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &item) // every item has an id
	b.skipID(container, item.ID, err)
	return item.ID
}

// skipID is skip, given the id of the item.
func (b *base) skipID(container, id string, err error) {
	b.metrics.skipped.Inc()
	b.o.Logger.Error("item skipped", logContainer, container, logItem, id, logError, err)
}

// refused reports whether Cosmos DB permanently refuses a write: for example, the revision is not a number,
// or the logical partition is full; or whether the item is of a later version and must not be replaced.
func refused(err error) bool {
	return err != nil && (errors.Is(err, itemjson.ErrLater) || cosmos.ErrorOf(err).PartitionFull() ||
		cosmos.HasStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge))
}

// skipRefused skips an item that Cosmos DB refuses to change, and returns other errors.
func (b *base) skipRefused(c *cosmos.Container, id string, err error) error {
	if !refused(err) {
		return err
	}
	b.skipID(c.Name(), id, err)
	return nil
}
