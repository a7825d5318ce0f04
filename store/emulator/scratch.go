package emulator

import (
	"bytes"
	"sync"
)

// scratch has buffers for one request: keys to look up, and keys and values on their way into a
// batch or response, which copy them or take them over. It is pooled: nothing that outlives the
// request may refer to it.
type scratch struct {
	item  [512]byte // key of the item; the others are keys of index entries
	key   [512]byte
	from  [512]byte
	to    [512]byte
	doc   []byte // document of the current item
	value []byte // value of an entry, or the response body so far

	entries []entry // index entries, and their bytes
	ahead   []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// scratchKept is the largest buffer, in bytes, that returns to the pool.
const scratchKept = 256 << 10

// finishPage completes a list that was built in value. The response takes over a buffer that is too
// large for the pool.
func (s *scratch) finishPage(b []byte, n int) *response {
	resp := finishPage(b, n)
	if s.value = resp.body; cap(s.value) <= scratchKept {
		resp.body = bytes.Clone(s.value)
	} else {
		s.value = nil
	}
	return resp
}

// release returns s to the pool.
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
