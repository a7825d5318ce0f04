package graph

import (
	"cmp"
	"context"

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
	items, job := l.items(cost.WithField(ctx, field.Alias), field.Name, input)
	payload := next(ctx)
	if payload != graphql.Null {
		meter.AddLater(cost.LaterOf(field, variables).Of(items, job), items.Posts+items.Others+items.Below)
	}
	return payload
}

// items counts the items that the views and the job of a mutation will write, as far as they are many and can be
// counted; job says that the mutation renames the viewer.
func (l laterCost) items(ctx context.Context, mutation string, input map[string]any) (n blog.Items, job bool) {
	text, _ := input["id"].(string)
	id, _ := globalid.Parse(text)
	switch mutation {
	case "createPost", "updatePost":
		tags, _ := input["tags"].([]any)
		n.Tags = len(tags)
	case "deletePost":
		if post, _ := l.store.Post(ctx, id.Key); post != nil {
			n.Tags, n.Below = len(post.Tags), int(post.CommentCount+post.LikeCount)
		}
	case "updateUser":
		if job = l.renames(ctx, input); job {
			n, _ = l.store.UserItems(ctx, viewerID(ctx))
			n.Below = 0
		}
	case "deleteUser":
		n, _ = l.store.UserItems(ctx, cmp.Or(id.Key, viewerID(ctx)))
	}
	return n, job
}

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
	return changes("username", user.Username) || changes("displayName", user.DisplayName) ||
		changes("avatarUrl", user.AvatarURL)
}
