package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/recency"
	"byline/store/stored"
)

// followStore reads and writes who follows whom.
type followStore struct {
	*base
	authors *authors
	readers *userStore
	follows *shownFollows
}

// shownFollows has home feeds and lists show the changes of follows that this instance has written, or learned from a
// session, until the views in the viewers' partitions have them.
type shownFollows struct {
	*base
	known *recency.Follows
}

// freshFollowsOf, before a viewer's id, is what responses with the viewer's follows depend on in the item cache: no
// partition of the users container has such a key.
const freshFollowsOf = "fresh follows of "

// fresh returns the changes of a user's follows that the view may lack, by author. A response with them depends on
// them.
func (s *shownFollows) fresh(ctx context.Context, userID string) map[string]recency.Change {
	s.users.DependOn(ctx, freshFollowsOf+userID)
	return s.known.Fresh(userID)
}

// raiseFollow has the user's home and list show a follow, or its end, that was written at the given time, here or
// elsewhere, given the author's item.
func (s *shownFollows) raiseFollow(item *blog.FollowItem, at time.Time) {
	if s.known.Wrote(item, at) {
		s.users.Changed(freshFollowsOf + item.OwnerID)
	}
}

// noteFollow is raiseFollow for a follow that was just written, on this instance and, with the session of ctx, on
// others.
func (s *shownFollows) noteFollow(ctx context.Context, item *blog.FollowItem) {
	now := s.o.Clock()
	s.raiseFollow(item, now)
	noteWrite(ctx, noteOfFollow(item), now)
}

// noteOfFollow returns the note of a follow, given the author's item.
func noteOfFollow(item *blog.FollowItem) writeNote {
	follows := int64(1)
	if item.Deleted {
		follows = 0
	}
	return writeNote{revision: item.Revision, subject: item.OwnerID + "/" + item.UserID,
		values: [2]int64{follows, item.FollowedAt.Time().UnixMilli()}}
}

// followOfNote returns what the author's item has of a follow.
func followOfNote(n writeNote) *blog.FollowItem {
	viewer, author, _ := strings.Cut(n.subject, "/")
	item := blog.NewFollow(author, blog.Byline{UserID: viewer}, blog.NewDate(time.UnixMilli(n.values[1])), n.revision)
	item.Deleted = n.values[0] == 0
	return &item
}

// followViews learns which follows the views have from changes of the users container, and then calls handle.
func (s *shownFollows) followViews(handle changefeed.Handler) changefeed.Handler {
	return func(ctx context.Context, items [][]byte) error {
		for _, raw := range items {
			if !bytes.Contains(raw, []byte(`"`+blog.FollowingID(""))) {
				continue
			}
			f, err := blog.DecodeFollow("follow users", raw)
			if err == nil && f != nil && f.ID == blog.FollowingID(f.OwnerID) {
				s.known.Viewed(f)
			}
		}
		return handle(ctx, items)
	}
}

// Follows reports for each author whether the user follows them, in one request.
func (s *followStore) Follows(ctx context.Context, userID string, authorIDs []string) ([]bool, error) {
	ctx = s.beginRead(ctx, ManyFollows)
	id := blog.FollowerID(userID)
	items, err := cachedMany(ctx, s.users, authorIDs, id,
		func(ctx context.Context, authorIDs []string) ([]*blog.FollowItem, error) {
			return stored.ReadAll(ctx, "read follows", s.users, authorIDs,
				func(authorID string) cosmos.Key { return stored.Key(authorID, id) },
				blog.DecodeFollow, func(f *blog.FollowItem) string { return f.UserID })
		})
	if err != nil {
		return nil, err
	}
	follows := make([]bool, len(items))
	for i, f := range items {
		follows[i] = f != nil && !f.Deleted && !s.hides(f.UserID, f.OwnerID, f.FollowedAt)
	}
	return follows, nil
}

// hides reports whether a follow is hidden, because one of the two users is being deleted.
func (s *followStore) hides(authorID, followerID string, at blog.Date) bool {
	return s.deletions.Hides(authorID, at) || s.deletions.Hides(followerID, at)
}

// Followers lists an author's followers, most recent first, by one query of the author's partition. Of each
// user it has the byline. The page of an unknown author is empty.
func (s *followStore) Followers(ctx context.Context, authorID string, p Paging) (*Page[*blog.Follow], error) {
	ctx = s.beginRead(ctx, Followers)
	l := s.list(authorID, blog.TypeFollower)
	l.op, l.format = "list followers", blog.Followers
	l.show = func(f *blog.Follow) bool { return !s.hides(authorID, f.UserID, f.FollowedAt) }
	l.position = func(f *blog.Follow) (blog.Date, string) { return f.FollowedAt, blog.FollowerID(f.UserID) }
	return l.page(ctx, p)
}

// Following lists the authors whom a user follows, most recently followed first, by one query of the user's partition
// and one batch of reads of the authors.
func (s *followStore) Following(ctx context.Context, userID string, p Paging) (*Page[*blog.Follow], error) {
	ctx = s.beginRead(ctx, Following)
	l := s.list(userID, blog.TypeFollowing)
	l.op, l.format, l.filter = "list followed authors", blog.Following, s.existingUsers
	l.uncached = true // a page would depend on the partitions of all authors
	fresh := s.follows.fresh(ctx, userID)
	l.show = func(f *blog.Follow) bool {
		c, ok := fresh[f.UserID]
		return (!ok || c.Follows && c.FollowedAt == f.FollowedAt) && !s.hides(f.UserID, userID, f.FollowedAt)
	}
	l.position = func(f *blog.Follow) (blog.Date, string) { return f.FollowedAt, blog.FollowingID(f.UserID) }
	page, err := l.page(ctx, p)
	if err == nil && len(fresh) > 0 {
		err = s.addFresh(ctx, page, fresh, l.show, p.First)
	}
	return page, err
}

// addFresh adds to a page of up to first follows the fresh ones that belong there, by one more batch of reads as a
// rule.
func (s *followStore) addFresh(
	ctx context.Context, to *Page[*blog.Follow], fresh map[string]recency.Change, show func(*blog.Follow) bool,
	first int,
) error {
	var missing []blog.Follow
	for author, c := range fresh {
		f := blog.Follow{User: blog.User{Byline: blog.Byline{UserID: author}}, FollowedAt: c.FollowedAt}
		at := to.entry(&f)
		switch {
		case !show(&f), slices.ContainsFunc(to.Items, func(have *blog.Follow) bool { return have.UserID == author }):
		case to.after != nil && !older(at, blog.Entry{CreatedAt: to.after.Date, ID: to.after.ID}):
		case to.More && older(at, to.entry(to.Items[len(to.Items)-1])):
		default:
			missing = append(missing, f)
		}
	}
	byDate := func(a, b *blog.Follow) int { return compareEntries(to.entry(a), to.entry(b)) }
	slices.SortFunc(missing, func(a, b blog.Follow) int { return byDate(&a, &b) })
	added := 0
	for some := range slices.Chunk(missing, first+1) {
		found, err := s.existingUsers(ctx, some)
		if err != nil {
			return err
		}
		for i := range found {
			to.Items = append(to.Items, &found[i])
		}
		if added += len(found); added > first {
			break
		}
	}
	slices.SortFunc(to.Items, byDate)
	to.cut(first)
	return nil
}

// list returns a list of follows without what depends on their type.
func (s *followStore) list(userID, typ string) *list[blog.Follow] {
	return &list[blog.Follow]{container: s.users, key: "userId", partition: userID, typ: typ, deletions: s.deletions}
}

// existingUsers reads the users of follows, without those who do not exist.
func (s *followStore) existingUsers(ctx context.Context, follows []blog.Follow) ([]blog.Follow, error) {
	ids := make([]string, len(follows))
	for i := range follows {
		ids[i] = follows[i].UserID
	}
	users, err := s.readers.Users(ctx, ids)
	if err != nil {
		return nil, err
	}
	var found []blog.Follow
	for i, u := range users {
		if u != nil {
			found = append(found, blog.Follow{User: *u, FollowedAt: follows[i].FollowedAt})
		}
	}
	return found, nil
}

// FollowUser makes a user a follower of an author: one transactional batch counts and creates the follow. A repetition
// changes nothing. The view in the user's partition follows a moment later. It returns the author with the new count.
// NotFound if the author does not exist, Forbidden if the caller has no user yet, Invalid (Field is "id") if the two
// are one, LimitReached if the user follows blog.MaxFollowed authors or the author has blog.MaxFollowers.
func (s *followStore) FollowUser(ctx context.Context, userID, authorID string) (*blog.User, error) {
	const op = "follow user"
	ctx = s.account.Begin(ctx, FollowUser)
	user, err := s.authors.author(ctx, op, userID)
	if err != nil {
		return nil, err
	}
	switch {
	case userID == authorID:
		return nil, blog.Invalidf(op, "id", blog.ReasonMismatch, "must be another user's, not your own")
	case !blog.ValidID(authorID):
		return nil, noUser(op)
	case user.FollowingCount >= blog.MaxFollowed:
		now, err := s.read(ctx, op, userID, authorID)
		if err == nil && !now.follows() {
			err = &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonFull,
				Message: fmt.Sprintf("you follow %d users, and cannot follow more", blog.MaxFollowed)}
		}
		return s.alreadyWritten(ctx, now, err)
	}
	item, etag := blog.NewFollow(authorID, user.Byline, s.now(), 1), cosmos.ETag("")
	for range maxEditTries {
		r, err := batch(ctx, s.users, authorID, func(b *cosmos.Batch) {
			b.Patch(authorID, patchFollowers(1))
			if etag == "" {
				b.Create(blog.Encode(item))
			} else { // the tombstone of an earlier follow
				b.ReplaceIf(item.ID, blog.Encode(item), etag)
			}
		})
		if err == nil && r.Failed < 0 {
			return s.written(ctx, op, &item, r.Items[0])
		}
		now, err := s.readAfter(ctx, op, userID, authorID, true, err)
		switch {
		case now.follows() || err != nil:
			return s.alreadyWritten(ctx, now, err)
		case now.author.FollowerCount >= blog.MaxFollowers:
			return nil, &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonFull,
				Message: "this user has as many followers as a user can have"}
		}
		item.Revision, etag = now.item.Revision+1, now.item.ETag
		item.FollowedAt = max(item.FollowedAt, now.item.FollowedAt) // clocks may differ; see recency.Follows
	}
	return nil, changedMeanwhile(op)
}

// UnfollowUser ends a follow: one transactional batch makes it a tombstone and decrements the count. Without a follow
// nothing changes. It returns the author with the new count. NotFound if the author does not exist.
func (s *followStore) UnfollowUser(ctx context.Context, userID, authorID string) (*blog.User, error) {
	const op = "unfollow user"
	ctx = s.account.Begin(ctx, UnfollowUser)
	if !blog.ValidID(authorID) {
		return nil, noUser(op)
	}
	if _, err := s.authors.byline(ctx, op, userID); err != nil {
		return nil, err
	}
	for range maxEditTries {
		r, err := batch(ctx, s.users, authorID, func(b *cosmos.Batch) {
			b.Patch(blog.FollowerID(userID), endFollow())
			b.Patch(authorID, patchFollowers(-1))
		})
		if err == nil && r.Failed < 0 {
			item, err := blog.DecodeFollow(op, r.Items[0])
			if err != nil {
				return nil, err
			}
			return s.written(ctx, op, item, r.Items[1])
		}
		if now, err := s.readAfter(ctx, op, userID, authorID, false, err); !now.follows() || err != nil {
			return s.alreadyWritten(ctx, now, err)
		}
	}
	return nil, changedMeanwhile(op)
}

// patchFollowers returns a patch that adds to the number of an author's followers, up to the limit. It leaves the
// revision, so that edits and jobs do not notice it.
func patchFollowers(by int64) (p cosmos.Patch) {
	p.Condition = blog.IfUser
	if by > 0 {
		p.Condition += fmt.Sprintf(" AND (NOT IS_DEFINED(c.followerCount) OR c.followerCount < %d)", blog.MaxFollowers)
	}
	p.Increment("/followerCount", by)
	return p
}

// endFollow returns the patch that makes a follow a tombstone.
func endFollow() (p cosmos.Patch) {
	p.Condition = "from c where c.type = '" + blog.TypeFollower + "'"
	p.Set("/type", blog.TypeDeletedFollower)
	p.Set("/deleted", true)
	p.Set("/ttl", blog.TombstoneTTL)
	p.Increment("/revision", 1)
	p.Remove("/follower")
	return p
}

// written returns an author whose followers have just changed, and has the view follow.
func (s *followStore) written(
	ctx context.Context, op string, item *blog.FollowItem, author []byte,
) (*blog.User, error) {
	s.follows.noteFollow(ctx, item)
	s.views.UpdateFollowing(item)
	u, err := s.authors.decodeUser(op, author)
	if u == nil && err == nil {
		err = noUser(op) // being deleted
	}
	return u, err
}

// alreadyWritten is written for a follow that was read, with its author, and that this process may have written: the
// response was lost, or the request is repeated.
func (s *followStore) alreadyWritten(ctx context.Context, now followState, err error) (*blog.User, error) {
	if err == nil && now.item.ID != "" {
		s.follows.noteFollow(ctx, &now.item.FollowItem)
		s.views.UpdateFollowing(&now.item.FollowItem)
	}
	return now.author, err
}

// followState is a follow as read, and its author.
type followState struct {
	author *blog.User
	item   struct {
		blog.FollowItem             // the zero value without one
		ETag            cosmos.ETag `json:"_etag"`
	}
}

func (f followState) follows() bool { return f.item.ID != "" && !f.item.Deleted }

// read reads a follow and its author from the primary replica. NotFound if the author does not exist.
func (s *followStore) read(ctx context.Context, op, userID, authorID string) (now followState, err error) {
	if now.author, err = s.authors.readPrimaryUser(ctx, op, authorID); now.author == nil {
		return now, cmp.Or(err, noUser(op))
	}
	raw, err := s.users.ReadPrimary(ctx, stored.Key(authorID, blog.FollowerID(userID)))
	if raw == nil || err != nil {
		return now, stored.Error(op, err)
	}
	if err := blog.Unmarshal(raw, &now.item); err != nil {
		return now, blog.Malformed(op, blog.TypeFollower, err)
	}
	return now, nil
}

// readAfter reads a follow after a batch that should have made or ended it, and that has failed with err, or has
// changed nothing: nil. It returns the error unless the outcome was unknown and is the wanted one.
func (s *followStore) readAfter(
	ctx context.Context, op, userID, authorID string, wanted bool, err error,
) (followState, error) {
	if err != nil && !stored.Ambiguous(ctx, err) {
		return followState{}, stored.Error(op, err)
	}
	now, readErr := s.read(ctx, op, userID, authorID)
	switch {
	case readErr != nil:
		return now, cmp.Or(stored.Error(op, err), readErr)
	case now.follows() == wanted:
		return now, nil
	}
	return now, stored.Error(op, err)
}
