package graph

import (
	"context"

	"byline/store"
)

// pageKey names one page of one list: of the comments or likes of a post, or of
// the posts of a user.
type pageKey struct {
	parent string
	paging store.Paging
}

// The pages of a response are read through its memos, so that a page that two
// fields ask for, or that answered for its parent (see reference.go), is read once.

func (r *Resolver) commentPage(ctx context.Context, postID string, p store.Paging) (*store.Page[*store.Comment], error) {
	l := loadersOf(ctx)
	return l.commentPages.do(pageKey{postID, p}, func() (*store.Page[*store.Comment], error) {
		announce := l.users.expect()
		return readPage(func() (*store.Page[*store.Comment], error) { return r.store.Comments(ctx, postID, p) }, func(comments []*store.Comment) {
			announce(func() []string { return keysOf(comments, func(c *store.Comment) string { return c.AuthorID }) })
		})
	})
}

func (r *Resolver) likePage(ctx context.Context, postID string, p store.Paging) (*store.Page[*store.Like], error) {
	l := loadersOf(ctx)
	return l.likePages.do(pageKey{postID, p}, func() (*store.Page[*store.Like], error) {
		announce := l.users.expect()
		return readPage(func() (*store.Page[*store.Like], error) { return r.store.Likes(ctx, postID, p) }, func(likes []*store.Like) {
			announce(func() []string { return keysOf(likes, func(l *store.Like) string { return l.UserID }) })
		})
	})
}

func (r *Resolver) userPostPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*store.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{userID, p}, func() (*store.Page[*store.Post], error) {
		return readPage(func() (*store.Page[*store.Post], error) { return r.store.UserPosts(ctx, userID, p) }, l.expectPosts())
	})
}

// feedPage is a page of the feed, which has no parent.
func (r *Resolver) feedPage(ctx context.Context, p store.Paging) (*store.Page[*store.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"", p}, func() (*store.Page[*store.Post], error) {
		return readPage(func() (*store.Page[*store.Post], error) { return r.store.Feed(ctx, p) }, l.expectPosts())
	})
}

// readPage reads a page and announces what its items, of which there are none if it fails, may
// be asked for.
func readPage[T any](read func() (*store.Page[T], error), announce func(items []T)) (*store.Page[T], error) {
	var items []T
	defer func() { announce(items) }()
	page, err := read()
	if err == nil {
		items = page.Items
	}
	return page, err
}

// expectPosts says that posts in short form are being read, and returns what announces what
// they may be asked for and lack.
func (l *loaders) expectPosts() func([]*store.Post) {
	users, liked, whole := l.users.expect(), l.liked.expect(), l.posts.expect()
	return func(posts []*store.Post) {
		users(func() []string { return keysOf(posts, func(p *store.Post) string { return p.AuthorID }) })
		liked(func() []string { return keysOf(posts, func(p *store.Post) string { return p.ID }) })
		whole(func() []string {
			return keysOf(posts, func(p *store.Post) string {
				if !p.Truncated {
					return "" // has its whole content
				}
				return p.ID
			})
		})
	}
}

// keysOf collects the keys of items, but for empty ones.
func keysOf[T any](items []T, key func(T) string) []string {
	keys := make([]string, 0, len(items))
	for _, item := range items {
		if k := key(item); k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}
