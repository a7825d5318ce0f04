package store

import (
	"context"
	"fmt"
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

// savedStore reads and writes the lists that are a reader's own: bookmarks, and the posts that the reader likes. Their
// pages are not in the item cache, as they depend on all their posts.
type savedStore struct {
	*base
	authors *authors
	allowed *lru.Cache[string, int] // how many bookmarks a user may create before the next count
}

// An instance counts the bookmarks of a user when it creates one, and then not again for the next 1/16 of those that
// are left: so up to 16 instances do not exceed the limit.
const (
	bookmarkCounts     = 16
	maxBookmarkReaders = 1 << 14
)

func newSavedStore(b *base, a *authors) savedStore {
	allowed, _ := lru.New[string, int](maxBookmarkReaders) // fails only for sizes below 1
	return savedStore{b, a, allowed}
}

func bookmarkKey(userID, postID string) cosmos.Key {
	return stored.Key(userID, blog.BookmarkID(postID))
}

// BookmarkPost adds a post to a user's bookmarks: a read of the post, and one create. A repetition changes nothing.
// NotFound if the post does not exist, Forbidden if the caller has no user yet, LimitReached if the user has
// blog.MaxBookmarks.
func (s *savedStore) BookmarkPost(ctx context.Context, userID, postID string) (*blog.Post, error) {
	const op = "bookmark post"
	ctx = s.account.Begin(ctx, BookmarkPost)
	if !blog.ValidID(postID) {
		return nil, blog.NoPost(op)
	}
	if _, err := s.authors.byline(ctx, op, userID); err != nil {
		return nil, err
	}
	post, err := s.readPost(ctx, postID)
	if post == nil || err != nil {
		return nil, orNoPost(op, nil, err)
	}
	full, err := s.isFull(ctx, op, userID)
	if err == nil && !full {
		err = s.users.Create(ctx, userID, blog.Encode(blog.NewBookmark(userID, postID, s.now())))
	}
	switch {
	case cosmos.HasStatus(err, http.StatusConflict):
		return post, nil
	case full, stored.Ambiguous(ctx, err):
		if have, readErr := stored.Read(ctx, op, s.users, bookmarkKey(userID, postID)); have != nil || readErr != nil {
			return post, readErr
		}
	}
	if full {
		err = &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonFull,
			Message: fmt.Sprintf("you have %d bookmarks, as many as you can have: remove some", blog.MaxBookmarks)}
	}
	if err != nil {
		return nil, stored.Error(op, err)
	}
	return post, nil
}

// isFull reports whether a user has blog.MaxBookmarks.
func (s *savedStore) isFull(ctx context.Context, op, userID string) (bool, error) {
	if n, _ := s.allowed.Get(userID); n > 0 {
		s.allowed.Add(userID, n-1)
		return false, nil
	}
	n, err := s.count(ctx, op, userID, blog.TypeBookmark)
	if err == nil {
		s.allowed.Add(userID, (blog.MaxBookmarks-n)/bookmarkCounts)
	}
	return n >= blog.MaxBookmarks, err
}

// RemoveBookmark removes a post from a user's bookmarks, by one delete; it reads the post. Without a bookmark nothing
// changes. NotFound if the post does not exist; then it has removed the bookmark, too.
func (s *savedStore) RemoveBookmark(ctx context.Context, userID, postID string) (*blog.Post, error) {
	const op = "remove bookmark"
	ctx = s.account.Begin(ctx, RemoveBookmark)
	if !blog.ValidID(postID) {
		return nil, blog.NoPost(op)
	}
	if _, err := s.authors.byline(ctx, op, userID); err != nil {
		return nil, err
	}
	err := s.users.Delete(ctx, bookmarkKey(userID, postID), "")
	if stored.Ambiguous(ctx, err) {
		if have, readErr := stored.Read(ctx, op, s.users, bookmarkKey(userID, postID)); have == nil && readErr == nil {
			err = nil
		}
	}
	if err != nil && !cosmos.HasStatus(err, http.StatusNotFound) {
		return nil, stored.Error(op, err)
	}
	post, err := s.readPost(ctx, postID)
	return post, orNoPost(op, post, err)
}

// Bookmarked reports for each post whether the user has bookmarked it, in one request.
func (s *savedStore) Bookmarked(ctx context.Context, userID string, postIDs []string) ([]bool, error) {
	ctx = s.beginRead(ctx, ManyBookmarks)
	return cached(ctx, s.users, userID, fmt.Sprint("bookmarks of ", postIDs), func(ctx context.Context) ([]bool, error) {
		items, err := stored.ReadAll(ctx, "read bookmarks", s.users, postIDs,
			func(postID string) cosmos.Key { return bookmarkKey(userID, postID) },
			blog.DecodeSaved, func(i *blog.SavedItem) string { return i.PostID })
		bookmarked := make([]bool, len(items))
		for i, item := range items {
			bookmarked[i] = item != nil && !s.deletions.Hides(userID, item.SavedAt)
		}
		return bookmarked, err
	})
}

// Bookmarks lists the posts that a user has bookmarked, the latest bookmarks first, by one query of the user's
// partition and one batch of reads of the posts.
func (s *savedStore) Bookmarks(ctx context.Context, userID string, p Paging) (*Page[*blog.Post], error) {
	return s.page(s.beginRead(ctx, Bookmarks), "list bookmarks", userID, blog.TypeBookmark, p,
		func(ctx context.Context, postIDs []string) ([]*blog.Post, error) {
			entries := make([]blog.Entry, len(postIDs))
			for i, id := range postIDs {
				entries[i].ID = id
			}
			return s.listedPosts(ctx, entries)
		})
}

// LikedPosts lists the posts that a user likes, most recently liked first, by one query of the user's partition, and
// one batch of reads of the posts and the likes. The view in the user's partition follows likes a moment later; one
// whose like has been removed is hidden.
func (s *savedStore) LikedPosts(ctx context.Context, userID string, p Paging) (*Page[*blog.Post], error) {
	return s.page(s.beginRead(ctx, LikedPosts), "list liked posts", userID, blog.TypeLiked, p,
		func(ctx context.Context, postIDs []string) ([]*blog.Post, error) {
			return cachedMany(ctx, s.posts, postIDs, "post liked by "+userID,
				func(ctx context.Context, postIDs []string) ([]*blog.Post, error) {
					return s.readLiked(ctx, userID, postIDs)
				})
		})
}

// readLiked reads posts with the likes of a user in one request: nil for those that the user does not like.
func (s *savedStore) readLiked(ctx context.Context, userID string, postIDs []string) ([]*blog.Post, error) {
	const op = "read liked posts"
	var keys []cosmos.Key
	for _, id := range postIDs {
		keys = append(keys, stored.Key(id, id), stored.Key(id, blog.LikeID(userID)))
	}
	items, err := s.posts.ReadMany(ctx, keys)
	if err != nil {
		return nil, stored.Error(op, err)
	}
	posts, liked := map[string]*blog.Post{}, map[string]bool{}
	for _, raw := range items {
		post, err := blog.DecodePost(op, raw)
		if err != nil {
			return nil, err
		}
		if post != nil {
			posts[post.ID] = s.visible(post)
			continue
		}
		like, err := blog.DecodeLike(op, raw)
		if err != nil {
			return nil, err
		}
		if like != nil {
			liked[like.PostID] = true
		}
	}
	found := make([]*blog.Post, len(postIDs))
	for i, id := range postIDs {
		if liked[id] {
			found[i] = posts[id]
		}
	}
	addDerived(ctx, found...)
	return found, nil
}

// page returns a page of a user's own list. read returns the posts with ids: nil for those that the list has no more,
// whose items it has removed.
func (s *savedStore) page(
	ctx context.Context, op, userID, typ string, p Paging,
	read func(_ context.Context, postIDs []string) ([]*blog.Post, error),
) (*Page[*blog.Post], error) {
	p.Order = NewestFirst
	l := list[blog.Saved]{op: op, container: s.users, key: "userId", partition: userID, typ: typ, uncached: true,
		format: blog.SavedPosts, deletions: s.deletions,
		show:     func(e *blog.Saved) bool { return !s.deletions.Hides(userID, e.SavedAt) },
		position: func(e *blog.Saved) (blog.Date, string) { return e.SavedAt, blog.SavedID(typ, e.PostID) }}
	l.filter = func(ctx context.Context, entries []blog.Saved) (found []blog.Saved, err error) {
		ids := make([]string, len(entries))
		for i, e := range entries {
			ids[i] = e.PostID
		}
		posts, err := read(ctx, ids)
		if err != nil {
			return nil, err
		}
		for i, e := range entries {
			if e.Post = posts[i]; e.Post != nil {
				found = append(found, e)
			} else {
				s.views.DeleteOrphan(typ, userID, e.PostID)
			}
		}
		return found, nil
	}
	saved, err := l.page(ctx, p)
	if err != nil {
		return nil, err
	}
	at := map[string]blog.Date{}
	page := &Page[*blog.Post]{More: saved.More, list: saved.list, seen: saved.seen, after: saved.after,
		position: func(p *blog.Post) (blog.Date, string) { return at[p.ID], blog.SavedID(typ, p.ID) }}
	for _, e := range saved.Items {
		at[e.PostID] = e.SavedAt
		page.Items = append(page.Items, e.Post)
	}
	return page, nil
}

// BookmarkCount counts the bookmarks of a user by one query of the user's partition. It includes those of deleted posts
// until Bookmarks has met them.
func (s *savedStore) BookmarkCount(ctx context.Context, userID string) (int32, error) {
	n, err := s.count(s.beginRead(ctx, PostCount), "count bookmarks", userID, blog.TypeBookmark)
	return int32(n), err
}

// LikedCount counts the posts that a user likes, by one query of the user's partition. It includes a like that was
// removed or whose post was deleted until LikedPosts or the process that removed it has deleted the view.
func (s *savedStore) LikedCount(ctx context.Context, userID string) (int32, error) {
	n, err := s.count(s.beginRead(ctx, PostCount), "count liked posts", userID, blog.TypeLiked)
	return int32(n), err
}

func (s *savedStore) count(ctx context.Context, op, userID, typ string) (int, error) {
	return countItems(ctx, op, s.users, cosmos.Query{Partition: userID,
		Text: "SELECT VALUE COUNT(1) FROM c WHERE c.userId = @user AND c.type = @type",
	}.With("@user", userID).With("@type", typ))
}
