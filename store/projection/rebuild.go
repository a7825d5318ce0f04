package projection

import (
	"context"
	"encoding/json"
	"errors"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/stored"
	"byline/store/username"
)

// Rebuild resets the checkpoints of the projections, in all instances, to the beginning of the change feeds.
// Until they reach the present end of the feeds, they compare and repair all views of the changed items, as
// Verify and Repair do. Rebuild does not wait for that: Run does the work, in any instance, and Status
// reports the remaining transactions (Replay). It can run at any time; after an error, call it again.
func (v *Views) Rebuild(ctx context.Context) error {
	ctx = v.account.Begin(ctx, Repair)
	// No change reports an entry of the feed or of a timeline without a post: compare them first.
	content, err := v.partitions.read(ctx, v.base.feed)
	if err != nil {
		return err
	}
	entries, err := v.timelines.readSuspects(ctx)
	if err != nil {
		return err
	}
	if err := v.registry.repairAll(ctx, append(content.suspects(), entries...)); err != nil {
		return err
	}
	for _, p := range v.projections() {
		if err := changefeed.Reset(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), p.options.Name); err != nil {
			return stored.Error("rebuild", err)
		}
	}
	return nil
}

// suspectOf returns the possible difference of a replayed summary or reservation.
func suspectOf(e blog.Envelope, raw []byte) []Difference {
	switch e.Type {
	case blog.TypePost:
		var item blog.Authored
		if json.Unmarshal(raw, &item) == nil && blog.ValidID(item.ID) && blog.ValidID(item.UserID) {
			return []Difference{{Kind: Summary, Partition: item.UserID, ID: item.ID}}
		}
	case blog.TypeUsername:
		if r, ok, err := blog.Decode[username.Reservation]("rebuild", blog.TypeUsername, raw); ok && err == nil {
			return []Difference{{Kind: Username, Partition: r.ID, ID: r.OwnerID}}
		}
	}
	return nil
}

// BeginLoad begins a bulk load that writes the views itself, as Store.Import does. Conflict if an instance serves
// the database. After the load, end makes the projections begin after it, if they had handled all changes before
// and have not started since; otherwise they read the load's changes, too.
func (v *Views) BeginLoad(ctx context.Context) (end func(context.Context) error, err error) {
	const op = "begin load"
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
