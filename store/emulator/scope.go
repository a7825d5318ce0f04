package emulator

import (
	"bytes"

	"byline/store/emulator/internal/apierror"
)

// scope is the part of the container that a query covers.
type scope struct {
	ranges []*partition
	key    partitionKey // nil: all of ranges
	prefix []byte       // common prefix of addresses in scope
	low    []byte       // inclusive lower bound of the effective partition key; empty if none
	high   []byte       // exclusive upper bound; empty if none
	exact  bool         // key names one logical partition
}

// resolveScope determines the scope from the headers, or from what WHERE pins.
func (r *queryRun) resolveScope() error {
	d, s := r.def, &r.scope
	header, rangeID := r.q.get("X-Ms-Documentdb-Partitionkey"), r.q.get("X-Ms-Documentdb-Partitionkeyrangeid")
	var err error
	if s.low, err = epkHeader(r.q, "X-Ms-Start-Epk"); err != nil {
		return err
	}
	if s.high, err = epkHeader(r.q, "X-Ms-End-Epk"); err != nil {
		return err
	}
	narrow := len(s.low) > 0 || len(s.high) > 0
	switch {
	case header != "" && narrow:
		return apierror.BadRequest("A query is of a partition key, or of the range of the headers 'x-ms-start-epk' and 'x-ms-end-epk', not of both.")
	case header != "":
		key, err := parsePartitionKey(header)
		if err != nil {
			return err
		}
		if len(key) > len(d.key.paths) {
			return apierror.BadRequest("Partition key provided has more components than the container's definition.")
		}
		if len(key) == 0 {
			key = make(partitionKey, len(d.key.paths))
		}
		s.key = key
	case rangeID != "":
		p, err := r.c.rangeByIDLocked(rangeID)
		if err != nil {
			return err
		}
		s.ranges = []*partition{p}
		return nil
	case narrow: // WHERE only filters
	default:
		for _, path := range d.key.paths {
			v, ok := r.bound.Equal(path)
			if !ok {
				break
			}
			c, ok := componentOf(v)
			if !ok {
				break
			}
			s.key = append(s.key, c)
		}
	}
	if s.key == nil {
		s.ranges = r.c.ranges
		return r.checkCross()
	}
	s.exact = len(s.key) == len(d.key.paths)
	s.prefix = d.key.appendEPK(nil, s.key)
	if s.exact {
		s.ranges = []*partition{r.c.rangeOfLocked(s.prefix)}
		s.prefix = s.key.appendKey(s.prefix)
		return nil
	}
	end := prefixEnd(s.prefix)
	for _, p := range r.c.ranges {
		if bytes.Compare(p.min, end) < 0 && bytes.Compare(s.prefix, p.max) < 0 {
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
func (r *queryRun) checkCross() error {
	if !r.q.is("X-Ms-Documentdb-Query-Enablecrosspartition") {
		return apierror.BadRequest("Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, " +
			"specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception.")
	}
	_, top := r.bound.Top()
	_, _, offset := r.bound.OffsetLimit()
	if top || offset || len(r.bound.OrderBy()) > 0 || r.bound.Aggregates() {
		return crossPartitionError(r.bound, r.text)
	}
	return nil
}

// holds reports whether an address is in scope.
func (s *scope) holds(key *partitionKeyPaths, address []byte) bool {
	if bytes.Compare(address, s.low) < 0 || len(s.high) > 0 && bytes.Compare(address, s.high) >= 0 {
		return false
	}
	if s.key == nil || s.exact {
		return bytes.HasPrefix(address, s.prefix)
	}
	if !bytes.HasPrefix(address, s.prefix) {
		return false
	}
	n := key.epkLength()
	return bytes.HasPrefix(address[n:], s.key.appendKey(nil))
}

func (s *scope) contains(epk []byte) bool {
	for _, p := range s.ranges {
		if p.holds(epk) {
			return true
		}
	}
	return false
}
