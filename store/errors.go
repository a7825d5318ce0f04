package store

import (
	"context"
	"errors"

	"byline/store/blog"
	"byline/store/cosmos"
)

// ambiguous reports whether the outcome of a failed write is unknown.
func ambiguous(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false // the caller is gone
	}
	var known *blog.Error
	if errors.As(err, &known) && known.Err == nil {
		return false // made from a response, so the outcome is known
	}
	return cosmos.ErrorOf(err).Ambiguous()
}
