package session

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spaolacci/murmur3"
)

// keyRange is a partition key range of a container.
type keyRange struct {
	id       uint64
	min, max string   // effective partition keys: min inclusive, max exclusive
	parents  []uint64 // ids of the ranges that were split into it, all generations
}

// keyRanges are the partition key ranges of a container. They are immutable. The zero value has none.
type keyRanges struct {
	sorted []keyRange      // without overlaps; there may be gaps
	known  map[uint64]bool // their ids, and those of their parents
}

// forKey returns the range of an effective partition key, nil if it is not known.
func (k keyRanges) forKey(key string) *keyRange {
	i, found := slices.BinarySearchFunc(k.sorted, key, func(r keyRange, key string) int {
		return cmp.Compare(r.min, key)
	})
	if !found {
		i--
	}
	if i < 0 || key >= k.sorted[i].max {
		return nil
	}
	return &k.sorted[i]
}

// find returns the range with an id, nil if it is not known.
func (k keyRanges) find(id uint64) *keyRange {
	i := slices.IndexFunc(k.sorted, func(r keyRange) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return &k.sorted[i]
}

// with returns the ranges with newer ones added, which replace the ranges that they overlap. After a split, Cosmos DB
// may return the parent again behind its children: it is ignored.
func (k keyRanges) with(newer ...keyRange) keyRanges {
	all := keyRanges{slices.Clone(k.sorted), map[uint64]bool{}}
	isParent := func(id uint64) bool {
		return slices.ContainsFunc(slices.Concat(k.sorted, newer),
			func(r keyRange) bool { return slices.Contains(r.parents, id) })
	}
	for _, r := range newer {
		if isParent(r.id) {
			continue
		}
		all.sorted = slices.DeleteFunc(all.sorted, func(o keyRange) bool { return o.min < r.max && r.min < o.max })
		all.sorted = append(all.sorted, r)
	}
	slices.SortFunc(all.sorted, func(a, b keyRange) int { return cmp.Compare(a.min, b.min) })
	for _, r := range all.sorted {
		all.known[r.id] = true
		for _, id := range r.parents {
			all.known[id] = true
		}
	}
	return all
}

// coversTokensOf reports whether a range is this one or one of its parents. The session tokens of parents are
// valid for it: its LSNs continue theirs.
func (r *keyRange) coversTokensOf(id uint64) bool {
	return r.id == id || slices.Contains(r.parents, id)
}

// parseKeyRanges parses a page of a container's partition key ranges, and its resource id.
func parseKeyRanges(body []byte) (rid string, ranges []keyRange, err error) {
	var page struct {
		RID    string `json:"_rid"`
		Ranges []struct {
			ID      string   `json:"id"`
			Min     string   `json:"minInclusive"`
			Max     string   `json:"maxExclusive"`
			Parents []string `json:"parents"`
		} `json:"PartitionKeyRanges"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return "", nil, err
	}
	for _, of := range page.Ranges {
		r := keyRange{min: of.Min, max: of.Max}
		if r.id, err = strconv.ParseUint(of.ID, 10, 64); err != nil {
			return "", nil, err
		}
		for _, parent := range of.Parents {
			id, err := strconv.ParseUint(parent, 10, 64)
			if err != nil {
				return "", nil, err
			}
			r.parents = append(r.parents, id)
		}
		ranges = append(ranges, r)
	}
	return page.RID, ranges, nil
}

// effectiveKey returns the effective partition key of a string, in a container with version 2 of the
// hash.
func effectiveKey(partition string) string {
	var buf [128]byte
	text := append(append(append(buf[:0], 8), partition...), 0xFF) // 8: a string
	low, high := murmur3.Sum128(text)
	var hash [16]byte
	binary.BigEndian.PutUint64(hash[:8], high&(1<<62-1))
	binary.BigEndian.PutUint64(hash[8:], low)
	return strings.ToUpper(hex.EncodeToString(hash[:]))
}
