package query

import (
	"bytes"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
)

// scope is the part of the container that a query covers.
type scope struct {
	ranges []*partitionkey.Range
	key    partitionkey.Key // nil: all of ranges
	prefix []byte           // common prefix of addresses in scope
	low    []byte           // inclusive lower bound of the effective partition key; empty if none
	high   []byte           // exclusive upper bound; empty if none
	exact  bool             // key names one logical partition
}

// resolveScope determines the scope from the headers, or from what WHERE pins.
func (r *Query) resolveScope() error {
	s := &r.scope
	header, rangeID := r.header.Get("X-Ms-Documentdb-Partitionkey"), r.header.Get("X-Ms-Documentdb-Partitionkeyrangeid")
	var err error
	if s.low, s.high, err = FeedRange(r.header); err != nil {
		return err
	}
	narrow := len(s.low) > 0 || len(s.high) > 0
	switch {
	case header != "" && narrow:
		return apierror.BadRequest(
			"A query is of a partition key, or of the range of the headers 'x-ms-start-epk' and 'x-ms-end-epk', not " +
				"of both.")
	case header != "":
		if s.key, err = r.c.Key.Parse(header); err != nil {
			return err
		}
	case rangeID != "":
		p, err := r.c.rangeByID(rangeID)
		if err != nil {
			return err
		}
		s.ranges = []*partitionkey.Range{p}
		return nil
	case narrow: // WHERE only filters
	default:
		for _, path := range r.c.Key.Paths {
			v, ok := r.bound.Equal(path)
			if !ok {
				break
			}
			c, ok := partitionkey.ComponentOf(v)
			if !ok {
				break
			}
			s.key = append(s.key, c)
		}
	}
	if s.key == nil {
		s.ranges = r.c.Ranges
		return r.checkCross()
	}
	s.exact = len(s.key) == len(r.c.Key.Paths)
	s.prefix = r.c.Key.AppendEPK(nil, s.key)
	if s.exact {
		s.ranges = []*partitionkey.Range{r.c.rangeOf(s.prefix)}
		s.prefix = s.key.AppendKey(s.prefix)
		return nil
	}
	end := layout.PrefixEnd(s.prefix)
	for _, p := range r.c.Ranges {
		if bytes.Compare(p.Min, end) < 0 && bytes.Compare(s.prefix, p.Max) < 0 {
			s.ranges = append(s.ranges, p)
		}
	}
	if len(s.ranges) > 1 {
		return r.checkCross()
	}
	return nil
}

// checkCross refuses the cross-partition queries that the service's gateway refuses: the client has
// to merge partitions.
func (r *Query) checkCross() error {
	if !r.is("X-Ms-Documentdb-Query-Enablecrosspartition") {
		return apierror.BadRequest("Cross partition query is required but disabled. " +
			"Please set x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, " +
			"or revise your query to avoid this exception.")
	}
	_, top := r.bound.Top()
	_, _, offset := r.bound.OffsetLimit()
	if top || offset || len(r.bound.OrderBy()) > 0 || r.bound.Aggregates() {
		return crossPartitionError(r.bound, r.text)
	}
	return nil
}

// holds reports whether an address is in scope.
func (s *scope) holds(key *partitionkey.Paths, address []byte) bool {
	if bytes.Compare(address, s.low) < 0 || len(s.high) > 0 && bytes.Compare(address, s.high) >= 0 {
		return false
	}
	if s.key == nil || s.exact {
		return bytes.HasPrefix(address, s.prefix)
	}
	if !bytes.HasPrefix(address, s.prefix) {
		return false
	}
	n := key.EPKLength()
	return bytes.HasPrefix(address[n:], s.key.AppendKey(nil))
}

func (s *scope) contains(epk []byte) bool {
	for _, p := range s.ranges {
		if p.Holds(epk) {
			return true
		}
	}
	return false
}
