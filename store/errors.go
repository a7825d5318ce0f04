package store

import (
	"context"
	"errors"

	"byline/store/blog"
	"byline/store/cosmos"
)

// ambiguous reports whether a write ended with an error that does not tell if it was done.
func ambiguous(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false // a caller that has gone is not told either way
	}
	var known *blog.Error
	if errors.As(err, &known) && known.Err == nil {
		return false // what the Store says by itself rests on an answer
	}
	return cosmos.ErrorOf(err).Ambiguous()
}
