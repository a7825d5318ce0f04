package emulator

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"
)

// partition is a physical partition. It has its own sequence of LSNs.
type partition struct {
	partitionkey.Range
	splitting bool          // guarded by container.mu; see StartSplit
	revision  atomic.Uint64 // of container.revision; 0 before it splits

	mu   sync.Mutex
	lsn  uint64 // guarded by mu: last LSN assigned
	size *size  // guarded by mu: of its items; nil until sizeOfPartition

	budget budget

	applied atomic.Uint64 // last LSN visible to readers
	synced  atomic.Uint64 // last durable LSN; see durability
}

// checkSession returns 404/1002 if a session token is ahead of have, an LSN of p. It ignores the LSNs of
// regions: one region has all writes.
func checkSession(p *partition, have uint64, header string) error {
	for header != "" {
		var one string
		one, header, _ = strings.Cut(header, ",")
		id, rest, ok := strings.Cut(strings.TrimSpace(one), ":")
		if !ok {
			return apierror.BadRequest("The session token %q is invalid.", one)
		}
		if no, err := strconv.ParseUint(id, 10, 32); err != nil || uint32(no) != p.No && !p.Descends(uint32(no)) {
			continue
		}
		parts := strings.Split(rest, "#")
		lsn, err := strconv.ParseInt(parts[min(1, len(parts)-1)], 10, 64)
		if err != nil {
			return apierror.BadRequest("The session token %q is invalid.", one)
		}
		if lsn > int64(have) {
			return apierror.SessionNotAvailable()
		}
	}
	return nil
}

// size is a number of items and the bytes of their documents. It includes expired items that are not
// purged yet.
type size struct{ items, bytes int }

// sizeOf returns the size of an item; 0 for nil.
func sizeOf(r *layout.Record) size {
	if r == nil {
		return size{}
	}
	return size{1, r.Size}
}

func (s *size) add(o size) {
	s.items += o.items
	s.bytes += o.bytes
}

func (s size) minus(o size) size { return size{s.items - o.items, s.bytes - o.bytes} }

// measure reads the items whose keys are in [low, high).
func (e *Engine) measure(c *container, low, high []byte) (s size, err error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: high})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var buf []byte
	for it.First(); it.Valid(); it.Next() {
		r, err := c.ReadRecord(it.Value(), &buf)
		if err != nil {
			return s, err
		}
		s.add(sizeOf(&r))
	}
	return s, it.Error()
}

// sizeOfPartition returns the size of a physical partition. The first call reads all of it, while
// writes to it wait; later writes maintain the size.
func (e *Engine) sizeOfPartition(c *container, p *partition) (size, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == nil {
		s, err := e.measure(c, layout.AppendItemKey(nil, c.No, p.Min), layout.AppendItemKey(nil, c.No, p.Max))
		if err != nil {
			return s, err
		}
		p.size = &s
	}
	return *p.size, nil
}

// resize updates the size of the partition after the write is applied.
func (t *transaction) resize() {
	if t.p.size != nil {
		t.p.size.add(t.grown)
	}
}
