package changefeed

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// A lease covers one feed range, the whole. When the container splits it, the owner replaces the
// lease by one for each part, at the same position. When the container merges ranges, the owner of
// the first lease replaces all of them by one at the lowest position. The process may crash between
// any two writes:
//
//   - A split creates the leases of the parts first, if they do not exist, and removes the whole
//     last. Until then, the next owner of the whole splits it again. Once the parts cover it, it is
//     only removed.
//   - A merge creates the whole first, marked as merging, and removes the parts last. Until then,
//     the next owner of the whole removes them.
//
// In between, both may have owners: changes are handled twice, but none is lost (see lease).
//
// Reset may run at any moment, too. Parts created from a whole before its Reset do not replace it,
// and are reset when it is split again. A whole created from parts before their Reset is reset with
// them.

// split replaces the lease by one for each part of its range. They inherit the continuation, which
// has a position for each part.
func (p *Processor) split(ctx context.Context, h *held, w *worker, c continuation) error {
	ranges, err := p.reader.source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return err
	}
	ranges = slices.DeleteFunc(ranges, func(r azcosmos.FeedRange) bool { return !overlap(r, h.r) })
	if len(ranges) < 2 { // merged again since the last page
		w.at = c.within(h.r).String()
		return h.checkpoint(ctx, w.at)
	}
	// Confirm ownership first: from here on others may work on the parts.
	if err := h.checkpoint(ctx, w.at); err != nil {
		return err
	}
	whole := h.get()
	var parts []part
	defer func() {
		for _, made := range parts { // unfinished split
			p.drop(made.lease.ID)
		}
	}()
	for _, r := range ranges {
		r = intersection(r, h.r)
		v := &lease{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive, Owner: p.o.Owner, Expiry: p.o.Expiry,
			Continuation: c.within(r).String(), Generation: whole.Generation + 1, Resets: whole.Resets,
			ReplayTo: whole.ReplayTo,
			Version:  whole.Version, Until: whole.Until}
		v.ID = p.leases.id(r)
		made := false
		reserved, ok := p.reserve(v.ID)
		if ok {
			made, err = p.leases.create(ctx, v)
			if err != nil || !made {
				p.drop(v.ID)
			}
			if err != nil {
				return err
			}
		}
		if made {
			parts = append(parts, part{reserved, v})
		} else if err := p.leases.reset(ctx, v); err != nil { // left over from an unfinished split
			return err
		}
	}
	if err := p.leases.remove(ctx, &whole); err != nil && !errors.Is(err, errLeaseLost) {
		return err
	}
	w.parts, parts = parts, nil
	p.o.Logger.Info("range split", logRange, spanOf(h.r), logGeneration, whole.Generation)
	return errSplit
}

// removeReplaced removes the leases that a split left behind: narrower ones cover them, and no
// process works on them. It returns the leases to work on.
func (p *Processor) removeReplaced(
	ctx context.Context, ranges []azcosmos.FeedRange, all []*lease, live map[string]bool,
) (kept []*lease, err error) {
	for _, v := range all {
		var parts []*lease
		replaced := false
		for _, other := range all {
			if narrower(other.feedRange(), v.feedRange()) && other.Resets >= v.Resets {
				parts = append(parts, other)
			}
			replaced = replaced || other.Merging && narrower(v.feedRange(), other.feedRange())
		}
		switch {
		case replaced: // removed by the owner of the lease that replaces it
		case v.Merging || len(uncovered(v.feedRange(), feedRanges(parts))) > 0:
			kept = append(kept, v)
		case live[v.ID] && slices.Contains(ranges, v.feedRange()): // the split was undone: the owner is about to merge
			kept = append(kept, v)
		case live[v.ID]: // the owner is about to remove it
		default:
			if err := p.leases.remove(ctx, v); err != nil && !errors.Is(err, errLeaseLost) {
				return nil, err
			}
		}
	}
	return kept, nil
}

// merge replaces leases by one if their ranges were merged and this process works on the first.
func (p *Processor) merge(ctx context.Context, ranges []azcosmos.FeedRange, all []*lease, live map[string]bool) error {
	for _, r := range ranges {
		parts := slices.DeleteFunc(slices.Clone(all), func(v *lease) bool { return !inside(v.feedRange(), r) })
		if len(parts) < 2 || len(uncovered(r, feedRanges(parts))) > 0 {
			continue
		}
		slices.SortFunc(parts, func(a, b *lease) int { // by start, wider ones first
			return cmp.Or(compareKeys(a.MinInclusive, b.MinInclusive), compareKeys(b.MaxExclusive, a.MaxExclusive))
		})
		if p.works(parts[0].ID) {
			if err := p.mergeInto(ctx, r, parts, live); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Processor) mergeInto(ctx context.Context, r azcosmos.FeedRange, parts []*lease, live map[string]bool) error {
	whole := &lease{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive, Owner: p.o.Owner, Expiry: p.o.Expiry,
		Merging: true}
	whole.ID = p.leases.id(r)
	merged := continuation{}
	beginning := false
	for i, v := range parts {
		w := p.pause(v.ID)
		if w != nil && w.resets != v.Resets {
			return nil // stale: retry in the next round
		}
		if w == nil {
			taken, err := p.leases.take(ctx, v, p.o.Owner, p.o.Expiry, live[v.ID])
			if err != nil || taken == nil {
				return err // retry in the next round, which takes the paused ones again
			}
			v, w = taken, &worker{at: taken.Continuation}
		}
		whole.Generation = max(whole.Generation, v.Generation+1)
		whole.Resets, whole.ReplayTo = max(whole.Resets, v.Resets), max(whole.ReplayTo, v.ReplayTo)
		if i == 0 || v.Version < whole.Version {
			whole.Version = v.Version
		}
		if i == 0 || v.Until < whole.Until {
			whole.Until = v.Until
		}
		if w.at == "" || v.Resets != parts[0].Resets {
			beginning = true
			continue
		}
		c, err := parseContinuation(w.at)
		if err != nil {
			return err
		}
		if merged.ResourceID != "" && merged.ResourceID != c.ResourceID {
			beginning = true // positions in different containers cannot be compared
		}
		merged.Version, merged.ResourceID = c.Version, c.ResourceID
		merged.Positions = append(merged.Positions, c.Positions...)
	}
	if !beginning {
		whole.Continuation = merged.within(r).String()
	}
	if parts[0].ID == whole.ID { // left over from a split that was undone
		return p.mergeExisting(ctx, whole)
	}
	w, ok := p.reserve(whole.ID)
	if !ok {
		return nil
	}
	made, err := p.leases.create(ctx, whole)
	if err != nil || !made {
		p.drop(whole.ID)
		return err
	}
	p.o.Logger.Info("ranges merged", logRange, spanOf(r), logGeneration, whole.Generation)
	p.launch(ctx, w, whole)
	return nil
}

// mergeExisting marks an existing lease as the replacement of all leases within its range.
func (p *Processor) mergeExisting(ctx context.Context, whole *lease) error {
	v, err := p.leases.read(ctx, whole.ID)
	if v == nil || err != nil || v.Owner != p.o.Owner {
		return err
	}
	v.Merging = true
	v.Generation = whole.Generation
	if err := p.leases.save(ctx, v); err != nil {
		return err
	}
	p.work(ctx, v)
	return nil
}

// pause stops a worker but keeps its lease. It returns nil if there is no worker.
func (p *Processor) pause(id string) *worker {
	p.mu.Lock()
	w := p.workers[id]
	if w == nil || w.stop == nil {
		p.mu.Unlock()
		return nil
	}
	w.stop(errMerged)
	p.mu.Unlock()
	<-w.done
	return w
}

// finishMerge removes the leases that this one replaces.
func (p *Processor) finishMerge(ctx context.Context, h *held, w *worker) error {
	for again := true; again; {
		all, err := p.leases.list(ctx)
		if err != nil {
			return err
		}
		again = false
		for _, v := range all {
			if !narrower(v.feedRange(), h.r) {
				continue
			}
			if whole := h.get(); v.Resets > whole.Resets {
				err := h.write(ctx, func(whole *lease) {
					whole.Continuation, whole.Resets, whole.ReplayTo = "", v.Resets, v.ReplayTo
				})
				if err != nil {
					return err
				}
				w.at = ""
			}
			// A lease that was written since the listing is tried again.
			if err := p.leases.remove(ctx, v); errors.Is(err, errLeaseLost) {
				again = true
			} else if err != nil {
				return err
			}
		}
	}
	return h.write(ctx, func(v *lease) { v.Merging = false })
}
