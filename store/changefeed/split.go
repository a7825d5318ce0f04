package changefeed

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// A lease is for one feed range. When the container splits a range, the lease's
// owner replaces it by leases of the parts; when it merges ranges, the owner of
// the first of their leases replaces them by one. Whoever does so may die between
// any two writes:
//
//   - A split creates the parts first, if they do not exist, and removes the whole
//     last. Until it is removed, whoever takes it splits it again; once the parts
//     cover it, it is not worked on any more, only removed.
//   - A merge creates the whole first, marked as merging, and removes the parts
//     last. Until they are removed, whoever takes the whole removes them.
//
// In between, both may have owners. Then changes are handled twice, but none is
// left out (see lease).
//
// Reset may come at any moment, too. Parts that were made of the whole as it was
// before do not replace it, and go back to where it is when it is split again; a
// whole that was made of parts as they were before goes back with them.

// split replaces the lease by one for each feed range that its own has become.
// Its continuation, which has a position for each of them, is inherited.
func (p *Processor) split(ctx context.Context, h *held, w *worker, c continuation) error {
	ranges, err := p.reader.source.ReadFeedRanges(ctx, nil)
	if err != nil {
		return err
	}
	ranges = slices.DeleteFunc(ranges, func(r azcosmos.FeedRange) bool { return !overlap(r, h.r) })
	if len(ranges) < 2 { // the ranges were merged since they were last looked at
		w.at = c.within(h.r).String()
		return h.checkpoint(ctx, w.at)
	}
	// Is it still ours? From here on the parts may be worked on by others.
	if err := h.checkpoint(ctx, w.at); err != nil {
		return err
	}
	whole := h.get()
	var parts []part
	defer func() {
		for _, made := range parts { // of a split that was not finished
			p.drop(made.lease.ID)
		}
	}()
	for _, r := range ranges {
		r = common(r, h.r)
		v := &lease{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive, Owner: p.o.Owner, Expiry: p.o.Expiry,
			Continuation: c.within(r).String(), Generation: whole.Generation + 1, Resets: whole.Resets, ReplayTo: whole.ReplayTo}
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
		} else if err := p.leases.sendBack(ctx, v); err != nil { // of a split that was begun before
			return err
		}
	}
	if err := p.leases.remove(ctx, &whole); err != nil && !errors.Is(err, ErrLeaseLost) {
		return err
	}
	w.parts, parts = parts, nil
	p.o.Logger.Info("range split", logRange, spanOf(h.r), logGeneration, whole.Generation)
	return errSplit
}

// tidy removes leases that finer ones cover and that nobody works on: what a
// split left behind. It returns the leases that there is work for.
func (p *Processor) tidy(ctx context.Context, ranges []azcosmos.FeedRange, all []*lease, live map[string]bool) (rest []*lease, err error) {
	for _, v := range all {
		var parts []*lease
		replaced := false
		for _, other := range all {
			if finer(other.feedRange(), v.feedRange()) && other.Resets >= v.Resets {
				parts = append(parts, other)
			}
			replaced = replaced || other.Merging && finer(v.feedRange(), other.feedRange())
		}
		switch {
		case replaced: // its end is the matter of the lease that replaces it
		case v.Merging || len(uncovered(v.feedRange(), feedRanges(parts))) > 0:
			rest = append(rest, v)
		case live[v.ID] && slices.Contains(ranges, v.feedRange()): // the split was undone: its owner is to merge
			rest = append(rest, v)
		case live[v.ID]: // its owner is about to remove it
		default:
			if err := p.leases.remove(ctx, v); err != nil && !errors.Is(err, ErrLeaseLost) {
				return nil, err
			}
		}
	}
	return rest, nil
}

// merge replaces leases by one if their ranges have become one range, and if the
// first of them is this process's.
func (p *Processor) merge(ctx context.Context, ranges []azcosmos.FeedRange, all []*lease, live map[string]bool) error {
	for _, r := range ranges {
		parts := slices.DeleteFunc(slices.Clone(all), func(v *lease) bool { return !inside(v.feedRange(), r) })
		if len(parts) < 2 || len(uncovered(r, feedRanges(parts))) > 0 {
			continue
		}
		slices.SortFunc(parts, func(a, b *lease) int { // the widest first among those that begin together
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
	whole := &lease{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive, Owner: p.o.Owner, Expiry: p.o.Expiry, Merging: true}
	whole.ID = p.leases.id(r)
	merged := continuation{}
	beginning := false
	for _, v := range parts {
		w := p.pause(v.ID)
		if w != nil && w.resets != v.Resets {
			return nil // it worked on without knowing: once more in the next round
		}
		if w == nil {
			taken, err := p.leases.take(ctx, v, p.o.Owner, p.o.Expiry, live[v.ID])
			if err != nil || taken == nil {
				return err // once more in the next round, in which the paused ones are taken up again
			}
			v, w = taken, &worker{at: taken.Continuation}
		}
		whole.Generation = max(whole.Generation, v.Generation+1)
		whole.Resets, whole.ReplayTo = max(whole.Resets, v.Resets), max(whole.ReplayTo, v.ReplayTo)
		if w.at == "" || v.Resets != parts[0].Resets {
			beginning = true
			continue
		}
		c, err := parseContinuation(w.at)
		if err != nil {
			return err
		}
		if merged.ResourceID != "" && merged.ResourceID != c.ResourceID {
			beginning = true // positions in two containers, of which one is gone, cannot be compared
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

// mergeExisting marks a lease as the one that replaces all within it.
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

// pause ends a worker without giving its lease up. It returns nil if there is none.
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
			if !finer(v.feedRange(), h.r) {
				continue
			}
			if whole := h.get(); v.Resets > whole.Resets {
				err := h.write(ctx, func(whole *lease) { whole.Continuation, whole.Resets, whole.ReplayTo = "", v.Resets, v.ReplayTo })
				if err != nil {
					return err
				}
				w.at = ""
			}
			// One that was written since the listing is tried again.
			if err := p.leases.remove(ctx, v); errors.Is(err, ErrLeaseLost) {
				again = true
			} else if err != nil {
				return err
			}
		}
	}
	return h.write(ctx, func(v *lease) { v.Merging = false })
}
