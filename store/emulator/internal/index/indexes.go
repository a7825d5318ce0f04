package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"
)

// maxRangeValue is the longest encoded value that a range index entry keeps whole. A longer one is
// cut and completed by its hash: it supports equality, but not order. Every entry is checked
// against its item.
const maxRangeValue = 256

// Indexes is a parsed indexing policy. It is immutable.
type Indexes struct {
	root       *pathNode // nil if nothing is indexed
	Composites []Composite
	Uniques    [][]sql.Path
	Texts      []Text
}

// pathNode is a node in the tree of included and excluded paths. The most specific path wins.
type pathNode struct {
	children map[string]*pathNode
	below    *bool // set by a path ending in /*
	here     *bool // set by a path ending in /?
}

type Composite struct {
	No      uint16
	Columns []Column
}

type Column struct {
	Path sql.Path
	Desc bool
}

func New(p *Policy, u *UniqueKeys, t *TextPolicy) (Indexes, error) {
	x := Indexes{Texts: t.texts(p)}
	if u != nil {
		for _, k := range u.UniqueKeys {
			var paths []sql.Path
			for _, s := range k.Paths {
				path, err := ParsePath(s)
				if err != nil {
					return x, err
				}
				paths = append(paths, path)
			}
			x.Uniques = append(x.Uniques, paths)
		}
	}
	if p.Mode == "none" {
		return x, nil
	}
	x.root = &pathNode{}
	for _, set := range []struct {
		paths []indexPath
		yes   bool
	}{{p.Excluded, false}, {p.Included, true}} {
		for _, i := range set.paths {
			if err := x.root.add(i.Path, set.yes); err != nil {
				return x, err
			}
		}
	}
	for no, columns := range p.Composite {
		index := Composite{No: uint16(no)}
		for _, c := range columns {
			path, err := ParsePath(c.Path)
			if err != nil {
				return x, err
			}
			index.Columns = append(index.Columns, Column{Path: path, Desc: c.Order == "descending"})
		}
		x.Composites = append(x.Composites, index)
	}
	return x, nil
}

func (n *pathNode) add(text string, yes bool) error {
	path, err := ParsePath(text)
	if err != nil {
		return err
	}
	last := ""
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	if last == "?" || last == "*" {
		path = path[:len(path)-1]
	}
	for _, s := range path {
		if n.children == nil {
			n.children = map[string]*pathNode{}
		}
		if n.children[s] == nil {
			n.children[s] = &pathNode{}
		}
		n = n.children[s]
	}
	if last == "?" {
		n.here = &yes
	} else {
		n.below = &yes
	}
	return nil
}

func (n *pathNode) child(name string) *pathNode {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// Includes reports whether the range index has the values of path. It has no arrays.
func (x *Indexes) Includes(path sql.Path) bool {
	return x.root != nil && len(path) > 0 && !layout.IsSystemProperty(path[0]) && x.included(path)
}

// IncludesElements reports whether the range index has the values in the array at path: beside full-text indexes, as
// only searches use them.
func (x *Indexes) IncludesElements(path sql.Path) bool {
	return x.HasTexts() && x.Includes(append(path[:len(path):len(path)], "[]"))
}

// SortsBy reports whether ORDER BY may name path alone. id and _ts are indexed under every policy;
// other system properties depend on it.
func (x *Indexes) SortsBy(path sql.Path) bool {
	return x.root != nil && (len(path) == 1 && (path[0] == "id" || path[0] == "_ts") || x.included(path))
}

// included reports whether the policy includes path.
func (x *Indexes) included(path sql.Path) bool {
	n, inherited := x.root, false
	for i := 0; ; i++ {
		if n != nil && n.below != nil {
			inherited = *n.below
		}
		if i == len(path) {
			break
		}
		if strings.Trim(path[i], "0123456789") == "" {
			return false
		}
		n = n.child(path[i])
	}
	if n != nil && n.here != nil {
		return *n.here
	}
	return inherited
}

// leaf is an indexed scalar of a document, or an array. An array counts as one value for the charge, with its elements.
type leaf struct {
	path uint64 // hash of its path
	raw  []byte
}

func (l leaf) isArray() bool { return l.raw[0] == '[' }

// elements returns the scalars in an array.
func (l leaf) elements(yield func(leaf) bool) {
	path := hashStep(l.path, element)
	for s := (jsonpart.Elements{Text: l.raw, At: 1}); ; {
		raw, ok := s.Next()
		if !ok || sql.ValueOf(raw).Kind() < sql.Array && !yield(leaf{path, raw}) {
			return
		}
	}
}

// element is the last step of the path of elements. No property has this name, which is no UTF-8.
const element = "\xff"

// HashElements returns the hash of the path of the elements of the array at a path.
func HashElements(p sql.Path) uint64 { return hashStep(HashPath(p), element) }

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func hashStep[T string | []byte](h uint64, name T) uint64 {
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * fnvPrime
	}
	return (h ^ 0xFF) * fnvPrime // separates names: 0xFF is never in UTF-8
}

func HashPath(p sql.Path) uint64 {
	h := uint64(fnvOffset)
	for _, s := range p {
		h = hashStep(h, s)
	}
	return h
}

// leaves appends the indexed leaves of a document in the order of their paths' hashes. They share
// its bytes. doc is the client's part: system properties are not indexed.
func (x *Indexes) leaves(dst []leaf, doc []byte) []leaf {
	if x.root == nil {
		return dst
	}
	dst = appendLeaves(dst, doc, x.root, false, fnvOffset)
	slices.SortFunc(dst, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	return dst
}

func appendLeaves(dst []leaf, raw []byte, n *pathNode, inherited bool, hash uint64) []leaf {
	if n != nil && n.below != nil {
		inherited = *n.below
	}
	switch raw[0] {
	case '{':
		if n == nil && !inherited {
			return dst
		}
		for c := range jsonpart.Children(raw) {
			name := sql.MemberName(c)
			dst = appendLeaves(dst, c.Value, n.child(string(name)), inherited, hashStep(hash, name))
		}
		return dst
	case '[':
		if n = n.child("[]"); n != nil && n.below != nil {
			inherited = *n.below
		}
	}
	if n != nil && n.here != nil {
		inherited = *n.here
	}
	if inherited {
		dst = append(dst, leaf{hash, raw})
	}
	return dst
}

// changedLeaves calls removed and added for the leaves in which two documents differ, and returns
// the number of paths that differ. Leaves of one path hash (members may repeat a name) can share
// an index entry, so all of them are removed before any is added.
func changedLeaves(old, new []leaf, removed, added func(leaf)) int {
	changed := 0
	for len(old) > 0 || len(new) > 0 {
		was, is := 0, 0 // number of leaves of the next path
		if len(new) == 0 || len(old) > 0 && old[0].path <= new[0].path {
			was = samePath(old)
		}
		if len(old) == 0 || len(new) > 0 && new[0].path <= old[0].path {
			is = samePath(new)
		}
		if !sameLeaves(old[:was], new[:is]) {
			changed++
			for _, l := range old[:was] {
				removed(l)
			}
			for _, l := range new[:is] {
				added(l)
			}
		}
		old, new = old[was:], new[is:]
	}
	return changed
}

func sameLeaves(old, new []leaf) bool {
	return slices.EqualFunc(old, new, func(a, b leaf) bool { return bytes.Equal(a.raw, b.raw) })
}

// samePath returns how many leaves at the start share a path.
func samePath(leaves []leaf) int {
	n := 1
	for n < len(leaves) && leaves[n].path == leaves[0].path {
		n++
	}
	return n
}

// AppendRangeValue appends the value of a range index entry.
func AppendRangeValue(dst []byte, v sql.Value) []byte {
	at := len(dst)
	dst = sql.AppendKey(dst, v)
	if len(dst)-at > maxRangeValue {
		h := fnv.New64a()
		h.Write(dst[at:])
		dst = h.Sum(dst[:at+maxRangeValue])
	}
	return dst
}

// appendRangeEntry appends the key of a leaf's range index entry.
func appendRangeEntry(dst []byte, container uint32, l leaf, address []byte) []byte {
	return append(AppendRangeValue(layout.AppendRangePrefix(dst, container, l.path), sql.ValueOf(l.raw)), address...)
}

// appendEntry appends the key of a document's entry in a composite index, after the logical
// partition.
func (x *Composite) appendEntry(dst []byte, doc []byte, id string) []byte {
	for _, c := range x.Columns {
		dst = c.AppendValue(dst, sql.Lookup(doc, c.Path))
	}
	return append(dst, id...)
}

func (c *Column) AppendValue(dst []byte, v sql.Value) []byte {
	at := len(dst)
	dst = sql.AppendKey(dst, v)
	if c.Desc {
		for i := at; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

// AppendUniqueEntry appends the key of a document's entry for a unique key. It stops beyond
// maxIndexed: the caller refuses the item.
func AppendUniqueEntry(dst []byte, paths []sql.Path, doc []byte) []byte {
	for _, p := range paths {
		if len(dst) > MaxIndexed {
			break
		}
		dst = sql.AppendKey(dst, sql.Lookup(doc, p))
	}
	return dst
}

// lengthValue is the value of a range or composite index entry: the length of the key's suffix that
// identifies the item.
func lengthValue(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

// HasComposite reports whether a composite index has exactly the columns of ORDER BY, all in its
// directions or all reversed.
func (x *Indexes) HasComposite(orders []sql.Order) bool {
	for i := range x.Composites {
		index := &x.Composites[i]
		if len(index.Columns) != len(orders) {
			continue
		}
		match := true
		for j, o := range orders {
			c := index.Columns[j]
			match = match && slices.Equal(c.Path, o.Path) &&
				(c.Desc != o.Desc) == (index.Columns[0].Desc != orders[0].Desc)
		}
		if match {
			return true
		}
	}
	return false
}

// Bounds narrows low and high, which enclose all values of the column, to a range.
func (c *Column) Bounds(low, high []byte, rng sql.Range) (from, to []byte) {
	prefix := low
	from, to = low, high
	start, end := rng.Low, rng.High
	startSet, endSet, startIn, endIn := rng.LowSet, rng.HighSet, rng.LowInclusive, rng.HighInclusive
	if c.Desc {
		start, end = end, start
		startSet, endSet, startIn, endIn = endSet, startSet, endIn, startIn
	}
	if startSet {
		if from = c.AppendValue(prefix[:len(prefix):len(prefix)], start); !startIn {
			from = layout.PrefixEnd(from)
		}
	}
	if endSet {
		if to = c.AppendValue(prefix[:len(prefix):len(prefix)], end); endIn {
			to = layout.PrefixEnd(to)
		}
	}
	return from, to
}

// RangeBounds returns the bounds of an interval in the range index. Entries that were cut are not
// in order, so a bound that is cut includes all entries with its prefix.
func RangeBounds(prefix []byte, rng sql.Range) (low, high []byte) {
	key := func(v sql.Value) (key []byte, cut bool) {
		key = sql.AppendKey(slices.Clone(prefix), v)
		n := min(len(key), len(prefix)+maxRangeValue)
		return key[:n], n < len(key)
	}
	low, cut := key(rng.Low)
	if !rng.LowInclusive && !cut {
		low = layout.PrefixEnd(low)
	}
	high, cut = key(rng.High)
	if rng.HighInclusive || cut {
		high = layout.PrefixEnd(high)
	}
	return low, high
}
