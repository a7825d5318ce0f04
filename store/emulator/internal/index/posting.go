package index

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"slices"

	"byline/store/emulator/internal/fulltext"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// A full-text index has a posting of each term of an item's text: the term's positions, ascending, as differences in
// uvarints. The term "" has a TextHeader of every item, so that what a query reads of texts alone needs no items.

// TextPrefix returns the prefix of a term's postings, which item addresses follow.
func (t *Text) TextPrefix(container uint32, term string) []byte {
	return layout.AppendTextPrefix(nil, container, HashPath(t.Path), term)
}

// TextHeader is what an index has of an item besides the terms of its text.
type TextHeader struct {
	Words  int // of the text; -1 if the property is no string
	RID    uint64
	Expiry int64 // when the item expires, in seconds; 0: never
}

// ReadTextHeader decodes a posting of the term "".
func ReadTextHeader(posting []byte) (h TextHeader) {
	words, n := binary.Uvarint(posting)
	rid, m := binary.Uvarint(posting[max(0, n):])
	if n <= 0 || m <= 0 {
		return TextHeader{Words: -1}
	}
	expiry, _ := binary.Uvarint(posting[n+m:])
	return TextHeader{int(words) - 1, rid, int64(expiry)}
}

func (h TextHeader) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(h.Words+1)), h.RID)
	return binary.AppendUvarint(dst, uint64(h.Expiry))
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

// postings returns the keys and values of the postings of an item's text, without its header. They are valid until the
// next.
func (t *Text) postings(text fulltext.Text, container uint32, address []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, posting []byte) bool) {
		path := HashPath(t.Path)
		var key, posting []byte
		for _, term := range slices.Sorted(maps.Keys(text.Positions)) { // Pebble inserts ascending keys faster
			positions := text.Positions[term]
			key = append(layout.AppendTextPrefix(key[:0], container, path, term), address...)
			posting = appendPosting(posting[:0], positions)
			if !yield(key, posting) {
				return
			}
		}
	}
}

// analyze returns the text of a value; one without words for anything but a string.
func (t *Text) analyze(v sql.Value) fulltext.Text {
	if v.Kind() != sql.String {
		return fulltext.Text{Words: -1}
	}
	return t.Analyzer.Analyze([]byte(v.String()))
}

// text maintains the postings in one full-text index. Those of a text that does not change count neither for the size
// of the item's entries nor for the charge.
func (x *Writer) text(t *Text, old, rec *layout.Record, cost *Cost) {
	was, is := t.of(old), t.of(rec)
	same := was.Kind() == is.Kind() && sql.Compare(was, is) == 0
	key := append(t.TextPrefix(x.Container, ""), x.Address...)
	var text fulltext.Text // of rec
	switch {
	case x.err != nil:
		return
	case rec == nil:
		x.delete(key)
	case old == nil || !same || old.RID != rec.RID || x.expiryOf(old) != x.expiryOf(rec):
		text = t.analyze(is)
		header := x.textHeader(text, rec)
		if is.Kind() == sql.String && !same {
			x.addSize(len(key) + len(header))
		}
		x.set(key, header)
	}
	if same {
		return
	}
	if was.Kind() == sql.String || is.Kind() == sql.String {
		cost.Postings++ // the header
	}
	before := map[string][]byte{}
	for key, posting := range t.postings(t.analyze(was), x.Container, x.Address) {
		before[string(key)] = bytes.Clone(posting)
	}
	for key, posting := range t.postings(text, x.Container, x.Address) {
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

// textHeader returns the posting of the term "" of an item with a text.
func (x *Writer) textHeader(text fulltext.Text, rec *layout.Record) []byte {
	return TextHeader{text.Words, rec.RID, x.expiryOf(rec)}.append(nil)
}

// expiryOf returns when an item expires, 0 for never.
func (x *Writer) expiryOf(rec *layout.Record) int64 {
	at, _ := x.TTL.Expiry(rec)
	return at
}
