package index

import (
	"bytes"
	"encoding/binary"
	"iter"

	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// A full-text index has a posting of each term of an item's text: the term's positions, ascending, as differences in
// uvarints. The posting of the term "" is the number of the text's words, and exists even if it is 0. An item whose
// property is no string has no postings.

// TextPrefix returns the prefix of a term's postings, which item addresses follow.
func (t *Text) TextPrefix(container uint32, term string) []byte {
	return layout.AppendTextPrefix(nil, container, HashPath(t.Path), term)
}

// Words returns the number of words in a posting of the term "".
func Words(posting []byte) int {
	n, _ := binary.Uvarint(posting)
	return int(n)
}

// AppendPositions appends the positions in a posting.
func AppendPositions(dst []int, posting []byte) []int {
	last := 0
	for len(posting) > 0 {
		difference, n := binary.Uvarint(posting)
		if n <= 0 {
			break
		}
		last, posting = last+int(difference), posting[n:]
		dst = append(dst, last)
	}
	return dst
}

func appendPosting(dst []byte, positions []int) []byte {
	last := 0
	for _, p := range positions {
		dst, last = binary.AppendUvarint(dst, uint64(p-last)), p
	}
	return dst
}

// of returns the property of an item.
func (t *Text) of(rec *layout.Record) sql.Value {
	if rec == nil {
		return sql.Value{}
	}
	return sql.Lookup(rec.Doc, t.Path)
}

// postings returns the keys and values of an item's postings. They are valid until the next.
func (t *Text) postings(v sql.Value, container uint32, address []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, posting []byte) bool) {
		if v.Kind() != sql.String {
			return
		}
		text, path := t.Analyzer.Analyze([]byte(v.String())), HashPath(t.Path)
		key := append(layout.AppendTextPrefix(nil, container, path, ""), address...)
		posting := binary.AppendUvarint(nil, uint64(text.Words))
		if !yield(key, posting) {
			return
		}
		for term, positions := range text.Positions {
			key = append(layout.AppendTextPrefix(key[:0], container, path, term), address...)
			posting = appendPosting(posting[:0], positions)
			if !yield(key, posting) {
				return
			}
		}
	}
}

// text maintains the postings in one full-text index. Those of a text that does not change count neither for the size
// of the item's entries nor for the charge.
func (x *Writer) text(t *Text, old, rec *layout.Record, cost *Cost) {
	was, is := t.of(old), t.of(rec)
	if x.err != nil || was.Kind() == is.Kind() && sql.Compare(was, is) == 0 {
		return
	}
	before := map[string][]byte{}
	for key, posting := range t.postings(was, x.Container, x.Address) {
		before[string(key)] = bytes.Clone(posting)
	}
	for key, posting := range t.postings(is, x.Container, x.Address) {
		x.addSize(len(key) + len(posting))
		if x.err != nil {
			return
		}
		same, stored := before[string(key)]
		if delete(before, string(key)); !stored || !bytes.Equal(same, posting) {
			cost.Postings++
			x.set(key, posting)
		}
	}
	for key := range before {
		cost.Postings++
		x.delete([]byte(key))
	}
}
