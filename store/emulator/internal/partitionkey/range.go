package partitionkey

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Range is the partition key range of a physical partition: the effective partition keys in [Min, Max).
type Range struct {
	No       uint32
	Min, Max []byte   // nil and 0xFF are unbounded
	Parents  []uint32 // ancestors, oldest first
}

// Record is the stored form of a Range.
type Record struct {
	No      uint32   `json:"no"`
	Min     string   `json:"min"` // in hexadecimal, as in the protocol
	Max     string   `json:"max"`
	Parents []uint32 `json:"parents,omitempty"`
}

// Open returns the range of a record.
func (r Record) Open() (Range, error) {
	lo, err1 := hex.DecodeString(r.Min)
	hi, err2 := hex.DecodeString(r.Max)
	return Range{No: r.No, Min: lo, Max: hi, Parents: r.Parents}, errors.Join(err1, err2)
}

// Record returns the stored form.
func (p *Range) Record() Record {
	return Record{No: p.No, Min: FormatEPK(p.Min), Max: FormatEPK(p.Max), Parents: p.Parents}
}

// RangeID returns the id of a range in the protocol.
func RangeID(no uint32) string { return strconv.FormatUint(uint64(no), 10) }

// FormatEPK formats an effective partition key as the protocol does.
func FormatEPK(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }

// Holds reports whether an effective partition key is in the range.
func (p *Range) Holds(epk []byte) bool {
	return bytes.Compare(p.Min, epk) <= 0 && bytes.Compare(epk, p.Max) < 0
}

// Descends reports whether partition no was split into p, directly or not.
func (p *Range) Descends(no uint32) bool {
	return slices.Contains(p.Parents, no)
}

// Search returns the index of the range that holds an effective partition key, of n ranges that are sorted and have
// no gaps.
func Search(n int, at func(i int) *Range, epk []byte) int {
	return sort.Search(n-1, func(i int) bool { return bytes.Compare(at(i+1).Min, epk) > 0 })
}

// ID returns the id of the range in the protocol.
func (p *Range) ID() string { return RangeID(p.No) }

// space returns the number of effective partition keys (of the first component, if hierarchical):
// V2 has 126 bits, V1 has 32.
func (d *Paths) space() *big.Int {
	bits := uint(126)
	if d.Version == 1 {
		bits = 32
	}
	return new(big.Int).Lsh(big.NewInt(1), bits)
}

// Split cuts the key space into n equal physical partitions.
func (d *Paths) Split(n int) []Record {
	out := make([]Record, n)
	for i := range out {
		out[i].No = uint32(i)
		if i > 0 {
			at := new(big.Int).Mul(d.space(), big.NewInt(int64(i)))
			out[i].Min = FormatEPK(at.Div(at, big.NewInt(int64(n))).FillBytes(make([]byte, 16)))
			out[i-1].Max = out[i].Min
		}
	}
	out[n-1].Max = "FF"
	return out
}

// Middle returns the middle of a physical partition's key space.
func (d *Paths) Middle(p *Range) ([]byte, error) {
	number := func(b []byte) *big.Int {
		full := make([]byte, 16)
		copy(full, b)
		return new(big.Int).SetBytes(full)
	}
	low, high := number(p.Min), number(p.Max)
	if space := d.space(); high.Cmp(space) > 0 {
		high = space
	}
	at := new(big.Int).Add(low, high)
	at.Rsh(at, 1)
	if at.Cmp(low) <= 0 {
		return nil, fmt.Errorf("partition key range %s: too small to split", p.ID())
	}
	return at.FillBytes(make([]byte, 16)), nil
}
