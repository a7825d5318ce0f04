package projection

import (
	"context"
	"encoding/json"

	"golang.org/x/sync/errgroup"

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
	feed, err := v.readFeed(ctx, v.feed)
	if err != nil {
		return err
	}
	entries, err := v.timelineSuspects(ctx)
	if err != nil {
		return err
	}
	if err := v.repairAll(ctx, append(feed.suspects(), entries...)); err != nil {
		return err
	}
	if err := v.setComplete(ctx); err != nil {
		return err
	}
	for _, p := range v.projections() {
		if err := changefeed.Reset(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), p.options.Name); err != nil {
			return stored.Error("rebuild", err)
		}
	}
	return nil
}

// repairAll repairs differences, several at a time. It logs and skips conflicts and writes refused by full
// partitions, which Verify reports.
func (v *Views) repairAll(ctx context.Context, all []Difference) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, d := range all {
		g.Go(func() error {
			err := v.repair(ctx, d)
			switch blog.CodeOf(err) {
			case blog.LimitReached:
				v.metrics.skipped.Inc()
				fallthrough
			case blog.Conflict:
				v.o.Logger.Warn("not repaired", logKind, d.Kind, logPartition, d.Partition, logItem, d.ID, logError, err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// repairReplayed repairs what a rebuild compares for a page of changed posts. Their summaries are replayed with the users
// container.
func (v *Views) repairReplayed(ctx context.Context, posts map[string]*blog.Post) error {
	if len(posts) == 0 {
		return nil
	}
	var all []Difference
	for _, view := range v.all() {
		if view.replayed == nil {
			continue
		}
		some, err := view.replayed(ctx, posts)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	return v.repairAll(ctx, all)
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
