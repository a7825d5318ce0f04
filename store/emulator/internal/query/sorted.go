package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
)

// maxSortBytes bounds the memory to sort a page: keys, and about sortedItemBytes with each.
const (
	maxSortBytes    = 16 << 20
	sortedItemBytes = 64
)

// sortedItem is an item to be sorted. Its key ends with its address, so all keys differ.
type sortedItem struct {
	key     []byte
	address int // offset of the address
}

// page keeps the first items in sort order: at most most, in about maxSortBytes.
type page struct {
	most   int
	items  []sortedItem
	bytes  int
	more   bool       // items were left out
	cutoff sortedItem // if more: the first item left out
}

func (p *page) add(key []byte, address int) {
	if p.more && bytes.Compare(key, p.cutoff.key) >= 0 {
		return
	}
	p.items = append(p.items, sortedItem{bytes.Clone(key), address})
	p.bytes += len(key) + sortedItemBytes
	if len(p.items) >= 2*p.most+64 || p.bytes >= 2*maxSortBytes {
		p.trim()
	}
}

func (p *page) trim() {
	slices.SortFunc(p.items, func(a, b sortedItem) int { return bytes.Compare(a.key, b.key) })
	for n := len(p.items); n > p.most || n > 1 && p.bytes > maxSortBytes; n-- {
		last := &p.items[n-1]
		p.more, p.cutoff = true, *last
		p.bytes -= len(last.key) + sortedItemBytes
		*last = sortedItem{}
		p.items = p.items[:n-1]
	}
}

// runSorted reads all items in scope and keeps the keys of the first ones after the position. The
// page is shorter if the keys take too much memory, even among rows that OFFSET skips.
func (r *Query) runSorted(ctx context.Context) error {
	if r.plan.unfiltered {
		return r.runUnfiltered(ctx)
	}
	offset, limit := r.limits()
	if limit >= 0 && r.from.emitted >= uint64(offset+limit) {
		return nil
	}
	skip := max(0, offset-int(min(r.from.emitted, uint64(offset))))
	want := r.size
	if limit >= 0 {
		want = min(want, offset+limit-int(r.from.emitted)-skip)
	}
	kept := page{most: skip + want}
	var key []byte
	err := r.eachItem(ctx, func(_, address []byte, rec *layout.Record) (bool, error) {
		var err error
		if key, err = r.sortValues(key[:0]); err != nil {
			return false, err
		}
		key = r.appendTie(key, rec)
		at := len(key)
		key = append(key, address...)
		if !r.from.started || bytes.Compare(key, r.from.after) > 0 {
			kept.add(key, at)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	kept.trim()
	last := limit >= 0 && int(r.from.emitted)+len(kept.items) >= offset+limit
	if rest := r.plan.rest; rest != nil && !kept.more && !last {
		rest.kind |= planSorted
		r.plan = *rest
		return r.runSorted(ctx)
	}
	emitted := r.from.emitted
	more, after, next := kept.more, r.from.after, kept.cutoff.key
	for i, it := range kept.items {
		if i >= skip {
			if len(r.out) >= MaxPageBytes {
				more, next = true, it.key
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			rec, err := r.lookup(layout.AppendItemKey(r.scratch.Item[:0], r.c.No, it.key[it.address:]))
			if err != nil {
				return err
			}
			if rec != nil { // always true: the view is the same
				if r.plan.shared != nil { // it was not read before
					r.filtered++
					r.loaded += rec.Size
				}
				r.evaluate(it.key[it.address:], rec.Doc)
				if err := r.addRow(ctx, rec.Doc); err != nil {
					return err
				}
			}
		}
		emitted, after = emitted+1, it.key
	}
	if more && (limit < 0 || emitted < uint64(offset+limit)) {
		return r.continueAfter(r.plan.separator(after, next, r.limit), 0, emitted)
	}
	return nil
}

// sortValues appends the current item's values of ORDER BY.
func (r *Query) sortValues(dst []byte) ([]byte, error) {
	for _, o := range r.bound.OrderBy() {
		v, err := r.item.Order(o)
		if err != nil {
			return nil, apierror.Query(err)
		}
		c := index.Column{Path: o.Path, Desc: o.Desc}
		dst = c.AppendValue(dst, v)
	}
	return dst, nil
}

// appendTie appends the resource id, which orders equal values, in the direction of the first term.
// SDKs that merge partitions depend on it.
func (r *Query) appendTie(dst []byte, rec *layout.Record) []byte {
	rid := rec.RID
	if r.bound.OrderBy()[0].Desc {
		rid = ^rid
	}
	return binary.BigEndian.AppendUint64(dst, rid)
}

// runUnfiltered sorts all items that a plan finds without WHERE, and reads them in that order until the page is full.
func (r *Query) runUnfiltered(ctx context.Context) error {
	offset, limit := r.limits()
	emitted, after, started := r.from.emitted, r.from.after, r.from.started
	var key []byte
	for {
		kept := page{most: math.MaxInt32}
		if err := r.eachItem(ctx, func(_, address []byte, rec *layout.Record) (bool, error) {
			var err error
			if key, err = r.sortValues(key[:0]); err != nil {
				return false, err
			}
			key = r.appendTie(key, rec)
			at := len(key)
			if key = append(key, address...); !started || bytes.Compare(key, after) > 0 {
				kept.add(key, at)
			}
			return true, nil
		}); err != nil {
			return err
		}
		kept.trim()
		for _, it := range kept.items {
			if limit >= 0 && emitted >= uint64(offset+limit) {
				return nil
			}
			if r.rows >= r.size || len(r.out) >= MaxPageBytes {
				return r.continueAfter(r.plan.separator(after, it.key, r.limit), 0, emitted)
			}
			after, started = it.key, true
			matches, err := r.matchesAt(ctx, it.key[it.address:])
			if err != nil {
				return err
			}
			if !matches {
				continue
			}
			if emitted++; emitted > uint64(offset) {
				if err := r.addRow(ctx, r.rec.Doc); err != nil {
					return err
				}
			}
		}
		if !kept.more {
			return nil
		}
	}
}

// matchesAt reads the item at an address and reports whether WHERE accepts it. The evaluation is at the item then.
func (r *Query) matchesAt(ctx context.Context, address []byte) (bool, error) {
	if err := r.countEntry(ctx); err != nil {
		return false, err
	}
	rec, err := r.lookup(layout.AppendItemKey(r.scratch.Item[:0], r.c.No, address))
	if rec == nil || err != nil {
		return false, err
	}
	r.filtered++
	r.loaded += rec.Size
	r.evaluate(address, rec.Doc)
	if ok, err := r.item.Matches(); !ok || err != nil {
		return false, queryError(err)
	}
	ok, err := r.item.HasRow()
	return ok, queryError(err)
}

func queryError(err error) error {
	if err == nil {
		return nil
	}
	return apierror.Query(err)
}
