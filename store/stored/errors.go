package stored

import (
	"context"
	"errors"
	"net/http"

	"byline/internal/itemjson"
	"byline/store/blog"
	"byline/store/cosmos"
)

// Error converts an error of package cosmos. Callers handle the statuses that they
// expect (404, 409, 412) first.
func Error(op string, err error) error {
	var known *blog.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e, response := &blog.Error{Code: blog.Internal, Op: op, Err: err}, cosmos.ErrorOf(err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Code = blog.Canceled
	case errors.Is(err, itemjson.ErrLater):
		e.Code, e.Reason, e.Message = blog.Conflict, blog.ReasonLater, itemjson.ErrLater.Error()
	case response.PartitionFull():
		e.Code, e.Reason, e.Message = blog.LimitReached, blog.ReasonFull, "no more can be stored here; a retry does not help"
	case response.Unavailable():
		e.Code = blog.Unavailable
	case response.Status == http.StatusTooManyRequests:
		e.Code, e.RetryAfter = blog.Throttled, response.RetryAfter
	case response.Status == http.StatusConflict, response.Status == http.StatusPreconditionFailed:
		e.Code, e.Reason = blog.Conflict, blog.ReasonConcurrent
	}
	return e
}

// Ambiguous reports whether the outcome of a failed write is unknown.
func Ambiguous(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false // the caller is gone
	}
	var known *blog.Error
	if errors.As(err, &known) && known.Err == nil {
		return false // made from a response, so the outcome is known
	}
	if errors.Is(err, itemjson.ErrLater) {
		return false // nothing was sent
	}
	return cosmos.ErrorOf(err).Ambiguous()
}
