package projection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
)

// A follow is an item in the partition of the author, the source, and one in that of the follower, the view. The view
// and the number of authors whom the follower follows are written in one transactional batch, which is conditional on
// the revision of the view. So each change counts once, whether it is handled twice, late, or by two processes. The
// view of a follow that has ended is a tombstone, so that a late handler of an earlier change does not restore it.
//
// The process that has written a follow writes its view at once, after the response; the handler of the change finds it
// done. The handler also compares the byline of the follower with the user's: they differ if the user was renamed after
// the follow read the byline, and the job of the rename ran before the follow was written.

// followView is the view of follows in the partitions of the followers.
type followView struct {
	*base
	fresh chan blog.FollowItem // follows that this process has just written
	seen  *lru.Cache[followKey, seenFollow]
}

// followKey identifies a follow.
type followKey struct{ author, follower string }

// seenFollow is a change of a follow whose view this process has seen. Revisions begin again when a user registers
// again.
type seenFollow struct {
	followedAt blog.Date
	revision   int64
}

// maxFresh is how many follows may wait for run. The handler of the change feed writes what does not fit.
const maxFresh = 256

func newFollowView(b *base) *followView {
	seen, _ := lru.New[followKey, seenFollow](maxVersions) // fails only for sizes below 1
	return &followView{base: b, fresh: make(chan blog.FollowItem, maxFresh), seen: seen}
}

// update has run write the view of a follow that was just written.
func (f *followView) update(item *blog.FollowItem) {
	select {
	case f.fresh <- *item:
	default:
	}
}

// run writes the views of the follows that this process writes, until ctx ends.
func (f *followView) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case item := <-f.fresh:
			if err := f.writeFresh(ctx, &item); err != nil && ctx.Err() == nil {
				f.o.Logger.Warn("follow not projected yet", logPartition, item.UserID, logItem, item.ID, logError, err)
			}
		}
	}
}

// writeFresh writes the view of a follow that this process has just written. At the first revision there is no view
// yet, as a rule: then it is not read first.
func (f *followView) writeFresh(ctx context.Context, item *blog.FollowItem) error {
	have := &storedFollow{}
	if item.Revision > 1 {
		var err error
		if have, err = f.read(ctx, item.OwnerID, blog.FollowingID(item.UserID)); err != nil {
			return err
		}
	}
	return f.write(ctx, item, have, nil)
}

// storedFollow is an item of a follow as read; the zero value if it does not exist.
type storedFollow struct {
	blog.FollowItem
	ETag cosmos.ETag `json:"_etag"`
	raw  []byte
}

func (f *storedFollow) live() bool { return f.ID != "" && !f.Deleted }

func decodeFollow(raw []byte) (*storedFollow, error) {
	item := &storedFollow{raw: raw}
	if raw == nil {
		return item, nil
	}
	if err := blog.Unmarshal(raw, item); err != nil {
		return nil, blog.Malformed("read follow", "follow", err)
	}
	return item, nil
}

// read reads an item of a follow from the primary replica.
func (f *followView) read(ctx context.Context, partition, id string) (*storedFollow, error) {
	raw, err := f.users.ReadPrimary(ctx, stored.Key(partition, id))
	if err != nil {
		return nil, stored.Error("read follow", err)
	}
	return decodeFollow(raw)
}

// project applies changes of follows, given the authors' items and tombstones.
func (f *followView) project(ctx context.Context, changes []blog.FollowItem) error {
	latest := map[followKey]*blog.FollowItem{}
	var keys []cosmos.Key
	for _, c := range changes {
		k := followKey{c.UserID, c.OwnerID}
		if seen, ok := f.seen.Get(k); ok && seen.followedAt == c.FollowedAt && seen.revision >= c.Revision &&
			!changefeed.Repeated(ctx) && !changefeed.Replaying(ctx) {
			continue
		}
		if latest[k] == nil {
			keys = append(keys, stored.Key(c.OwnerID, blog.FollowingID(c.UserID)), stored.Key(c.OwnerID, c.OwnerID))
		}
		latest[k] = &c
	}
	if len(keys) == 0 {
		return nil
	}
	items, err := f.users.ReadMany(ctx, keys)
	if err != nil {
		return stored.Error("read follows", err)
	}
	have, users := map[followKey]*storedFollow{}, map[string]*blog.UserItem{}
	for _, raw := range items {
		if u := decodeLiveUser(raw); u != nil {
			users[u.UserID] = u
		} else if item, err := decodeFollow(raw); err != nil {
			f.skip(blog.UsersContainer, raw, err)
		} else if item.Type == blog.TypeFollowing {
			have[followKey{item.OwnerID, item.UserID}] = item
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for k, c := range latest {
		g.Go(func() error {
			if users[k.follower] == nil {
				if state, err := f.userState(ctx, k.follower); state != liveUser || err != nil {
					return err // being deleted, and the job deletes both items
				}
			}
			view := have[k]
			if view == nil {
				view = &storedFollow{}
			}
			return f.write(ctx, c, view, users[k.follower])
		})
	}
	return g.Wait()
}

// write writes the view of a follow, given the view and the follower as read, unless it is as new; then it compares
// the byline. user is nil if it has not been read.
func (f *followView) write(
	ctx context.Context, source *blog.FollowItem, have *storedFollow, user *blog.UserItem,
) (err error) {
	for have.Revision < source.Revision {
		view := source.Following()
		b, counts, err := followBatch(have, &view)
		var r cosmos.BatchResult
		if err == nil {
			r, err = f.users.Batch(ctx, view.UserID, b)
		}
		switch {
		case refused(err):
			f.skipID(blog.UsersContainer, view.ID, err)
			return nil
		case err != nil:
			return stored.Error("project follow", err)
		case r.Failed == 0 && counts: // the follower is deleted
			return nil
		case r.Failed < 0 && counts:
			user = decodeLiveUser(r.Items[0])
		}
		if r.Failed < 0 {
			break
		}
		if have, err = f.read(ctx, view.UserID, view.ID); err != nil {
			return err
		}
	}
	if !source.Deleted {
		if user == nil {
			if user, err = stored.ReadUserItem(ctx, "read follower", f.users, source.OwnerID); err != nil {
				return err
			}
		}
		if user != nil {
			if err := f.setFollower(ctx, source, user.Byline); err != nil {
				return err
			}
		}
	}
	f.seen.Add(followKey{source.UserID, source.OwnerID}, seenFollow{source.FollowedAt, source.Revision})
	return nil
}

// followBatch returns the batch that replaces the view of a follow, as read, and counts it on the follower if that
// changes the number of authors: then the count is its first operation.
func followBatch(have *storedFollow, view *blog.FollowItem) (b *cosmos.Batch, counts bool, err error) {
	b = &cosmos.Batch{}
	if by := 0; have.live() != !view.Deleted {
		if by = 1; view.Deleted {
			by = -1
		}
		b.Patch(view.UserID, patchFollowCount("/followingCount", by))
		counts = true
	}
	raw := blog.Encode(view)
	switch {
	case have.ID == "":
		b.Create(raw)
		return b, counts, nil
	case have.live() && !view.Deleted:
		raw, err = itemjson.EncodeOver(view, have.raw)
	}
	b.ReplaceIf(view.ID, raw, have.ETag)
	return b, counts, err
}

// patchFollowCount returns a patch that adds to a count of a user who is not deleted. It leaves the revision.
func patchFollowCount(path string, by int) (p cosmos.Patch) {
	p.Condition = blog.IfUser
	p.Increment(path, int64(by))
	return p
}

// uncountFollows subtracts follows from the counts of a user who is not deleted.
func uncountFollows(items []ownedItem) (p cosmos.Patch) {
	p.Condition = blog.IfUser
	uncount(&p, items, blog.TypeFollower, "/followerCount")
	uncount(&p, items, blog.TypeFollowing, "/followingCount")
	return p
}

// setFollower sets the byline of a follower, unless the follow has changed meanwhile: that change is handled, too.
func (b *base) setFollower(ctx context.Context, item *blog.FollowItem, byline blog.Byline) error {
	p := cosmos.Patch{
		Condition: fmt.Sprintf("from c where c.type = '%s' AND c.revision = %d", item.Type, item.Revision)}
	if item.Follower == nil { // malformed
		raw, _ := json.Marshal(byline) // cannot fail: only strings
		p.SetJSON("/follower", raw)
	}
	for changed := range cmp.Or(item.Follower, &byline).Changes(byline) {
		if changed.Value == "" {
			p.Condition += " AND IS_DEFINED(c.follower." + changed.Name + ")"
		}
		stored.SetText(&p, "/follower/"+changed.Name, changed.Value)
	}
	if p.Changes() == 0 {
		return nil
	}
	_, err := b.users.Patch(ctx, stored.Key(item.UserID, item.ID), p)
	if refused(err) {
		b.skipID(blog.UsersContainer, item.ID, err)
		return nil
	}
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return stored.Error("set byline of follower", err)
	}
	return nil
}

func (f *followView) kind() Kind { return Following }

func (f *followView) suspects(_ context.Context, s *scan) ([]Difference, error) {
	return s.follows.suspects(), nil
}

// readPair reads the two items of a follow, given the difference of the view.
func (f *followView) readPair(ctx context.Context, d Difference) (source, have *storedFollow, err error) {
	author, _ := strings.CutPrefix(d.ID, blog.FollowingID(""))
	if have, err = f.read(ctx, d.Partition, d.ID); err != nil && !errors.Is(err, blog.ErrMalformed) {
		return nil, nil, err
	}
	source, err = f.read(ctx, author, blog.FollowerID(d.Partition))
	return source, have, err
}

// compare compares the view of a follow, in the partition of the follower, with the author's item.
func (f *followView) compare(ctx context.Context, d Difference) (*Difference, error) {
	source, have, err := f.readPair(ctx, d)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = absent, absent
	if have == nil {
		d.Have = unreadable
	} else if have.live() {
		d.Have = describeFollow(&have.FollowItem)
	}
	if source.live() {
		d.Want = describeFollow(&source.FollowItem)
	}
	follower, err := f.userState(ctx, d.Partition)
	if err != nil || follower == deletedUser {
		return nil, err // a job deletes both
	}
	if follower == noUser {
		d.Want = absent
	}
	if d.Have == d.Want {
		return nil, nil
	}
	author, err := f.userState(ctx, strings.TrimPrefix(d.ID, blog.FollowingID("")))
	if err != nil || author == deletedUser {
		return nil, err
	}
	return &d, nil
}

func describeFollow(f *blog.FollowItem) string {
	return fmt.Sprintf("revision %d of %s", f.Revision, f.FollowedAt)
}

// repair makes the view of a follow match the author's item, and counts the change.
func (f *followView) repair(ctx context.Context, d Difference) error {
	source, have, err := f.readPair(ctx, d)
	if err != nil {
		return err
	}
	if have == nil { // malformed: compare again
		return f.users.Delete(ctx, stored.Key(d.Partition, d.ID), "")
	}
	if d.Want != absent && source.ID == "" {
		return nil // deleted meanwhile: compare again
	}
	if d.Want != absent {
		view := source.Following()
		b, _, err := followBatch(have, &view)
		if err != nil {
			return err
		}
		r, err := f.users.Batch(ctx, d.Partition, b)
		return cmp.Or(err, r.Err())
	}
	return f.remove(ctx, have, "/followingCount")
}

// remove deletes an item of a follow, and subtracts it from a count of the user in whose partition it is, if there is
// one.
func (f *followView) remove(ctx context.Context, have *storedFollow, count string) error {
	var b cosmos.Batch
	b.DeleteIf(have.ID, have.ETag)
	if have.live() {
		b.Patch(have.UserID, patchFollowCount(count, -1))
	}
	r, err := f.users.Batch(ctx, have.UserID, &b)
	if r.Failed == 1 && err == nil {
		return f.users.Delete(ctx, stored.Key(have.UserID, have.ID), have.ETag)
	}
	return cmp.Or(err, r.Err())
}

// followerView is the view of the bylines of followers in the partitions of authors.
type followerView struct{ *followView }

func (f *followerView) kind() Kind { return Follower }

func (f *followerView) suspects(_ context.Context, s *scan) ([]Difference, error) {
	return differences(Follower, s.follows.wrongBylines), nil
}

// compare compares the byline of a follower with the user's. A follow without one of the two users is what a request
// has written long after the end of a deletion.
func (f *followerView) compare(ctx context.Context, d Difference) (*Difference, error) {
	item, err := f.read(ctx, d.Partition, d.ID)
	if err != nil || !item.live() {
		return nil, err
	}
	author, err := f.userState(ctx, d.Partition)
	if err != nil || author == deletedUser {
		return nil, err
	}
	follower, err := f.userState(ctx, item.OwnerID)
	if err != nil || follower == deletedUser {
		return nil, err
	}
	d.Have, d.Want = describeByline(*cmp.Or(item.Follower, &blog.Byline{})), absent
	if author == liveUser && follower == liveUser {
		u, err := stored.ReadUser(ctx, "verify", f.users, item.OwnerID)
		if u == nil || err != nil || item.Follower != nil && u.Byline == *item.Follower {
			return nil, err
		}
		d.Want = describeByline(u.Byline)
	}
	return &d, nil
}

func (f *followerView) repair(ctx context.Context, d Difference) error {
	item, err := f.read(ctx, d.Partition, d.ID)
	if err != nil || !item.live() {
		return err
	}
	if d.Want == absent {
		return f.remove(ctx, item, "/followerCount")
	}
	u, err := stored.ReadUser(ctx, "repair", f.users, item.OwnerID)
	if u == nil || err != nil {
		return err
	}
	return f.setFollower(ctx, &item.FollowItem, u.Byline)
}
