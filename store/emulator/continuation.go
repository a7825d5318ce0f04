package emulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// continuation is where a query goes on. Clients hold it as an opaque text; it
// is bound to the query, its parameters and the container, and means the same
// after a restart.
type continuation struct {
	plan    byte   // the kind of plan that the position belongs to
	index   uint32 // identifies the index of the plan
	span    uint32 // number of the span
	emitted uint64 // rows that were returned or skipped, for TOP and OFFSET
	started bool   // after is a position within the span
	after   []byte // the position of the last row
	start   *start // what after goes on from, if the whole is long; nil until then
}

// start is what a long position begins with: the same as that of an item does.
type start struct {
	bytes   uint32
	sum     [16]byte // of them
	address []byte   // of the item
}

const (
	continuationVersion = 4
	continuationHeader  = 1 + 8 + 1 + 1 + 4 + 4 + 8
	startHeader         = 4 + 16 + 2
)

// How a continuation says where in its span it goes on.
const (
	notStarted        = 0
	startedBehind     = 1 // a position
	startedBehindItem = 2 // one that begins as an item's does
)

// queryFingerprint identifies what a continuation token belongs to.
func queryFingerprint(c *container, partitionKey string, body []byte) [8]byte {
	h := sha256.New()
	var n [4]byte
	for _, part := range [][]byte{c.ridBytes, []byte(partitionKey), body} {
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return [8]byte(h.Sum(nil))
}

// maxPosition is how long the position of a row may be to be in a continuation as it is. HTTP
// clients bound headers, and a position may have texts of megabytes in it.
const maxPosition = 4 << 10

func commonPrefix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// shortPosition returns a position to go on behind, of all that lie from the last row's up to the
// next one's: if the last row's is long, a short one. In reverse, last is above next, and what
// is below the position comes next.
func shortPosition(last, next []byte, reverse bool) []byte {
	if len(last) <= maxPosition {
		return last
	}
	switch same := commonPrefix(last, next); {
	case reverse && same < len(last):
		return last[:same+1]
	case !reverse && same+1 < len(next): // so that next is behind it
		return next[:same+1]
	}
	return last
}

func (t continuation) encode(fingerprint [8]byte) string {
	b := append(make([]byte, 0, continuationHeader+len(t.after)), continuationVersion)
	b = append(b, fingerprint[:]...)
	started := byte(notStarted)
	if t.start != nil {
		started = startedBehindItem
	} else if t.started {
		started = startedBehind
	}
	b = append(b, t.plan, started)
	b = binary.BigEndian.AppendUint32(b, t.index)
	b = binary.BigEndian.AppendUint32(b, t.span)
	b = binary.BigEndian.AppendUint64(b, t.emitted)
	if t.start != nil {
		b = append(binary.BigEndian.AppendUint32(b, t.start.bytes), t.start.sum[:]...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t.start.address))), t.start.address...)
	}
	return base64.URLEncoding.EncodeToString(append(b, t.after...))
}

func decodeContinuation(text string, fingerprint [8]byte) (continuation, error) {
	b, err := base64.URLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < continuationHeader || b[0] != continuationVersion || [8]byte(b[1:9]) != fingerprint || b[10] > startedBehindItem {
		return continuation{}, invalidContinuation()
	}
	t := continuation{plan: b[9], started: b[10] != notStarted, index: binary.BigEndian.Uint32(b[11:]), span: binary.BigEndian.Uint32(b[15:]),
		emitted: binary.BigEndian.Uint64(b[19:]), after: b[continuationHeader:]}
	if b[10] != startedBehindItem {
		return t, nil
	}
	if len(t.after) < startHeader {
		return continuation{}, invalidContinuation()
	}
	n := int(binary.BigEndian.Uint16(t.after[startHeader-2:]))
	if len(t.after) < startHeader+n {
		return continuation{}, invalidContinuation()
	}
	t.start = &start{binary.BigEndian.Uint32(t.after), [16]byte(t.after[4:]), t.after[startHeader : startHeader+n]}
	t.after = t.after[startHeader+n:]
	return t, nil
}

// shorten has a continuation with a long position say that it begins as that of an item does,
// if so.
func (r *queryRun) shorten(t *continuation, address []byte) error {
	if len(t.after) <= maxPosition || address == nil {
		return nil
	}
	r.bare = 0
	position, err := r.positionOf(address)
	if err != nil {
		return err
	}
	if n := commonPrefix(position, t.after); n > len(address) {
		t.start = &start{uint32(n), startSum(position[:n]), bytes.Clone(address)}
		t.after = t.after[n:]
	}
	return nil
}

// shortenOrder is shorten where rows are of several items: it finds one that the next row has
// its place of.
func (r *queryRun) shortenOrder(t *continuation, next []byte) error {
	if len(t.after) <= maxPosition {
		return nil
	}
	var order, found []byte
	err := r.eachItem(func(_, address []byte, rec *record) (bool, error) {
		if order = r.sortValues(order[:0], rec.doc); bytes.HasPrefix(next, order) {
			found = bytes.Clone(address)
		}
		return found == nil, nil
	})
	if err != nil {
		return err
	}
	return r.shorten(t, found)
}

// lengthen undoes shorten. If the item is no longer what it was, the position is lost.
func (r *queryRun) lengthen(t *continuation) error {
	if t.start == nil {
		return nil
	}
	address := t.start.address
	if len(address) < r.def.key.epkLength() || !r.scope.holds(&r.def.key, address) {
		return invalidContinuation()
	}
	position, err := r.positionOf(address)
	if err != nil {
		return err
	}
	if n := int(t.start.bytes); n <= len(position) && startSum(position[:n]) == t.start.sum {
		t.after, t.start = append(position[:n:n], t.after...), nil
		return nil
	}
	return invalidContinuation()
}

func startSum(b []byte) [16]byte {
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// positionOf returns the position of an item in an order: nil if there is no such item, or
// the plan is about none.
func (r *queryRun) positionOf(address []byte) ([]byte, error) {
	rec, err := r.lookup(appendItemKey(nil, r.c.no, address))
	x := r.plan.composite
	switch {
	case err != nil || rec == nil:
		return nil, err
	case r.plan.kind&planRows != 0:
		return r.sortValues(nil, rec.doc), nil
	case r.plan.kind&planSorted != 0:
		return append(r.appendTie(r.sortValues(nil, rec.doc), rec), address...), nil
	case x != nil:
		id := string(address[len(r.scope.prefix):])
		return x.appendEntry(appendCompositePrefix(nil, r.c.no, x.no, r.scope.prefix), rec.doc, id)[positionOffset:], nil
	}
	return nil, nil
}

func invalidContinuation() *apiError { return badRequest("Invalid Continuation Token") }
