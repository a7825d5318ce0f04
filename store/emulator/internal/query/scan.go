package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"strconv"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"

	"github.com/cockroachdb/pebble/v2"
)

// visitor receives matching items. position identifies the item in its span, address in the
// container; all are valid only during the call. It returns false to stop.
type visitor func(position, address []byte, rec *layout.Record) (bool, error)

// visit calls fn for the matching items of a span after a position, and reports whether it stopped
// early: because of fn, or, unless pause is nil, after MaxPageScan entries. It then calls pause
// with the last position.
func (r *Query) visit(ctx context.Context, s *span, from continuation,
	fn visitor, pause func(position []byte),
) (stopped bool, err error) {
	if r.plan.kind.withoutFlags() == planPoints {
		return r.visitPoints(ctx, from, fn)
	}
	after, ended, err := r.resume(s, from)
	if err != nil || ended {
		return false, err
	}
	r.seeks++
	if s.empty() {
		return false, nil
	}
	if r.plan.kind.withoutFlags() == planText {
		return r.visitText(ctx, s, after, fn, pause)
	}
	it, err := r.iterator(s.low, s.high)
	if err != nil {
		return false, err
	}
	if it != r.view {
		defer it.Close()
	}
	valid, next := r.seek(it, after), it.Next
	if r.plan.reverse {
		next = it.Prev
	}
	common := min(len(s.low), positionOffset)
	if r.plan.kind.withoutFlags() == planPartition {
		return r.visitItems(ctx, it, valid, next, common, fn, pause)
	}
	return r.visitEntries(ctx, it, valid, next, common, fn, pause)
}

// resume returns the key in a span after which a visit begins, nil for the start of the span. ended reports
// that a split has left nothing of the span to visit.
func (r *Query) resume(s *span, from continuation) (after []byte, ended bool, err error) {
	if !from.started {
		return nil, false, nil
	}
	after = s.key(from.after)
	before, beyond := bytes.Compare(after, s.low) < 0, bytes.Compare(after, s.high) >= 0
	if r.plan.reverse {
		before, beyond = beyond, before
	}
	switch split := from.span != s.no; {
	case split && before: // the position is in another child
		return nil, false, nil
	case split && beyond:
		return nil, true, nil
	case before && r.plan.ordered(): // a client that resumes ORDER BY has narrowed the filter
		return nil, false, nil
	case beyond && r.plan.ordered():
		return nil, true, nil
	case before || beyond:
		return nil, false, invalidContinuation() // the filter is another
	}
	return after, false, nil
}

// seek moves an iterator to the first entry after a key in the order of the plan, or to the first of all if the
// key is nil.
func (r *Query) seek(it *pebble.Iterator, after []byte) (valid bool) {
	switch reverse := r.plan.reverse; {
	case after == nil && reverse:
		return it.Last()
	case after == nil:
		return it.First()
	case reverse:
		return it.SeekLT(after)
	}
	return it.SeekGE(append(after, 0))
}

// visitItems continues a scan over items, whose keys begin with common bytes that positions omit.
func (r *Query) visitItems(ctx context.Context, it *pebble.Iterator, valid bool, next func() bool, common int,
	fn visitor, pause func(position []byte),
) (stopped bool, err error) {
	for seen := 1; valid; seen++ {
		position := it.Key()[common:]
		if err := r.countEntry(ctx); err != nil {
			return false, err
		}
		more, err := r.visitItem(position, it.Value(), fn)
		if err != nil || !more {
			return true, err
		}
		if pause != nil && seen >= MaxPageScan {
			pause(position)
			return true, nil
		}
		valid = next()
	}
	return false, it.Error()
}

// countEntry counts an entry that was read. It checks the context now and then.
func (r *Query) countEntry(ctx context.Context) error {
	if r.entries++; r.entries%16 == 0 {
		return ctx.Err()
	}
	return nil
}

// visitItem visits an item of a scan over items.
func (r *Query) visitItem(position, stored []byte, fn visitor) (more bool, err error) {
	if !r.scope.holds(r.c.Key, position) {
		return true, nil
	}
	if err := r.readRecord(stored); err != nil {
		return false, err
	}
	return r.emit(&r.rec, position, position, fn)
}

// inScope reports whether an address is in the scope of the query.
func (r *Query) inScope(address []byte) bool {
	return r.scope.holds(r.c.Key, address) && (!r.plan.outside || r.scope.contains(address))
}

// emit calls fn if the item is live, matches and yields a row: TOP, OFFSET and LIMIT count rows.
func (r *Query) emit(rec *layout.Record, position, address []byte, fn visitor) (more bool, err error) {
	if r.c.TTL.Expired(rec, r.engine.clock) {
		return true, nil
	}
	r.filtered++
	r.loaded += rec.Size
	r.evaluate(address, rec.Doc)
	if !r.plan.covered {
		if ok, err := r.item.Matches(); err != nil {
			return false, apierror.Query(err)
		} else if !ok {
			return true, nil
		}
	}
	if !r.bound.Aggregates() {
		if ok, err := r.item.HasRow(); err != nil {
			return false, apierror.Query(err)
		} else if !ok {
			return true, nil
		}
	}
	return fn(position, address, rec)
}

// readRecord decodes a stored value, which must not change until the next call.
func (r *Query) readRecord(stored []byte) (err error) {
	if r.systemSize == 0 {
		r.rec, err = r.c.ReadRecord(stored, &r.scratch.Doc)
		return err
	}
	if r.rec, err = layout.ReadHeader(stored); err != nil {
		return err
	}
	r.rec.Doc = stored[layout.HeaderBytes:]
	r.rec.Client = len(r.rec.Doc) - 1
	var digits [20]byte
	r.rec.Size = r.rec.Client + r.systemSize + len(strconv.AppendInt(digits[:0], r.rec.Timestamp, 10))
	return nil
}

func (r *Query) visitPoints(ctx context.Context, from continuation, fn visitor) (stopped bool, err error) {
	first := 0
	if from.started {
		if len(from.after) != 4 {
			return false, invalidContinuation()
		}
		first = int(binary.BigEndian.Uint32(from.after)) + 1
	}
	for i := first; i < len(r.plan.points); i++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if r.plan.points[i] == nil {
			continue
		}
		r.entries++
		rec, err := r.lookup(layout.AppendItemKey(r.scratch.Item[:0], r.c.No, r.plan.points[i]))
		if err != nil {
			return false, err
		}
		if rec == nil {
			continue
		}
		more, err := r.emit(rec, binary.BigEndian.AppendUint32(nil, uint32(i)), r.plan.points[i], fn)
		if err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// eachItem visits every matching item of every span.
func (r *Query) eachItem(ctx context.Context, fn visitor) error {
	r.ahead = maxAhead
	for i := range r.plan.spans {
		if _, err := r.visit(ctx, &r.plan.spans[i], continuation{}, fn, nil); err != nil {
			return err
		}
	}
	return nil
}
