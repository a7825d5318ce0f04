package layout

import (
	"bytes"
	"sync"
)

// Scratch has buffers for one request: keys to look up, and keys and values on their way into a
// batch or response, which copy them or take them over. It is pooled: nothing that outlives the
// request may refer to it.
type Scratch struct {
	Item  [512]byte // key of the item; the others are keys of index entries
	Key   [512]byte
	From  [512]byte
	To    [512]byte
	Doc   []byte // document of the current item
	Value []byte // value of an entry, or the response body so far
}

var scratches = sync.Pool{New: func() any { return new(Scratch) }}

// ScratchKept is the largest buffer, in bytes, that returns to a pool.
const ScratchKept = 256 << 10

// GetScratch returns a scratch from the pool. The caller releases it.
func GetScratch() *Scratch { return scratches.Get().(*Scratch) }

// Take returns a response body that was built in value. The response takes over a buffer that is too large
// for the pool.
func (s *Scratch) Take(body []byte) []byte {
	if s.Value = body; cap(s.Value) <= ScratchKept {
		return bytes.Clone(s.Value)
	}
	s.Value = nil
	return body
}

// Release returns s to the pool.
func (s *Scratch) Release() {
	if cap(s.Doc) > ScratchKept {
		s.Doc = nil
	}
	if cap(s.Value) > ScratchKept {
		s.Value = nil
	}
	scratches.Put(s)
}
