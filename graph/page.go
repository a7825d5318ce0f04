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
		page, err := r.store.Comments(ctx, postID, p)
		if err == nil {
			l.users.announce(func() []string { return keysOf(page.Items, func(c *store.Comment) string { return c.AuthorID }) })
		}
		return page, err
	})
}

func (r *Resolver) likePage(ctx context.Context, postID string, p store.Paging) (*store.Page[*store.Like], error) {
	l := loadersOf(ctx)
	return l.likePages.do(pageKey{postID, p}, func() (*store.Page[*store.Like], error) {
		page, err := r.store.Likes(ctx, postID, p)
		if err == nil {
			l.users.announce(func() []string { return keysOf(page.Items, func(l *store.Like) string { return l.UserID }) })
		}
		return page, err
	})
}

func (r *Resolver) userPostPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*store.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{userID, p}, func() (*store.Page[*store.Post], error) {
		page, err := r.store.UserPosts(ctx, userID, p)
		if err == nil {
			l.announcePosts(page.Items)
		}
		return page, err
	})
}

// feedPage is a page of the feed, which has no parent.
func (r *Resolver) feedPage(ctx context.Context, p store.Paging) (*store.Page[*store.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"", p}, func() (*store.Page[*store.Post], error) {
		page, err := r.store.Feed(ctx, p)
		if err == nil {
			l.announcePosts(page.Items)
		}
		return page, err
	})
}

// announcePosts announces what posts in short form may be asked for and lack.
func (l *loaders) announcePosts(posts []*store.Post) {
	l.users.announce(func() []string { return keysOf(posts, func(p *store.Post) string { return p.AuthorID }) })
	l.liked.announce(func() []string { return keysOf(posts, func(p *store.Post) string { return p.ID }) })
	l.posts.announce(func() []string {
		return keysOf(posts, func(p *store.Post) string {
			if !p.Truncated {
				return "" // has its whole content
			}
			return p.ID
		})
	})
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
