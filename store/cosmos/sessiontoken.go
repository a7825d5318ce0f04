package cosmos

import (
	"cmp"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// progress is how far a partition key range has come: what Cosmos DB's session tokens
// say of it, in the form version#LSN, with #region=LSN for each region of an account
// that writes in several.
type progress struct {
	version int64 // raised when the account's regions change
	lsn     int64
	regions []regionProgress // sorted
}

type regionProgress struct {
	region uint64
	lsn    int64 // -1 if the region does not say
}

// parseProgress reads version#LSN#region=LSN...
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

// raise moves a region on.
func (p *progress) raise(r regionProgress) {
	i, found := slices.BinarySearchFunc(p.regions, r.region, func(have regionProgress, id uint64) int { return cmp.Compare(have.region, id) })
	if !found {
		p.regions = slices.Insert(slices.Clip(p.regions), i, r)
	} else if p.regions[i].lsn < r.lsn {
		p.regions = slices.Clone(p.regions) // others may look at it
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

// merge returns what has come as far as both. Of different versions the later one
// says which regions there are.
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
	raised uint64 // when: counts up
}

// tokens is how far the ranges of a container have come, of which it keeps at
// most some: beyond that it forgets those that have not moved for longest, which
// replicas have had the longest time to reach.
//
// A range that was split stays: Cosmos DB takes a parent's token for a child's, whose
// LSNs go on where the parent's ended.
type tokens struct {
	rid    uint32          // of the container's resource id; 0 if that is not known
	ranges []rangeProgress // sorted by id
	clock  uint64
	text   string // of ranges; "" if it has to be made
}

// hashRID makes a short number, not 0, of a resource id.
func hashRID(rid string) uint32 {
	if rid == "" {
		return 0
	}
	return max(1, crc32.ChecksumIEEE([]byte(rid)))
}

// learn takes in the header of an answer. A container with another resource id is
// another container, of which nothing is known yet.
func (t *tokens) learn(rid uint32, header string, most int) {
	if rid != 0 && rid != t.rid {
		if t.rid != 0 {
			t.ranges, t.text = nil, ""
		}
		t.rid = rid
	}
	for one := range strings.SplitSeq(header, ",") {
		if id, p, ok := parseRange(one); ok {
			t.raise(id, p, most)
		}
	}
}

// parseRange reads range:progress.
func parseRange(text string) (id uint64, p progress, ok bool) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	id, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return 0, p, false
	}
	p, ok = parseProgress(rest)
	return id, p, ok
}

// reaches reports whether the token of one range is as far as another of the same range.
func reaches(token, other string) bool {
	id, p, ok := parseRange(token)
	otherID, o, otherOK := parseRange(other)
	return ok && otherOK && id == otherID && p.covers(o)
}

// raise moves a range on.
func (t *tokens) raise(id uint64, p progress, most int) {
	i, found := slices.BinarySearchFunc(t.ranges, id, func(have rangeProgress, id uint64) int { return cmp.Compare(have.id, id) })
	if found && t.ranges[i].covers(p) {
		return
	}
	t.clock++
	t.text = ""
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

// with returns these tokens and others of the same container.
func (t *tokens) with(o *tokens) *tokens {
	if t.rid != 0 && o.rid != 0 && t.rid != o.rid {
		return t
	}
	both := &tokens{rid: max(t.rid, o.rid), ranges: slices.Clone(t.ranges), clock: t.clock}
	for _, r := range o.ranges {
		both.raise(r.id, r.progress, len(t.ranges)+len(o.ranges))
	}
	return both
}

// header is what a request sends: range:progress of every range.
func (t *tokens) header() string {
	if t.text == "" && len(t.ranges) > 0 {
		var b []byte
		for i, r := range t.ranges {
			if i > 0 {
				b = append(b, ',')
			}
			b = r.progress.append(append(strconv.AppendUint(b, r.id, 10), ':'))
		}
		t.text = string(b)
	}
	return t.text
}
