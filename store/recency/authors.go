package recency

import (
	"cmp"
	"hash/maphash"
	"slices"
)

var seed = maphash.MakeSeed()

// hashOf returns the hash that stands for an author: 8 bytes, where an id has 32. Two authors share one with a
// probability of 2^-64; readers of the posts that a scan has found compare the authors.
func hashOf(author string) uint64 { return cmp.Or(maphash.String(seed, author), removed+1) }

// Authors is a set of authors. It is immutable.
type Authors struct {
	ids    []string // sorted
	hashes []uint64 // sorted
	filter []uint64 // a bit for each of some low bits of hashes; its length is a power of two
}

// NewAuthors returns the set of the authors with the ids, which it takes over and sorts.
func NewAuthors(ids []string) *Authors {
	slices.Sort(ids)
	a := &Authors{ids: slices.Compact(ids), hashes: make([]uint64, 0, len(ids))}
	words := 1
	for words < len(ids) { // 64 bits or more for each author: a scan looks up one post in 64 in vain
		words *= 2
	}
	a.filter = make([]uint64, words)
	for _, id := range a.ids {
		h := hashOf(id)
		a.hashes = append(a.hashes, h)
		a.filter[h>>6&uint64(words-1)] |= 1 << (h & 63)
	}
	slices.Sort(a.hashes)
	return a
}

// With returns the set with changes, by author.
func (a *Authors) With(changes map[string]Change) *Authors {
	if len(changes) == 0 {
		return a
	}
	ids := slices.DeleteFunc(slices.Clone(a.ids), func(id string) bool { _, changed := changes[id]; return changed })
	for id, c := range changes {
		if c.Follows {
			ids = append(ids, id)
		}
	}
	return NewAuthors(ids)
}

// IDs returns the ids of the authors, which the caller must not change.
func (a *Authors) IDs() []string { return a.ids }

// Has reports whether an author is in the set.
func (a *Authors) Has(author string) bool {
	_, ok := slices.BinarySearch(a.ids, author)
	return ok
}

// Bytes returns the approximate size of the set in memory.
func (a *Authors) Bytes() int {
	n := 8*cap(a.hashes) + 8*len(a.filter)
	for _, id := range a.ids {
		n += 16 + len(id)
	}
	return n
}

func (a *Authors) hasHash(h uint64) bool {
	if a.filter[h>>6&uint64(len(a.filter)-1)]>>(h&63)&1 == 0 {
		return false
	}
	_, ok := slices.BinarySearch(a.hashes, h)
	return ok
}
