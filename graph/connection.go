package graph

import (
	"context"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/globalid"
	"byline/graph/model"
	"byline/graph/names"
	"byline/graph/plan"
	"byline/store"
	"byline/store/blog"
)

func postConnection(page *store.Page[*blog.Post], total store.Total) *model.PostConnection {
	c := &model.PostConnection{Total: total, Edges: make([]*model.PostEdge, len(page.Items)),
		PageInfo: plan.PageInfo(page)}
	for i, post := range page.Items {
		c.Edges[i] = &model.PostEdge{Cursor: page.Cursor(i), Node: post}
	}
	return c
}

func commentConnection(page *store.Page[*blog.Comment], total int32) *model.CommentConnection {
	c := &model.CommentConnection{TotalCount: total, Edges: make([]*model.CommentEdge, len(page.Items)),
		PageInfo: plan.PageInfo(page)}
	for i, comment := range page.Items {
		c.Edges[i] = &model.CommentEdge{Cursor: page.Cursor(i), Node: comment}
	}
	return c
}

func likeConnection(page *store.Page[*blog.Like], total int32) *model.LikeConnection {
	c := &model.LikeConnection{TotalCount: total, Edges: make([]*model.LikeEdge, len(page.Items)),
		PageInfo: plan.PageInfo(page)}
	for i, like := range page.Items {
		c.Edges[i] = &model.LikeEdge{Cursor: page.Cursor(i), Node: like}
	}
	return c
}

func searchConnection(page *store.Page[*store.Found]) *model.SearchConnection {
	c := &model.SearchConnection{Edges: make([]*model.SearchEdge, len(page.Items)), PageInfo: plan.PageInfo(page)}
	for i, found := range page.Items {
		c.Edges[i] = &model.SearchEdge{Cursor: page.Cursor(i), Node: found.Post, Snippet: &found.Snippet}
	}
	return c
}

func userConnection(ctx context.Context, page *store.Page[*blog.Follow], total store.Total) *model.UserConnection {
	c := &model.UserConnection{Total: total, Edges: make([]*model.UserEdge, len(page.Items)),
		PageInfo: plan.PageInfo(page)}
	for i, f := range page.Items {
		c.Edges[i] = &model.UserEdge{Cursor: page.Cursor(i), Node: names.From(ctx).User(f.User)}
	}
	return c
}

// commentEdge returns a comment as an edge of the post's comments, newest first.
func (r *Resolver) commentEdge(c *blog.Comment) *model.CommentEdge {
	return &model.CommentEdge{Cursor: r.store.CommentCursor(c), Node: c}
}

// postEdge returns a post of a payload as an edge of its author's posts, or drafts.
func (r *Resolver) postEdge(ctx context.Context, p *blog.Post) *model.PostEdge {
	return &model.PostEdge{Cursor: r.store.PostCursor(p), Node: primePost(ctx, p)}
}

// Pages are read through the memos of a response: a page that two fields select, or that proved
// that its parent exists (see Resolver.post), is read once.

// pageKey identifies a page: of the comments or likes of a post, or of the posts of a user, of a month or with a tag.
type pageKey struct {
	parent string
	paging store.Paging
}

func (r *Resolver) commentPage(ctx context.Context, postID string, p store.Paging) (*store.Page[*blog.Comment], error) {
	l := loadersOf(ctx)
	return l.commentPages.do(pageKey{postID, p}, func() (*store.Page[*blog.Comment], error) {
		announce := l.expectUsers()
		read := func() (*store.Page[*blog.Comment], error) { return r.store.Comments(ctx, postID, p) }
		return readPage(read, func(comments []*blog.Comment) {
			announce(func() []string { return keysOf(comments, func(c *blog.Comment) string { return c.UserID }) })
		})
	})
}

func (r *Resolver) likePage(ctx context.Context, postID string, p store.Paging) (*store.Page[*blog.Like], error) {
	l := loadersOf(ctx)
	return l.likePages.do(pageKey{postID, p}, func() (*store.Page[*blog.Like], error) {
		announce := l.expectUsers()
		read := func() (*store.Page[*blog.Like], error) { return r.store.Likes(ctx, postID, p) }
		return readPage(read, func(likes []*blog.Like) {
			announce(func() []string { return keysOf(likes, func(l *blog.Like) string { return l.UserID }) })
		})
	})
}

func (r *Resolver) followerPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Follow], error) {
	l := loadersOf(ctx)
	return l.followerPages.do(pageKey{userID, p}, func() (*store.Page[*blog.Follow], error) {
		return readFollows(l, func() (*store.Page[*blog.Follow], error) { return r.store.Followers(ctx, userID, p) })
	})
}

// followingPage is a page of the users whom a user follows, who are read with it.
func (r *Resolver) followingPage(
	ctx context.Context, userID string, p store.Paging,
) (*store.Page[*blog.Follow], error) {
	l := loadersOf(ctx)
	return l.followingPages.do(pageKey{userID, p}, func() (*store.Page[*blog.Follow], error) {
		return readFollows(l, func() (*store.Page[*blog.Follow], error) { return r.store.Following(ctx, userID, p) })
	})
}

// readFollows is readPage for a page of users.
func readFollows(
	l *loaders, read func() (*store.Page[*blog.Follow], error),
) (*store.Page[*blog.Follow], error) {
	announce := l.expectUsers()
	return readPage(read, func(follows []*blog.Follow) {
		announce(func() []string { return keysOf(follows, func(f *blog.Follow) string { return f.UserID }) })
	})
}

func (r *Resolver) userPostPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{userID, p}, func() (*store.Page[*blog.Post], error) {
		read := func() (*store.Page[*blog.Post], error) { return r.store.UserPosts(ctx, userID, p) }
		return readPage(read, l.expectPosts())
	})
}

// draftPage is a page of the viewer's drafts. The key of its memo differs from every user's id.
func (r *Resolver) draftPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"drafts:" + userID, p}, func() (*store.Page[*blog.Post], error) {
		read := func() (*store.Page[*blog.Post], error) { return r.store.UserDrafts(ctx, userID, p) }
		return readPage(read, l.expectFrom(l.drafts))
	})
}

// bookmarkPage is a page of the viewer's bookmarks. The key of its memo differs from every user's id.
func (r *Resolver) bookmarkPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"bookmarks:" + userID, p}, func() (*store.Page[*blog.Post], error) {
		read := func() (*store.Page[*blog.Post], error) { return r.store.Bookmarks(ctx, userID, p) }
		return readPage(read, l.expectPosts())
	})
}

// likedPostPage is a page of the posts that the viewer likes. The key of its memo differs from every user's id.
func (r *Resolver) likedPostPage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"liked:" + userID, p}, func() (*store.Page[*blog.Post], error) {
		read := func() (*store.Page[*blog.Post], error) { return r.store.LikedPosts(ctx, userID, p) }
		return readPage(read, l.expectPosts())
	})
}

// homePage is a page of the viewer's home feed. The key of its memo differs from every user's id.
func (r *Resolver) homePage(ctx context.Context, userID string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"home:" + userID, p}, func() (*store.Page[*blog.Post], error) {
		return readPage(func() (*store.Page[*blog.Post], error) { return r.store.Home(ctx, userID, p) },
			l.expectPosts())
	})
}

// feedPage is a page of the feed, which has no parent.
func (r *Resolver) feedPage(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"", p}, func() (*store.Page[*blog.Post], error) {
		return readPage(func() (*store.Page[*blog.Post], error) { return r.store.Feed(ctx, p) }, l.expectPosts())
	})
}

// archivePage is a page of the posts of a month. The key of its memo differs from every user's id.
func (r *Resolver) archivePage(ctx context.Context, month string, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"month:" + month, p}, func() (*store.Page[*blog.Post], error) {
		read := func() (*store.Page[*blog.Post], error) { return r.store.Archive(ctx, month, p) }
		return readPage(read, l.expectPosts())
	})
}

// tagPostPage is a page of the posts with a tag. The key of its memo differs from every user's id.
func (r *Resolver) tagPostPage(ctx context.Context, tag *store.Tag, p store.Paging) (*store.Page[*blog.Post], error) {
	l := loadersOf(ctx)
	return l.postPages.do(pageKey{"tag:" + tag.Name, p}, func() (*store.Page[*blog.Post], error) {
		read := func() (*store.Page[*blog.Post], error) { return r.store.TagPosts(ctx, tag, p) }
		return readPage(read, l.expectPosts())
	})
}

// searchKey identifies a page of a search.
type searchKey struct {
	search store.Search
	paging store.Paging
}

// searchPage is a page of the posts that a search finds.
func (r *Resolver) searchPage(
	ctx context.Context, q store.Search, p store.Paging,
) (*store.Page[*store.Found], error) {
	l := loadersOf(ctx)
	return l.searchPages.do(searchKey{q, p}, func() (*store.Page[*store.Found], error) {
		announce := l.expectPosts()
		read := func() (*store.Page[*store.Found], error) { return r.store.Search(ctx, q, p) }
		return readPage(read, func(found []*store.Found) {
			posts := make([]*blog.Post, len(found))
			for i, f := range found {
				posts[i] = f.Post
			}
			announce(posts)
		})
	})
}

// searchOf returns the search of the arguments of Query.search. An empty tag stands for all posts.
func searchOf(query string, order *store.SearchOrder, tag, author *string) (store.Search, error) {
	q := store.Search{Query: query, Order: store.ByRelevance}
	if order != nil && *order != "" {
		q.Order = *order
	}
	if tag != nil {
		q.Tag = *tag
	}
	if author == nil {
		return q, nil
	}
	var err error
	q.AuthorID, err = parseIDOf(globalid.User, "author", *author)
	return q, err
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
func (l *loaders) expectPosts() func([]*blog.Post) { return l.expectFrom(l.posts) }

// expectUsers is called before items with bylines are read. The function that it returns announces the keys that their
// users' fields may load.
func (l *loaders) expectUsers() func(ids func() []string) {
	users, follows := l.users.expect(), l.follows.expect()
	return func(ids func() []string) {
		users(ids)
		follows(ids)
	}
}

// expectFrom is expectPosts, given what loads truncated posts.
func (l *loaders) expectFrom(posts *loader[string, *blog.Post]) func([]*blog.Post) {
	users, liked, bookmarked, whole := l.expectUsers(), l.liked.expect(), l.bookmarked.expect(), posts.expect()
	return func(posts []*blog.Post) {
		ids := func() []string { return keysOf(posts, func(p *blog.Post) string { return p.ID }) }
		users(func() []string { return keysOf(posts, func(p *blog.Post) string { return p.UserID }) })
		liked(ids)
		bookmarked(ids)
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

// A post or user of which only the id and one list are selected, as in
//
//	post(id: $id) { id comments(first: 10) { ... } }
//	node(id: $id) { ... on Post { comments(first: 10, after: $cursor) { ... } } }
//
// is not read. Its list is: a page that is not empty proves that the parent exists, and a
// reference, a struct with only the id, suffices. The list's resolver then finds the page in
// the memo of the response. Only if the page is empty is the parent read, to distinguish an
// empty list from an unknown parent. If the totalCount of the list is selected, the post is read, which has it.

// post reads a post, or returns a reference to it if the current field needs no more. It
// returns nil for an unknown post. While users are being deleted, a page does not prove that
// its post is visible. A post that does not exist may be a draft of the viewer's.
func (r *Resolver) post(ctx context.Context, id string) (*blog.Post, error) {
	if list := soleList(ctx, "Post"); list != nil {
		p, err := plan.Paging(ctx, list)
		var found int
		switch {
		case err != nil: // for the list's resolver to report, at its path
		case list.Name == "comments":
			var page *store.Page[*blog.Comment]
			if page, err = r.commentPage(ctx, id, p); err == nil {
				found = len(page.Items)
			}
		case list.Name == "likes":
			var page *store.Page[*blog.Like]
			if page, err = r.likePage(ctx, id, p); err == nil {
				found = len(page.Items)
			}
		}
		if err != nil || found > 0 && !r.store.HidesUsers() {
			return &blog.Post{ID: id}, nil
		}
	}
	l := loadersOf(ctx)
	p, err := l.posts.readOne(id, func() (*blog.Post, error) { return r.store.Post(ctx, id) })
	if p == nil && err == nil && viewerID(ctx) != "" {
		return l.drafts.load(ctx, id)
	}
	return p, err
}

// user is post for users.
func (r *Resolver) user(ctx context.Context, id string) (*blog.User, error) {
	if list := soleList(ctx, "User"); list != nil {
		p, err := plan.Paging(ctx, list)
		var found int
		if err == nil {
			var page *store.Page[*blog.Post]
			if page, err = r.userPostPage(ctx, id, p); err == nil {
				found = len(page.Items)
			}
		}
		if err != nil || found > 0 {
			return &blog.User{Byline: blog.Byline{UserID: id}}, nil
		}
	}
	return loadersOf(ctx).users.readOne(id, func() (*blog.User, error) { return r.store.User(ctx, id) })
}

// soleList returns the list field that is selected on the current field's object, of the
// given type, if nothing else but the id is selected; nil otherwise. It sees the selection as
// the executor does: merged, fragments spread, @skip and @include applied.
func soleList(ctx context.Context, typeName string) *ast.Field {
	field := graphql.GetFieldContext(ctx).Field
	var list *ast.Field
	for _, selected := range graphql.CollectFields(graphql.GetOperationContext(ctx), field.Selections,
		[]string{typeName, "Node"}) {
		switch selected.Name {
		case "id", "__typename":
		case "comments", "likes", "posts":
			if list != nil || hasTotal(ctx, selected) {
				return nil
			}
			list = selected.Field
		default:
			return nil
		}
	}
	return list
}

// hasTotal reports whether the totalCount of a list is selected.
func hasTotal(ctx context.Context, list graphql.CollectedField) bool {
	selected := graphql.CollectFields(graphql.GetOperationContext(ctx), list.Selections,
		[]string{list.Definition.Type.Name()})
	return slices.ContainsFunc(selected, func(f graphql.CollectedField) bool { return f.Name == "totalCount" })
}
