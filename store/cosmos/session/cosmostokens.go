package session

import (
	"cmp"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// progress is the progress of a partition key range in a session token of Cosmos DB, in the form
// version#LSN, with #region=LSN for each region of an account with multi-region writes.
type progress struct {
	version int64 // raised when the account's regions change
	lsn     int64
	regions []regionProgress // sorted
}

type regionProgress struct {
	region uint64
	lsn    int64 // -1 if unknown
}

// parseProgress parses version#LSN#region=LSN...
func parseProgress(text string) (p progress, ok bool) {
	version, rest, ok := strings.Cut(text, "#")
	if !ok {
		return p, false
	}
	var err error
	if p.version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return p, false
	}
	global, rest, more := strings.Cut(rest, "#")
	if p.lsn, err = parseLSN(global); err != nil {
		return p, false
	}
	for more {
		var one string
		one, rest, more = strings.Cut(rest, "#")
		id, lsn, _ := strings.Cut(one, "=")
		var r regionProgress
		if r.region, err = strconv.ParseUint(id, 10, 64); err != nil {
			return p, false
		}
		if r.lsn, err = parseLSN(lsn); err != nil {
			return p, false
		}
		p.raise(r)
	}
	return p, true
}

// parseLSN parses an LSN, which may be -1.
func parseLSN(text string) (int64, error) {
	lsn, err := strconv.ParseInt(text, 10, 64)
	if err == nil && lsn < -1 {
		err = strconv.ErrRange
	}
	return lsn, err
}

// raise advances the LSN of a region.
func (p *progress) raise(r regionProgress) {
	i, found := slices.BinarySearchFunc(p.regions, r.region,
		func(have regionProgress, id uint64) int { return cmp.Compare(have.region, id) })
	if !found {
		p.regions = slices.Insert(slices.Clip(p.regions), i, r)
	} else if p.regions[i].lsn < r.lsn {
		p.regions = slices.Clone(p.regions) // it may be shared
		p.regions[i].lsn = r.lsn
	}
}

func (p progress) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(strconv.AppendInt(dst, p.version, 10), '#'), p.lsn, 10)
	for _, r := range p.regions {
		dst = strconv.AppendUint(append(dst, '#'), r.region, 10)
		dst = strconv.AppendInt(append(dst, '='), r.lsn, 10)
	}
	return dst
}

// covers reports whether p is as far as o in every region.
func (p progress) covers(o progress) bool {
	if p.version != o.version {
		return p.version > o.version && p.lsn >= o.lsn
	}
	for _, r := range o.regions {
		i := slices.IndexFunc(p.regions, func(have regionProgress) bool { return have.region == r.region })
		if i < 0 || p.regions[i].lsn < r.lsn {
			return false
		}
	}
	return p.lsn >= o.lsn
}

// merge returns the least progress that covers both. If the versions differ, the later one has the
// current regions.
func (p progress) merge(o progress) progress {
	if o.version > p.version {
		p, o = o, p
	}
	p.lsn = max(p.lsn, o.lsn)
	if o.version == p.version {
		for _, r := range o.regions {
			p.raise(r)
		}
	}
	return p
}

// rangeProgress is the progress of a partition key range.
type rangeProgress struct {
	id uint64
	progress
	raised uint64 // tokens.clock at the last change
}

// tokens holds the progress of the ranges of a container. Their number is limited: beyond the limit it
// drops those whose last change is oldest, which replicas have had the longest time to reach.
type tokens struct {
	rid    uint32          // hash of the container's resource id; 0 if it is not known
	ranges []rangeProgress // sorted by id
	clock  uint64
	keys   keyRanges // known ranges; none in a Session
}

// hashRID returns a short hash of a resource id, not 0.
func hashRID(rid string) uint32 {
	if rid == "" {
		return 0
	}
	return max(1, crc32.ChecksumIEEE([]byte(rid)))
}

// learn records the session token of a response.
func (t *tokens) learn(rid uint32, header string, most int) {
	t.setRID(rid)
	for one := range strings.SplitSeq(header, ",") {
		if r, ok := parseRange(one); ok {
			t.raise(r.id, r.progress, most)
		}
	}
}

// setRID sets the container's resource id. Another id is another container: the progress is dropped.
func (t *tokens) setRID(rid uint32) {
	if rid == 0 || rid == t.rid {
		return
	}
	if t.rid != 0 {
		t.ranges, t.keys = nil, keyRanges{}
	}
	t.rid = rid
}

// parseRange parses range:progress.
func parseRange(text string) (r rangeProgress, ok bool) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	var err error
	if r.id, err = strconv.ParseUint(name, 10, 64); err != nil {
		return r, false
	}
	r.progress, ok = parseProgress(rest)
	return r, ok
}

// raise advances the progress of a range.
func (t *tokens) raise(id uint64, p progress, most int) {
	i, found := slices.BinarySearchFunc(t.ranges, id,
		func(have rangeProgress, id uint64) int { return cmp.Compare(have.id, id) })
	if found && t.ranges[i].covers(p) {
		return
	}
	t.clock++
	if found {
		t.ranges[i].progress, t.ranges[i].raised = t.ranges[i].merge(p), t.clock
		return
	}
	t.ranges = slices.Insert(t.ranges, i, rangeProgress{id, p, t.clock})
	if len(t.ranges) > most {
		oldest := 0
		for i := range t.ranges {
			if t.ranges[i].raised < t.ranges[oldest].raised {
				oldest = i
			}
		}
		t.ranges = slices.Delete(t.ranges, oldest, oldest+1)
	}
}

// forRange returns what of the progress concerns a range. Progress of the range and of its parents, from which it was
// split, is merged under its id. Progress of ranges that are missing in keys is returned too: they may be its children,
// split off since keys were read. If the range is nil, forRange returns everything.
func (t *tokens) forRange(r *keyRange, keys keyRanges) *tokens {
	if r == nil {
		return &tokens{rid: t.rid, ranges: slices.Clone(t.ranges), clock: t.clock}
	}
	some := &tokens{rid: t.rid, clock: t.clock}
	of := rangeProgress{id: r.id, progress: progress{version: -1, lsn: -1}}
	for _, have := range t.ranges {
		switch {
		case r.coversTokensOf(have.id):
			of.progress, of.raised = of.merge(have.progress), max(of.raised, have.raised)
		case !keys.known[have.id]:
			some.ranges = append(some.ranges, have)
		}
	}
	if of.raised > 0 {
		some.ranges = append(some.ranges, of)
		slices.SortFunc(some.ranges, func(a, b rangeProgress) int { return cmp.Compare(a.id, b.id) })
	}
	return some
}

// add adds the tokens of the same container.
func (t *tokens) add(o *tokens) {
	if t.rid != 0 && o.rid != 0 && t.rid != o.rid {
		return
	}
	t.rid = max(t.rid, o.rid)
	most := len(t.ranges) + len(o.ranges)
	for _, r := range o.ranges {
		t.raise(r.id, r.progress, most)
	}
}

// maxTokens is the length of the longest session token header sent. Cosmos DB refuses requests with
// headers that are too long.
const maxTokens = 4 << 10

// header returns the header of a request: range:progress of every range or, if that is too long, of the
// most recently changed ones.
func (t *tokens) header() string {
	var b []byte
	for _, r := range t.ranges {
		b = r.appendTo(b)
	}
	if len(b) > maxTokens {
		b = b[:0]
		for _, r := range slices.SortedFunc(slices.Values(t.ranges),
			func(a, b rangeProgress) int { return cmp.Compare(b.raised, a.raised) }) {
			end := len(b)
			if b = r.appendTo(b); len(b) > maxTokens {
				b = b[:end]
				break
			}
		}
	}
	return string(b)
}

// appendTo appends range:progress to a list.
func (r rangeProgress) appendTo(dst []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return r.progress.append(append(strconv.AppendUint(dst, r.id, 10), ':'))
}
