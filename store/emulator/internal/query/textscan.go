package query

import (
	"bytes"
	"context"
	"errors"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// maxPlannedTerms is how many terms' postings a plan reads at a time.
const maxPlannedTerms = 64

// indexed returns those conditions that a plan can read from full-text indexes.
func (r *Query) indexed(conds []sql.TextCondition) (list []sql.TextCondition) {
	terms := 0
	for _, c := range conds {
		n := 0
		for _, phrase := range c.Phrases {
			n += len(phrase)
		}
		if r.c.Indexes.Text(c.Path).Indexed && terms+n <= maxPlannedTerms {
			list, terms = append(list, c), terms+n
		}
	}
	return list
}

// valuePrefixes returns the prefixes of the entries in the range index of those values that WHERE demands: of
// properties, and in arrays. Items that a search finds have entries with each of them.
func (r *Query) valuePrefixes() (list [][]byte) {
	add := func(path uint64, v sql.Value) {
		if v.Kind() < sql.Array && v.Kind() != sql.Undefined && len(list) < maxPlannedTerms {
			list = append(list, index.AppendRangeValue(layout.AppendRangePrefix(nil, r.c.No, path), v))
		}
	}
	for _, path := range r.triedPaths() {
		if v, ok := r.bound.Equal(path); ok && r.c.Indexes.Includes(path) && !r.isPartitionKeyPath(path) {
			add(index.HashPath(path), v)
		}
		if r.c.Indexes.IncludesElements(path) {
			for _, v := range r.bound.Elements(path) {
				add(index.HashElements(path), v)
			}
		}
	}
	return list
}

// textPlan reads the items in scope that fulfill conditions, in the order of their addresses.
func (r *Query) textPlan(conds []sql.TextCondition) plan {
	p := plan{kind: planText, texts: conds}
	for _, part := range r.scope.ranges {
		low, high := r.clip(layout.AppendKind(nil, layout.KindItem, r.c.No), part)
		p.spans = append(p.spans, span{part.No, part, low, high})
	}
	return p
}

// addresses returns the addresses that bound a span of items; no high one if there is no bound.
func (s *span) addresses() (low, high []byte) {
	if bytes.HasPrefix(s.high, s.low[:positionOffset]) {
		high = s.high[positionOffset:]
	}
	return s.low[positionOffset:], high
}

// maxSortedTexts is how many items with a text are sorted rather than found in the order of a composite index. To sort
// one takes as long as to check several; more in a logical partition mean fewer checks for a page.
const maxSortedTexts = 400

// chooseText replaces a plan by one that reads full-text indexes, if that reads less. If both read much, a plan that
// delivers the order of the query reads less, as a page needs few of its items: they are only checked by the indexes.
func (r *Query) chooseText(other plan) (plan, error) {
	if other.kind == planPoints || !r.bound.Searches() {
		return other, nil
	}
	r.values = r.valuePrefixes()
	conds := r.indexed(r.bound.TextConditions())
	if p, ok := r.textsPlan(conds); ok {
		return p, nil
	}
	if ranking, ok := r.bound.Ranking(); ok && len(conds) == 0 {
		if conds = r.indexed([]sql.TextCondition{ranking}); len(conds) > 0 {
			p := r.textPlan(conds)
			p.rest = &other
			return p, nil
		}
	}
	if len(conds) == 0 {
		return other, nil
	}
	text := r.textPlan(conds)
	other.check = conds
	switch was := r.from.plan; {
	case was == planText, was == planSorted && other.ordered():
		return text, nil
	case was != 0 && was != planSorted && was != planAggregated:
		return other, nil
	case other.kind == planPartition || other.kind == planOrder: // never shorter
		return text, nil
	}
	most := maxProbe
	if other.ordered() {
		most = maxSortedTexts
	}
	found, err := r.countCandidates(&text, most)
	if err != nil {
		return other, err
	}
	if other.ordered() {
		if found < most {
			return text, nil
		}
		return other, nil
	}
	it, err := r.walk(&other)
	if err != nil {
		return other, err
	}
	defer it.Close()
	for range found {
		if !it.Valid() {
			return other, it.Error()
		}
		it.Next()
	}
	return text, it.Error()
}

// textsPlan returns a plan that evaluates aggregates and scores without items.
func (r *Query) textsPlan(conds []sql.TextCondition) (p plan, ok bool) {
	if r.texts == nil {
		return p, false
	}
	var shared []sql.Path
	doc := []byte("{")
	pinned := []sql.Path(nil)
	if r.scope.exact {
		pinned = r.pinnedPartition()
	}
	for _, path := range pinned {
		if len(path) == 1 {
			v, _ := r.bound.Equal(path)
			if len(doc) > 1 {
				doc = append(doc, ',')
			}
			doc = v.AppendJSON(append(sql.AppendQuoted(doc, []byte(path[0])), ':'))
			shared = append(shared, path)
		}
	}
	order, filter, rows := r.bound.TextsOnly(shared, func(path sql.Path) bool { return r.c.Indexes.Text(path).Indexed })
	switch aggregates := r.bound.Aggregates(); {
	case aggregates && rows:
	case !aggregates && order && len(r.bound.OrderBy()) > 0 && len(conds) > 0:
	default:
		return p, false
	}
	p = r.textPlan(conds)
	p.shared, p.unfiltered = append(doc, '}'), !filter
	p.covered = filter && len(conds) == len(r.bound.TextConditions()) && r.bound.CoveredByTexts(shared)
	return p, true
}

// visitShared visits the items at the addresses from one on that fulfill the plan's conditions, as far as the indexes
// know them.
func (r *Query) visitShared(ctx context.Context, c candidates, at []byte, fn visitor) (stopped bool, err error) {
	now := r.engine.clock().Unix()
	for n := 0; ; {
		read := r.postings
		address, err := c.next(ctx, at)
		if address == nil || err != nil {
			return false, err
		}
		if len(r.plan.texts) == 0 { // no posting but the item's header
			r.postings = read
		}
		at = append(append(at[:0], address...), 0)
		if !r.inScope(address) {
			continue
		}
		if n++; n%256 == 0 {
			if err := ctx.Err(); err != nil {
				return false, err
			}
		}
		r.evaluate(at[:len(at)-1], r.plan.shared)
		header := r.texts.header()
		if header.Expiry != 0 && header.Expiry <= now {
			continue
		}
		if !r.plan.unfiltered && !r.plan.covered {
			if ok, err := r.item.Matches(); err != nil {
				return false, apierror.Query(err)
			} else if !ok {
				continue
			}
		}
		r.rec = layout.Record{RID: header.RID, Doc: r.plan.shared}
		if more, err := fn(at[:len(at)-1], at[:len(at)-1], &r.rec); err != nil || !more {
			return true, err
		}
	}
}

// countCandidates counts the items of a text plan's first span, up to most.
func (r *Query) countCandidates(p *plan, most int) (n int, err error) {
	low, high := p.spans[0].addresses()
	c, err := r.openConditions(p.texts, low, high)
	if err != nil {
		return 0, err
	}
	read := r.postings
	defer func() {
		err = errors.Join(err, c.close())
		r.postings = read
	}()
	for at := bytes.Clone(low); n < most; n++ {
		found, err := c.next(context.Background(), at)
		if found == nil || err != nil {
			return n, err
		}
		at = append(append(at[:0], found...), 0)
	}
	return n, nil
}

// visitText visits the items of a span of a text plan after a key.
func (r *Query) visitText(ctx context.Context, s *span, after []byte, fn visitor, pause func(position []byte),
) (stopped bool, err error) {
	low, high := s.addresses()
	c, err := r.openConditions(r.plan.texts, low, high)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer func() { r.texts.planned = nil }()
	at := bytes.Clone(low)
	if after != nil {
		at = append(bytes.Clone(after[positionOffset:]), 0)
	}
	if r.plan.shared != nil {
		return r.visitShared(ctx, c, at, fn)
	}
	ahead := lookupPool.Get().(*lookups)
	defer ahead.release()
	for seen, ended := 0, false; !ended; {
		entries, buf := ahead.entries[:0], ahead.bytes[:0]
		for most := max(1, min(r.ahead-r.rows, maxAhead)); len(entries) < most && len(buf) < maxAheadBytes; {
			address, err := c.next(ctx, at)
			if err != nil {
				return false, err
			}
			if ended = address == nil; ended {
				break
			}
			at = append(append(at[:0], address...), 0)
			from := len(buf)
			buf = append(layout.AppendKind(buf, layout.KindItem, r.c.No), address...)
			e := entry{key: buf[from:len(buf):len(buf)]}
			e.position = e.key[positionOffset:]
			if !r.inScope(e.position) {
				e.key = nil
			}
			entries = append(entries, e)
		}
		buf = r.lookAhead(entries, buf)
		ahead.entries, ahead.bytes = entries, buf
		for i := range entries {
			seen++
			if err := r.countEntry(ctx); err != nil {
				return false, err
			}
			more, err := r.visitEntry(&entries[i], fn)
			if err != nil || !more {
				return true, err
			}
			if pause != nil && seen >= MaxPageScan {
				pause(entries[i].position)
				return true, nil
			}
		}
	}
	return false, nil
}

// checkEntries drops the entries of an index whose items do not fulfill the plan's conditions on texts.
func (r *Query) checkEntries(c candidates, entries []entry) error {
	for i := range entries {
		if e := &entries[i]; e.key != nil {
			if ok, err := c.has(e.key[positionOffset:]); err != nil {
				return err
			} else if !ok {
				e.key = nil
			}
		}
	}
	return nil
}
