package graph

import (
	"cmp"
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/graph/globalid"
	"byline/graph/transport"
	"byline/store"
	"byline/store/blog"
)

// laterCost predicts what views and jobs charge after the response of a mutation, if the response reports its cost.
type laterCost struct{ store *store.Store }

var _ interface {
	graphql.HandlerExtension
	graphql.RootFieldInterceptor
} = laterCost{}

func (laterCost) ExtensionName() string                   { return "LaterCost" }
func (laterCost) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptRootField adds the prediction of a mutation that succeeds.
func (l laterCost) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	meter := &transport.RequestOf(ctx).Meter
	if meter.Detail == cost.None || !isOf(ctx, ast.Mutation) {
		return next(ctx)
	}
	field, variables := graphql.GetRootFieldContext(ctx).Field.Field, graphql.GetOperationContext(ctx).Variables
	input, _ := field.ArgumentMap(variables)["input"].(map[string]any)
	count := l.before(cost.WithField(ctx, field.Alias), field.Name, input)
	payload := next(ctx)
	if payload == graphql.Null {
		return payload // refused: nothing is written later
	}
	var items blog.Items
	if count != nil {
		var err error
		if items, err = count(); err != nil {
			return payload // not known
		}
	}
	renamed := field.Name == "updateUser" && count != nil
	meter.AddLater(cost.LaterOf(field, variables).Of(items, renamed),
		items.Posts+items.Others+items.Below+items.Followers+items.Following)
	return payload
}

// counter counts the items that views and a job will write, once the mutation has succeeded.
type counter func() (blog.Items, error)

// before returns the counter of a mutation; nil if it needs none. What the mutation deletes is counted before.
func (l laterCost) before(ctx context.Context, mutation string, input map[string]any) counter {
	text, _ := input["id"].(string)
	id, _ := globalid.Parse(text)
	known := func(n blog.Items, err error) counter { return func() (blog.Items, error) { return n, err } }
	switch mutation {
	case "createPost", "updatePost":
		tags, _ := input["tags"].([]any)
		return known(blog.Items{Tags: len(tags)}, nil)
	case "deletePost":
		if post, _ := l.store.Post(ctx, id.Key); post != nil {
			return known(blog.Items{Tags: len(post.Tags), Below: int(post.CommentCount + post.LikeCount)}, nil)
		}
	case "updateUser":
		if l.renames(ctx, input) {
			return func() (n blog.Items, err error) {
				n, err = l.userItems(ctx, viewerID(ctx))
				n.Below, n.Followers = 0, 0
				return n, err
			}
		}
	case "deleteUser":
		viewer, moderator := viewerAndRole(ctx)
		if userID := cmp.Or(id.Key, viewer); userID == viewer || moderator {
			return known(l.userItems(ctx, userID))
		}
	}
	return nil
}

// userItems counts the items of a user, for one mutation of a request: that may cost more than a mutation that is
// refused.
func (l laterCost) userItems(ctx context.Context, userID string) (blog.Items, error) {
	if !transport.RequestOf(ctx).Meter.CountLater() {
		return blog.Items{}, errCounted
	}
	return l.store.UserItems(ctx, userID)
}

var errCounted = errors.New("another mutation of the request has counted items")

// renames reports whether the input of updateUser changes the viewer's byline.
func (l laterCost) renames(ctx context.Context, input map[string]any) bool {
	user, err := l.store.User(ctx, viewerID(ctx))
	if user == nil || err != nil {
		return false
	}
	changes := func(name, have string) bool {
		want, given := input[name]
		text, _ := want.(string)
		return given && text != have
	}
	if input["avatar"] != nil {
		return true
	}
	return changes("username", user.Username) || changes("displayName", user.DisplayName) ||
		changes("avatarUrl", user.AvatarURL)
}
