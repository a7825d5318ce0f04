package emulator

import (
	"bytes"
	"sync"
)

// scratch is room for what a request needs for a moment: keys to look up, and keys and
// values on their way into a batch or an answer, which copy them or take them over. A request has one of
// its own and gives it back when it is done; nothing that outlives it may lie there.
type scratch struct {
	item  [512]byte // the item's key; the others are keys of index entries
	key   [512]byte
	from  [512]byte
	to    [512]byte
	doc   []byte // of the item that was read last
	value []byte // of an entry, or the answer as far as it is made

	entries []entry // of an index, and what they are made of
	ahead   []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// scratchKept is how large room may be, in bytes, to be kept for the next request.
const scratchKept = 256 << 10

// finishPage completes a list that was made in the room for answers. The answer takes
// the room over if it is not to be kept.
func (s *scratch) finishPage(b []byte, n int) *response {
	resp := finishPage(b, n)
	if s.value = resp.body; cap(s.value) <= scratchKept {
		resp.body = bytes.Clone(s.value)
	} else {
		s.value = nil
	}
	return resp
}

// release gives s back.
func (s *scratch) release() {
	if cap(s.doc) > scratchKept {
		s.doc = nil
	}
	if cap(s.value) > scratchKept {
		s.value = nil
	}
	if cap(s.ahead) > scratchKept {
		s.ahead = nil
	}
	if len(s.entries) > 0 {
		clear(s.entries[:cap(s.entries)])
		s.entries = s.entries[:0]
	}
	scratches.Put(s)
}
