package graph

import (
	"context"

	"byline/graph/fields"
	"byline/graph/model"
	"byline/store"
	"byline/store/blog"
)

// pagingOf makes the arguments of a list the store's, which judges them. A null
// first is the default, an empty after the beginning.
func pagingOf(first *int32, after *string, order *store.Order) store.Paging {
	p := store.Paging{First: fields.DefaultPage}
	if first != nil {
		p.First = int(*first)
	}
	if after != nil {
		p.After = *after
	}
	if order != nil {
		p.Order = *order
	}
	return p
}

func postConnection(page *store.Page[*blog.Post]) *model.PostConnection {
	c := &model.PostConnection{Edges: make([]*model.PostEdge, len(page.Items)), PageInfo: pageInfo(page)}
	for i, post := range page.Items {
		c.Edges[i] = &model.PostEdge{Cursor: page.Cursor(i), Node: post}
	}
	return c
}

func commentConnection(page *store.Page[*blog.Comment]) *model.CommentConnection {
	c := &model.CommentConnection{Edges: make([]*model.CommentEdge, len(page.Items)), PageInfo: pageInfo(page)}
	for i, comment := range page.Items {
		c.Edges[i] = &model.CommentEdge{Cursor: page.Cursor(i), Node: comment}
	}
	return c
}

func likeConnection(page *store.Page[*blog.Like]) *model.LikeConnection {
	c := &model.LikeConnection{Edges: make([]*model.LikeEdge, len(page.Items)), PageInfo: pageInfo(page)}
	for i, like := range page.Items {
		c.Edges[i] = &model.LikeEdge{Cursor: page.Cursor(i), Node: like}
	}
	return c
}

func pageInfo[T any](page *store.Page[T]) *model.PageInfo {
	info := &model.PageInfo{HasNextPage: page.More}
	if n := len(page.Items); n > 0 {
		first, last := page.Cursor(0), page.Cursor(n-1)
		info.StartCursor, info.EndCursor = &first, &last
	}
	return info
}

// The pages of a response are read through its memos: a page that two fields select, or that
// proved that its parent exists (see parents.go), is read once.

// pageKey names one page of one list: of the comments or likes of a post, or of
// the posts of a user.
type pageKey struct {
	parent string
	paging store.Paging
}

func (r *Resolver) commentPage(ctx context.Context, postID string, p store.Paging) (*store.Page[*blog.Comment], error) {
	l := loadersOf(ctx)
	return l.commentPages.do(pageKey{postID, p}, func() (*store.Page[*blog.Comment], error) {
		announce := l.users.expect()
		return readPage(func() (*store.Page[*blog.Comment], error) { return r.store.Comments(ctx, postID, p) }, func(comments []*blog.Comment) {
			announce(func() []string { return keysOf(comments, func(c *blog.Comment) string { return c.AuthorID }) })
		})
	})
}

func (r *Resolver) likePage(ctx context.Context, postID string, p store.Paging) (*store.Page[*blog.Like], error) {
	l := loadersOf(ctx)
	return l.likePages.do(pageKey{postID, p}, func() (*store.Page[*blog.Like], error) {
		announce := l.users.expect()
		return readPage(func() (*store.Page[*blog.Like], error) { return r.store.Likes(ctx, postID, p) }, func(likes []*blog.Like) {
			announce(func() []string { return keysOf(likes, func(l *blog.Like) string { return l.UserID }) })
		})
	})
}

func (r *Resolver) userPostPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{userID, p}, func() (*store.Page[*blog.Post], error) {
		return readPage(func() (*store.Page[*blog.Post], error) { return r.store.UserPosts(ctx, userID, p) }, l.expectPosts())
	})
}

// feedPage is a page of the feed, which has no parent.
func (r *Resolver) feedPage(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"", p}, func() (*store.Page[*blog.Post], error) {
		return readPage(func() (*store.Page[*blog.Post], error) { return r.store.Feed(ctx, p) }, l.expectPosts())
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
func (l *loaders) expectPosts() func([]*blog.Post) {
	users, liked, whole := l.users.expect(), l.liked.expect(), l.posts.expect()
	return func(posts []*blog.Post) {
		users(func() []string { return keysOf(posts, func(p *blog.Post) string { return p.AuthorID }) })
		liked(func() []string { return keysOf(posts, func(p *blog.Post) string { return p.ID }) })
		whole(func() []string {
			return keysOf(posts, func(p *blog.Post) string {
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
