package projection

import (
	"context"
	"errors"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/stored"
)

// BeginLoad begins a bulk load that writes the views itself, as Store.Import does. Conflict if an instance serves
// the database. After the load, end makes the projections begin after it, if they had handled all changes before
// and have not started since; otherwise they read the load's changes, too.
func (v *Views) BeginLoad(ctx context.Context) (end func(context.Context) error, err error) {
	const op = "begin load"
	if err := v.tryBeginTimelines(ctx); err != nil { // before there are leases
		return nil, err
	}
	var skips []func(context.Context) error
	for _, p := range v.processors() {
		o := changefeed.Options{Name: p.options.Name, Owner: v.o.Instance, Clock: v.o.Clock}
		skip, err := changefeed.BeginSkip(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), o)
		if errors.Is(err, changefeed.ErrRunning) {
			return nil, &blog.Error{Code: blog.Conflict, Op: op, Err: err,
				Message: "an instance serves the database: stop it, or wait some seconds if it was killed"}
		}
		if err != nil {
			return nil, stored.Error(op, err)
		}
		skips = append(skips, skip)
	}
	return func(ctx context.Context) error {
		for _, skip := range skips {
			if err := skip(ctx); err != nil {
				return stored.Error("end load", err)
			}
		}
		return nil
	}, nil
}
