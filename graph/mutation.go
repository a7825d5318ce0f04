package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"byline/store"
)

// idempotencyKey reads the key of a create; "" without one. The store checks the
// rest; here only a key that is given and empty, which it could not tell from none.
func idempotencyKey(key graphql.Omittable[*string]) (string, error) {
	switch k := key.Value(); {
	case k == nil:
		return "", nil
	case *k == "":
		return "", refuse("idempotencyKey", "idempotencyKey must have 1 to 100 characters")
	default:
		return *k, nil
	}
}

// whyRefused looks again at an edit that the store refused: to a signed-in subject
// without a user nothing belongs, and the better answer is what to do about it.
func (r *Resolver) whyRefused(ctx context.Context, err error) error {
	code := store.CodeOf(err)
	if code != store.Forbidden && code != store.NotFound {
		return err
	}
	if user, readErr := r.store.User(ctx, viewerID(ctx)); user != nil || readErr != nil {
		return err
	}
	return &refusal{code: forbidden, message: "you have no user yet: call createUser first", err: err}
}

// primed remembers the post of a payload, so that fields below it read it no more.
func primed(ctx context.Context, post *store.Post) *store.Post {
	if !post.Truncated {
		loadersOf(ctx).posts.prime(post.ID, post)
	}
	return post
}
