package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/plan"
	"byline/store"
	"byline/store/blog"
)

// A post or user of which only the id and one list are selected, as in
//
//	post(id: $id) { id comments(first: 10) { ... } }
//	node(id: $id) { ... on Post { comments(first: 10, after: $cursor) { ... } } }
//
// is not read. Its list is: a page that is not empty proves that the parent exists, and a
// reference, a struct with only the id, suffices. The list's resolver then finds the page in
// the memo of the response. Only if the page is empty is the parent read, to distinguish an
// empty list from an unknown parent.

// post reads a post, or returns a reference to it if the current field needs no more. It
// returns nil for an unknown post. While users are being deleted, a page does not prove that
// its post is visible.
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
	return loadersOf(ctx).posts.readOne(id, func() (*blog.Post, error) { return r.store.Post(ctx, id) })
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
			return &blog.User{ID: id}, nil
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
	for _, selected := range graphql.CollectFields(graphql.GetOperationContext(ctx), field.Selections, []string{typeName, "Node"}) {
		switch selected.Name {
		case "id", "__typename":
		case "comments", "likes", "posts":
			if list != nil {
				return nil
			}
			list = selected.Field
		default:
			return nil
		}
	}
	return list
}
