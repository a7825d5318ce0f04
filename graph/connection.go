package graph

import (
	"context"

	"byline/graph/model"
	"byline/graph/plan"
	"byline/store"
	"byline/store/blog"
)

func postConnection(page *store.Page[*blog.Post]) *model.PostConnection {
	c := &model.PostConnection{Edges: make([]*model.PostEdge, len(page.Items)), PageInfo: plan.PageInfo(page)}
	for i, post := range page.Items {
		c.Edges[i] = &model.PostEdge{Cursor: page.Cursor(i), Node: post}
	}
	return c
}

func commentConnection(page *store.Page[*blog.Comment]) *model.CommentConnection {
	c := &model.CommentConnection{Edges: make([]*model.CommentEdge, len(page.Items)), PageInfo: plan.PageInfo(page)}
	for i, comment := range page.Items {
		c.Edges[i] = &model.CommentEdge{Cursor: page.Cursor(i), Node: comment}
	}
	return c
}

func likeConnection(page *store.Page[*blog.Like]) *model.LikeConnection {
	c := &model.LikeConnection{Edges: make([]*model.LikeEdge, len(page.Items)), PageInfo: plan.PageInfo(page)}
	for i, like := range page.Items {
		c.Edges[i] = &model.LikeEdge{Cursor: page.Cursor(i), Node: like}
	}
	return c
}

// Pages are read through the memos of a response: a page that two fields select, or that proved
// that its parent exists (see parents.go), is read once.

// pageKey identifies a page: of the comments or likes of a post, or of the posts of a user.
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

// readPage reads a page and passes its items to announce: none if the read fails.
func readPage[T any](read func() (*store.Page[T], error), announce func(items []T)) (*store.Page[T], error) {
	var items []T
	defer func() { announce(items) }()
	page, err := read()
	if err == nil {
		items = page.Items
	}
	return page, err
}

// expectPosts is called before summaries of posts are read: see expect. The function that it
// returns announces the keys that their fields may load: authors, likes, and truncated posts.
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

// keysOf returns the non-empty keys of items.
func keysOf[T any](items []T, key func(T) string) []string {
	keys := make([]string, 0, len(items))
	for _, item := range items {
		if k := key(item); k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}
