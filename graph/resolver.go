package graph

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
)

//go:generate go tool gqlgen generate

// Resolver resolves the fields that a plain read of a struct cannot.
type Resolver struct {
	store *store.Store
}

// idempotencyKey reads the key of a create; "" without one. The store checks the
// rest; here only a key that is given and empty, which it could not tell from none.
func idempotencyKey(key graphql.Omittable[*string]) (string, error) {
	switch k := key.Value(); {
	case k == nil:
		return "", nil
	case *k == "":
		return "", refusal.Input("idempotencyKey", "idempotencyKey must have 1 to 100 characters")
	default:
		return *k, nil
	}
}

// inputErrors returns all that is wrong with an input, so that each problem is an error of
// its own in the response: a form can mark all of its fields at once. It returns nil if
// nothing is. Errors may be joined.
func inputErrors(ctx context.Context, errs ...error) error {
	var all gqlerror.List
	var add func(error)
	add = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				add(err)
			}
			return
		}
		e := gqlerror.Wrap(err)
		_ = graphql.AddFieldLocationToError(ctx, e) // the executor would for the first alone
		all = append(all, e)
	}
	if err := errors.Join(errs...); err != nil {
		add(err)
		return all
	}
	return nil
}

// explainRefusal looks again at an edit that the store refused: to a signed-in subject
// without a user nothing belongs, and the better answer is what to do about it.
func (r *Resolver) explainRefusal(ctx context.Context, err error) error {
	code := blog.CodeOf(err)
	if code != blog.Forbidden && code != blog.NotFound {
		return err
	}
	if user, readErr := r.store.User(ctx, viewerID(ctx)); user != nil || readErr != nil {
		return err
	}
	return &refusal.Error{Code: refusal.Forbidden, Message: "you have no user yet: call createUser first", Err: err}
}

// primePost remembers the post of a payload, so that fields below it read it no more. The text
// of a long post is read if it is selected.
func primePost(ctx context.Context, post *blog.Post) *blog.Post {
	l := loadersOf(ctx)
	if !post.Truncated {
		l.posts.prime(post.ID, post)
	}
	l.written.Store(post)
	return post
}
