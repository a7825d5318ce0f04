package query

import (
	"context"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
)

// runAggregation computes all rows and returns a page of them.
func (r *Query) runAggregation(ctx context.Context) error {
	agg := r.bound.NewAggregation()
	if r.texts != nil {
		agg.UseIndex(r.texts)
	}
	var order []byte
	err := r.eachItem(ctx, func(_, _ []byte, rec *layout.Record) (bool, error) {
		var err error
		if order, err = r.sortValues(order[:0]); err != nil {
			return false, err
		}
		if err := agg.Add(rec.Doc, order); err != nil {
			return false, apierror.Query(err)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	offset, limit := r.limits()
	emitted, more := r.from.emitted, false
	var after, next []byte
	if r.from.started {
		after = r.from.after
	}
	err = agg.Rows(ctx, after, func(row, position []byte) bool {
		if limit >= 0 && emitted >= uint64(offset+limit) {
			return false
		}
		if more = r.rows >= r.size || len(r.out) >= MaxPageBytes; more {
			next = position
			return false
		}
		emitted, after = emitted+1, position
		if emitted <= uint64(offset) {
			return true
		}
		if r.rows > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(r.out, row...)
		r.rows++
		return true
	})
	if err != nil {
		return apierror.Query(err)
	}
	if more {
		return r.continueAfter(r.plan.separator(after, next, r.limit), 0, emitted)
	}
	return nil
}
