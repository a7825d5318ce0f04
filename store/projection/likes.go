package projection

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unique"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/stored"
)

// A like has a view in the partition of its user, for the list of the posts that the user likes. The handler of the
// like writes it. Two likes of a user and a post, with an end between them, differ by their dates: so a view with the
// date of the like is right, and one with another date gets that of the like as it is now.
//
// The change feed does not show the end of a like. So a list hides the views of likes that do not exist, and the
// process that has ended a like, or met such a view in a list, deletes the view: some seconds later, when the handler
// of the like, which may not have run yet, has written it. It reads the view before the like, and deletes it at its
// ETag: a handler that finds the view of an earlier like replaces it, and one that does not creates it again.
//
// A view outlives its post, and its like if that process stops too early, until a list meets it: this is no difference.
// Bookmarks, which are no views, are deleted likewise with their posts.

// likedView is the view of likes in the partitions of their users.
type likedView struct {
	*base
	orphans chan orphan
	seen    *lru.Cache[likeKey, blog.Date] // the dates of likes whose views this process has seen
}

// likeKey identifies a like.
type likeKey struct{ post, user string }

// orphan is an item that may lack its like or post.
type orphan struct {
	typ, userID, postID string
	due                 time.Time // when to look at it
}

const (
	maxOrphans  = 1024            // items that wait for run; a list meets again what does not fit
	orphanDelay = 3 * time.Second // longer than the handler of a like takes, unless it is stopped
)

// likeRewritten is how much later than its date a like was written that is no new one: a rename has set the byline.
const likeRewritten = 10 * time.Second

func newLikedView(b *base) *likedView {
	seen, _ := lru.New[likeKey, blog.Date](maxVersions) // fails only for sizes below 1
	return &likedView{base: b, orphans: make(chan orphan, maxOrphans), seen: seen}
}

// enqueue has run look at an item.
func (l *likedView) enqueue(typ, userID, postID string) {
	select {
	case l.orphans <- orphan{typ, userID, postID, time.Now().Add(orphanDelay)}:
	default:
	}
}

// run deletes the items of enqueue that have neither like nor post, until ctx ends.
func (l *likedView) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case item := <-l.orphans:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(item.due)):
			}
			if err := l.deleteOrphan(ctx, item); err != nil && ctx.Err() == nil {
				l.o.Logger.Warn("saved post not removed yet", logPartition, item.userID, logItem, item.id(), logError, err)
			}
		}
	}
}

func (o orphan) id() string { return blog.SavedID(o.typ, o.postID) }

// deleteOrphan deletes a view whose like does not exist, or a bookmark whose post does not.
func (l *likedView) deleteOrphan(ctx context.Context, item orphan) error {
	have, err := l.read(ctx, item.userID, item.id())
	if have == nil || err != nil {
		return err
	}
	exists := false
	if item.typ == blog.TypeLiked {
		var like *blog.Like
		like, err = l.readLike(ctx, likeKey{item.postID, item.userID})
		exists = like != nil
	} else {
		var raw []byte
		raw, err = l.posts.ReadPrimary(ctx, stored.Key(item.postID, item.postID))
		if err == nil && raw != nil {
			var post *blog.Post
			post, err = blog.DecodePost("read bookmarked post", raw)
			exists = post != nil
		}
	}
	if exists || err != nil {
		return stored.Error("delete saved post", err)
	}
	err = l.users.Delete(ctx, stored.Key(item.userID, item.id()), have.ETag)
	if cosmos.HasStatus(err, http.StatusNotFound, http.StatusPreconditionFailed) {
		return nil
	}
	return stored.Error("delete saved post", err)
}

// storedSaved is an item of a reader's own list as read. The date of a malformed one is "".
type storedSaved struct {
	blog.SavedItem
	ETag cosmos.ETag `json:"_etag"`
	raw  []byte
}

func decodeSaved(raw []byte) *storedSaved {
	item := &storedSaved{raw: raw}
	if err := blog.Unmarshal(raw, item); err != nil {
		return &storedSaved{ETag: stored.ETagOf(raw)}
	}
	return item
}

// read reads an item of a reader's own list from the primary replica. It returns nil if it does not exist.
func (l *likedView) read(ctx context.Context, userID, id string) (*storedSaved, error) {
	raw, err := l.users.ReadPrimary(ctx, stored.Key(userID, id))
	if raw == nil || err != nil {
		return nil, stored.Error("read liked post", err)
	}
	return decodeSaved(raw), nil
}

// readLike reads a like from the primary replica. It returns nil if it does not exist.
func (l *likedView) readLike(ctx context.Context, k likeKey) (*blog.Like, error) {
	const op = "read like"
	raw, err := l.posts.ReadPrimary(ctx, stored.Key(k.post, blog.LikeID(k.user)))
	if raw == nil || err != nil {
		return nil, stored.Error(op, err)
	}
	return blog.DecodeLike(op, raw)
}

// project writes the views of likes. A new like probably has none, and is created without a read. A rename changes a
// like, and a crash or a rebuild repeats it: then the views are read in one request.
func (l *likedView) project(ctx context.Context, c postChanges) error {
	latest := map[likeKey]*blog.Like{}
	var keys []cosmos.Key
	repeated := changefeed.Repeated(ctx) || changefeed.Replaying(ctx)
	for _, like := range c.likes {
		k := likeKey{like.PostID, like.UserID}
		if date, ok := l.seen.Get(k); ok && date == like.CreatedAt && !repeated {
			continue
		}
		old := repeated || time.Unix(like.Written, 0).Sub(like.CreatedAt.Time()) > likeRewritten
		if old && latest[k] == nil {
			keys = append(keys, stored.Key(k.user, blog.LikedID(k.post)))
		}
		latest[k] = &like.Like
	}
	items, err := l.users.ReadMany(ctx, keys)
	if err != nil {
		return stored.Error("read liked posts", err)
	}
	have := map[likeKey]*storedSaved{}
	for _, raw := range items {
		item := decodeSaved(raw)
		have[likeKey{item.PostID, item.UserID}] = item
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for k, like := range latest {
		g.Go(func() error {
			if c.authors[k.user] == nil {
				if state, err := l.userState(ctx, k.user); state != liveUser || err != nil {
					return err // being deleted, and the job empties the partition
				}
			}
			err := l.write(ctx, like, have[k])
			if refused(err) {
				l.skipID(blog.UsersContainer, blog.LikedID(k.post), err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// write writes the view of a like, given the view as read; nil if it probably does not exist.
func (l *likedView) write(ctx context.Context, like *blog.Like, have *storedSaved) error {
	const op = "project like"
	for {
		view := like.Liked()
		var err error
		if have == nil {
			err = l.users.Create(ctx, view.UserID, blog.Encode(view))
		} else if have.SavedAt != like.CreatedAt {
			now, readErr := l.readLike(ctx, likeKey{like.PostID, like.UserID})
			if now == nil || readErr != nil {
				return readErr // it has ended
			}
			like, view = now, now.Liked()
			if have.SavedAt != like.CreatedAt {
				raw := blog.Encode(view)
				if have.raw != nil {
					if raw, err = itemjson.EncodeOver(view, have.raw); err != nil {
						return stored.Error(op, err)
					}
				}
				_, err = l.users.Replace(ctx, stored.Key(view.UserID, view.ID), raw, have.ETag)
			}
		}
		if err == nil {
			l.seen.Add(likeKey{like.PostID, like.UserID}, like.CreatedAt)
			return nil
		}
		if !cosmos.HasStatus(err, http.StatusConflict, http.StatusNotFound, http.StatusPreconditionFailed) {
			return stored.Error(op, err)
		}
		if have, err = l.read(ctx, view.UserID, view.ID); err != nil {
			return err
		}
	}
}

func (l *likedView) kind() Kind { return Liked }

// likeScan is what a scan has read of likes: of each the date in milliseconds, if one of the two items was found, or
// two that differ.
type likeScan map[likeKey]int64

// add adds a like or its view.
func (s likeScan) add(postID, userID string, at blog.Date) {
	// The scan reads each id many times.
	k, date := likeKey{unique.Make(postID).Value(), unique.Make(userID).Value()}, at.Time().UnixMilli()
	if other, ok := s[k]; ok && other == date {
		delete(s, k)
	} else {
		s[k] = date
	}
}

// suspects lists likes with one item. Views of posts that do not exist are left to the lists.
func (l *likedView) suspects(_ context.Context, s *scan) (found []Difference, _ error) {
	for k := range s.likes {
		post := s.posts[k.post]
		_, exists := s.users[k.user]
		if !exists || post != nil && post.exists && !post.deleted {
			found = append(found, Difference{Kind: Liked, Partition: k.user, ID: blog.LikedID(k.post)})
		}
	}
	return found, nil
}

// readPair reads a like and its view.
func (l *likedView) readPair(ctx context.Context, d Difference) (like *blog.Like, have *storedSaved, err error) {
	if have, err = l.read(ctx, d.Partition, d.ID); err != nil {
		return nil, nil, err
	}
	like, err = l.readLike(ctx, likeKey{strings.TrimPrefix(d.ID, blog.LikedID("")), d.Partition})
	return like, have, err
}

// compare compares the view of a like, in the partition of its user, with the like.
func (l *likedView) compare(ctx context.Context, d Difference) (*Difference, error) {
	like, have, err := l.readPair(ctx, d)
	if err != nil {
		return nil, err
	}
	d.Have, d.Want = absent, absent
	if have != nil {
		d.Have = cmp.Or(describeLike(have.SavedAt), unreadable)
	}
	if like != nil {
		d.Want = describeLike(like.CreatedAt)
	}
	user, err := l.userState(ctx, d.Partition)
	if err != nil || user == deletedUser {
		return nil, err // a job deletes both
	}
	if d.Have == d.Want || user == noUser && have == nil || user == liveUser && like == nil {
		return nil, nil // the lists of a user hide a view without a like, and delete it
	}
	if user == liveUser {
		post, err := l.sourceOf(ctx, strings.TrimPrefix(d.ID, blog.LikedID("")))
		if post == nil || post.Tombstone || err != nil {
			return nil, err // see suspects
		}
	}
	return &d, nil
}

func describeLike(at blog.Date) string {
	if at == "" {
		return ""
	}
	return fmt.Sprint("a like of ", at)
}

// repair makes the view of a like match it.
func (l *likedView) repair(ctx context.Context, d Difference) error {
	like, have, err := l.readPair(ctx, d)
	switch {
	case err != nil:
		return err
	case d.Want != absent && like != nil:
		return l.write(ctx, like, have)
	case have == nil:
		return nil
	}
	return l.users.Delete(ctx, stored.Key(d.Partition, d.ID), have.ETag)
}
