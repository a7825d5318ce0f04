package projection

import (
	"context"
	"encoding/json"

	"golang.org/x/sync/errgroup"

	"byline/store/blog"
	"byline/store/changefeed"
)

// Rebuild sends the projections of all instances back to the beginning of the
// change feeds. Until they have come to where the feeds end now, they compare
// whatever passes by with all that is derived from it, as Verify does, and mend
// what differs, whatever revision it claims. Rebuild returns as soon as they are
// sent back: Run, here or elsewhere, does the work, and Projections tells what is
// left of it (Replay). It may run beside anything; after an error, run it again.
func (v *Views) Rebuild(ctx context.Context) error {
	ctx = v.account.Begin(ctx, Repair)
	// Entries of posts that never were do not pass by: the feed comes first.
	feed, err := v.readFeed(ctx, v.feed)
	if err != nil {
		return err
	}
	if err := v.repairAll(ctx, feed.suspects()); err != nil {
		return err
	}
	for _, p := range v.projections() {
		if err := changefeed.Reset(ctx, p.source.ChangeFeed(), v.leases.ChangeFeed(), p.name); err != nil {
			return blog.CosmosError("rebuild", err)
		}
	}
	return nil
}

// mend repairs what is different. What cannot be mended, or does not stand still,
// is left to verify and stops nothing.
func (v *Views) repairAll(ctx context.Context, all []Difference) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for _, d := range all {
		g.Go(func() error {
			err := v.Repair(ctx, d)
			if blog.CodeOf(err) == blog.Conflict {
				v.o.Logger.Warn("not mended", logKind, d.Kind, logPartition, d.Partition, logItem, d.ID, logError, err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// remendPosts mends the counts of posts that pass by again, and their entries in
// the feed if they belong there. Their copies pass by with the users, if they exist.
func (v *Views) repairReplayed(ctx context.Context, posts map[string]*blog.Post) error {
	if len(posts) == 0 {
		return nil
	}
	var all []Difference
	for _, p := range posts {
		if !p.Tombstone {
			all = append(all, Difference{Kind: Count, Partition: p.ID, ID: p.ID})
		}
	}
	for _, partition := range v.feedPartitions {
		entries, err := v.feedEntries(ctx, partition)
		if err != nil {
			return err
		}
		for _, p := range posts {
			if len(entries) == 0 || newestFirst(entryOf(p), entries[len(entries)-1]) <= 0 {
				all = append(all, Difference{Kind: FeedEntry, Partition: partition, ID: p.ID})
			}
		}
	}
	return v.repairAll(ctx, all)
}

// suspectOf is what could be different about a copy or a reservation.
func suspectOf(e blog.Envelope, raw []byte) []Difference {
	switch e.Type {
	case blog.TypePost:
		var copy blog.Authored
		if json.Unmarshal(raw, &copy) == nil && blog.ValidID(copy.ID) && blog.ValidID(copy.UserID) {
			return []Difference{{Kind: Summary, Partition: copy.UserID, ID: copy.ID}}
		}
	case blog.TypeUsername:
		if r, ok, err := blog.Decode[blog.Reservation]("rebuild", blog.TypeUsername, raw); ok && err == nil {
			return []Difference{{Kind: Username, Partition: r.ID, ID: r.OwnerID}}
		}
	}
	return nil
}
