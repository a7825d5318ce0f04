package store

import (
	"context"
	"encoding/json"

	"golang.org/x/sync/errgroup"

	"byline/store/changefeed"
)

// Rebuild sends the projections of all instances back to the beginning of the
// change feeds. Until they have come to where the feeds end now, they compare
// whatever passes by with all that is derived from it, as Verify does, and mend
// what differs, whatever revision it claims. Rebuild returns as soon as they are
// sent back: Run, here or elsewhere, does the work, and Projections tells what is
// left of it (Replay). It may run beside anything; after an error, run it again.
func (s *Store) Rebuild(ctx context.Context) error {
	ctx = s.account.Begin(ctx, Repair)
	// Entries of posts that never were do not pass by: the feed comes first.
	feed, err := s.readFeed(ctx, s.background.feed)
	if err != nil {
		return err
	}
	if err := s.mend(ctx, feed.suspects()); err != nil {
		return err
	}
	for _, p := range s.projections() {
		if err := changefeed.Reset(ctx, p.source.ChangeFeed(), s.leases.ChangeFeed(), p.name); err != nil {
			return cosmosError("rebuild", err)
		}
	}
	return nil
}

// mend repairs what is different. What cannot be mended, or does not stand still,
// is left to verify and stops nothing.
func (s *Store) mend(ctx context.Context, all []Difference) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(projectionWorkers)
	for _, d := range all {
		g.Go(func() error {
			err := s.Repair(ctx, d)
			if CodeOf(err) == Conflict {
				s.o.Logger.Warn("not mended", logKind, d.Kind, logPartition, d.Partition, logItem, d.ID, logError, err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// remendPosts mends the counts of posts that pass by again, and their entries in
// the feed if they belong there. Their copies pass by with the users, if they exist.
func (s *Store) remendPosts(ctx context.Context, posts map[string]*Post) error {
	if len(posts) == 0 {
		return nil
	}
	var all []Difference
	for _, p := range posts {
		if !p.deleted {
			all = append(all, Difference{Kind: Count, Partition: p.ID, ID: p.ID})
		}
	}
	for _, partition := range s.feedPartitions {
		entries, err := s.feedEntries(ctx, partition)
		if err != nil {
			return err
		}
		for _, p := range posts {
			if len(entries) == 0 || newestFirst(entryOf(p), entries[len(entries)-1]) <= 0 {
				all = append(all, Difference{Kind: FeedEntry, Partition: partition, ID: p.ID})
			}
		}
	}
	return s.mend(ctx, all)
}

// suspectOf is what could be different about a copy or a reservation.
func suspectOf(e envelope, raw []byte) []Difference {
	switch e.Type {
	case typePost:
		var copy authored
		if json.Unmarshal(raw, &copy) == nil && validID(copy.ID) && validID(copy.UserID) {
			return []Difference{{Kind: CopyOfPost, Partition: copy.UserID, ID: copy.ID}}
		}
	case typeUsername:
		if r, ok, err := decode[usernameItem]("rebuild", typeUsername, raw); ok && err == nil {
			return []Difference{{Kind: Username, Partition: r.ID, ID: r.OwnerID}}
		}
	}
	return nil
}
