package graph

import (
	"context"

	"byline/graph/names"
	"byline/store/blog"
)

// counted returns a user with the counts of follows, which bylines lack. Those of a deleted user are 0.
func counted(ctx context.Context, u *names.User) (blog.User, error) {
	if u.CreatedAt != "" {
		return u.User, nil
	}
	user, err := loadersOf(ctx).users.load(ctx, u.UserID)
	if user == nil || err != nil {
		return u.User, err
	}
	return *user, nil
}

// viewerFollows reports whether the viewer follows a user; nil for an anonymous viewer.
func viewerFollows(ctx context.Context, userID string) (*bool, error) {
	viewer := viewerID(ctx)
	if viewer == "" {
		return nil, nil
	}
	if viewer == userID {
		return new(false), nil
	}
	follows, err := loadersOf(ctx).follows.load(ctx, userID)
	if err != nil {
		return nil, err
	}
	return &follows, nil
}

// primeFollowed returns the user of a payload after the viewer has begun or ended to follow them.
func primeFollowed(ctx context.Context, u *blog.User, follows bool) *names.User {
	l := loadersOf(ctx)
	l.follows.prime(u.UserID, follows)
	l.users.prime(u.UserID, u)
	return names.From(ctx).User(*u)
}
