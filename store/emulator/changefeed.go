package emulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/query"

	"github.com/cockroachdb/pebble/v2"
)

// changeFeed serves the latest-version change feed of a physical or logical partition: every item
// once, at the LSN of its last write. The items of one transaction are on one page. A page without
// items is a 304 at the end of the feed, and an empty 200 after query.MaxPageScan entries. Everything on
// a page is durable, so that a saved position survives a crash.
func (e *Engine) changeFeed(q *request, c *container) (*response, error) {
	if err := c.rLock(q.ctx); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	if c.deleted {
		return nil, apierror.OwnerNotFound()
	}
	p, prefix, err := c.feedScopeLocked(q)
	if err != nil {
		return nil, err
	}
	token := q.get("X-Ms-Session-Token")
	if err := checkSession(p, p.applied.Load(), token); err != nil {
		return &response{container: c, partition: p}, err
	}
	size, err := query.PageSize(q.header)
	if err != nil {
		return nil, err
	}
	if err := e.admit(q, p); err != nil {
		return &response{container: c, partition: p}, err
	}
	f := feedReader{e: e, c: c, p: p, prefix: prefix, size: size, scratch: layout.GetScratch()}
	defer f.scratch.Release()
	if f.low, f.high, err = query.FeedRange(q.header); err != nil {
		return nil, err
	}
	view, err := e.viewLocked(c, []*partition{p}, token)
	if err != nil {
		return &response{container: c, partition: p}, err
	}
	f.items, err = view.NewIter(nil)
	view.release()
	if err != nil {
		return nil, err
	}
	defer f.items.Close()
	end, err := f.page(q)
	if err != nil {
		return nil, err
	}
	return f.response(end), nil
}

// feedScopeLocked returns the partition to read, and the address prefix of a logical partition, or
// nil. The caller holds mu.
func (c *container) feedScopeLocked(q *request) (p *partition, prefix []byte, err error) {
	if header := q.get("X-Ms-Documentdb-Partitionkey"); header != "" {
		key, err := c.def.key.Parse(header)
		if err != nil {
			return nil, nil, err
		}
		prefix = c.def.key.AppendEPK(nil, key)
		p = c.rangeOfLocked(prefix)
		if len(key) == len(c.def.key.Paths) {
			return p, key.AppendKey(prefix), nil
		}
		if bytes.Compare(layout.PrefixEnd(prefix), p.Max) <= 0 {
			return p, prefix, nil
		}
		// A prefix of a hierarchical key can span several physical partitions.
		id := q.get("X-Ms-Documentdb-Partitionkeyrangeid")
		if id == "" {
			return nil, nil, apierror.BadRequest(
				"The partition key lies in several partition key ranges: the change feed needs the header " +
					"'x-ms-documentdb-partitionkeyrangeid'.")
		}
		p, err = c.rangeByIDLocked(id)
		return p, prefix, err
	}
	if id := q.get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		p, err := c.rangeByIDLocked(id)
		return p, nil, err
	}
	if len(c.ranges) > 1 {
		return nil, nil, apierror.BadRequest(
			"The change feed of a container with several partition key ranges needs the header " +
				"'x-ms-documentdb-partitionkeyrangeid'.")
	}
	return c.ranges[0], nil, nil
}

// feedReader reads one page.
type feedReader struct {
	e      *Engine
	c      *container
	p      *partition
	prefix []byte
	low    []byte // inclusive lower bound of the effective partition key, or nil
	high   []byte // exclusive upper bound, or nil
	size   int
	last   uint64 // last LSN of the view
	after  uint64 // exclusive start of the page
	since  int64  // skip items written before this time, in seconds
	items  *pebble.Iterator

	scratch *layout.Scratch
	out     []byte // the response body so far
	count   int
	charge  float64
}

// page reads a page and returns the LSN of its end.
func (f *feedReader) page(q *request) (end uint64, err error) {
	// An unsynced write may have moved an item of this view, so the page waits until the whole view
	// is durable.
	if f.last, err = f.viewLSN(); err != nil {
		return 0, err
	}
	if err := f.e.durable.waitSynced(q.ctx, f.p, f.last); err != nil {
		return 0, err
	}
	if err := f.start(q); err != nil {
		return 0, err
	}
	if f.after >= f.last {
		return f.after, nil
	}
	return f.read(q)
}

// response returns the response for a page that ends at an LSN.
func (f *feedReader) response(end uint64) *response {
	resp := &response{container: f.c, partition: f.p, etag: quoteETag(strconv.FormatUint(end, 10)),
		session: sessionToken(f.p, f.last), lsn: f.last}
	if f.count == 0 && end >= f.last {
		resp.status, resp.charge = http.StatusNotModified, charge.NotModified
		return resp
	}
	resp.status, resp.body = http.StatusOK, f.scratch.Take(query.AppendListEnd(f.out, f.count))
	resp.items, resp.counted = f.count, true
	resp.charge = max(f.charge, charge.NotModified)
	return resp
}

// start finds the LSN at which the page begins. If-None-Match wins over If-Modified-Since: it is
// the client's later position.
func (f *feedReader) start(q *request) error {
	if match := q.get("If-None-Match"); match == "*" {
		f.after = f.last
		return nil
	} else if match != "" {
		lsn, err := strconv.ParseUint(strings.Trim(match, `"`), 10, 64)
		if err != nil {
			return apierror.BadRequest("The value '%s' specified for the header 'If-None-Match' is invalid.", match)
		}
		f.after = lsn
		return nil
	}
	since := q.get("If-Modified-Since")
	if since == "" {
		return nil
	}
	t, err := http.ParseTime(since)
	if err != nil {
		// azcosmos writes the zone as UTC.
		if t, err = time.Parse(time.RFC1123, since); err != nil {
			return apierror.BadRequest("The value '%s' specified for the header 'If-Modified-Since' is invalid.", since)
		}
	}
	f.since = t.Unix()
	return f.seekTime()
}

// seekTime finds the last LSN before the time since, assuming that times increase with LSNs.
func (f *feedReader) seekTime() (err error) {
	it, err := f.entries()
	if err != nil {
		return err
	}
	defer it.Close()
	n := int(min(f.last, math.MaxInt32))
	f.after = uint64(sort.Search(n, func(i int) bool {
		if err != nil || !it.SeekGE(layout.AppendFeedKey(nil, f.c.No, f.p.No, uint64(i)+1, 0)) {
			return true
		}
		var r *layout.Record
		if r, err = f.item(it); r == nil {
			return true
		}
		return r.Timestamp >= f.since
	}))
	return err
}

// holds reports whether an item is in the requested part of the partition.
func (f *feedReader) holds(address []byte) bool {
	return bytes.HasPrefix(address, f.prefix) && bytes.Compare(f.low, address) <= 0 &&
		(len(f.high) == 0 || bytes.Compare(address, f.high) < 0)
}

// viewLSN returns the last LSN in the view.
func (f *feedReader) viewLSN() (uint64, error) {
	key := layout.LSNKey(f.c.No, f.p.No)
	if !f.items.SeekPrefixGE(key) || !bytes.Equal(f.items.Key(), key) {
		return 0, f.items.Error()
	}
	return binary.BigEndian.Uint64(f.items.Value()), nil
}

func (f *feedReader) entries() (*pebble.Iterator, error) {
	return f.items.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{
		LowerBound: layout.AppendFeedKey(nil, f.c.No, f.p.No, f.after+1, 0),
		UpperBound: layout.AppendFeedKey(nil, f.c.No, f.p.No, f.last+1, 0),
	}})
}

// item returns the item of an entry, nil if it does not exist in this view. It reads the item
// unless the entry carries it. The record is valid until the next call.
func (f *feedReader) item(entry *pebble.Iterator) (*layout.Record, error) {
	address, stored := layout.SplitFeedValue(entry.Value())
	if len(stored) > 0 {
		r, err := f.c.ReadRecord(stored, &f.scratch.Doc)
		return &r, err
	}
	key := layout.AppendItemKey(f.scratch.Item[:0], f.c.No, address)
	if r, err := f.newest(key, entry.Key()); r != nil || err != nil {
		return r, err
	}
	if !f.items.SeekPrefixGE(key) || !bytes.Equal(f.items.Key(), key) {
		return nil, f.items.Error()
	}
	r, err := f.c.ReadRecord(f.items.Value(), &f.scratch.Doc)
	return &r, err
}

// newest returns the item if it has not been written since the entry with the key at: it is then
// the same in the view. For recent writes this is faster than a seek through all levels.
func (f *feedReader) newest(key, at []byte) (*layout.Record, error) {
	stored, closer, err := f.e.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer closer.Close()
	r, err := layout.ReadHeader(stored)
	if lsn, op := layout.FeedPosition(at); err != nil || r.LSN != lsn || r.Op != op {
		return nil, err
	}
	r, err = f.c.ReadRecord(stored, &f.scratch.Doc)
	return &r, err
}

// grow reserves capacity for an item of some size and for those that are likely to follow, at most
// one per remaining LSN.
func (f *feedReader) grow(size, lsns int) {
	if cap(f.out)-len(f.out) >= size {
		return
	}
	average := size
	if f.count > 0 {
		average = len(f.out) / f.count
	}
	f.out = slices.Grow(f.out, max(size, min(average*min(lsns, f.size-f.count),
		max(len(f.out), layout.ScratchKept-len(f.out)))))
}

// read fills the page and returns the LSN of its end.
func (f *feedReader) read(q *request) (last uint64, err error) {
	it, err := f.entries()
	if err != nil {
		return 0, err
	}
	defer it.Close()
	f.out = query.AppendListStart(f.scratch.Value[:0], "Documents", f.c.rid)
	last = f.after
	seen := 0
	for it.First(); it.Valid(); it.Next() {
		lsn, _ := layout.FeedPosition(it.Key())
		seen++
		if lsn != last {
			if f.count >= f.size || len(f.out) >= query.MaxPageBytes || seen > query.MaxPageScan {
				return last, nil
			}
			if err := q.ctx.Err(); err != nil {
				return 0, err
			}
		}
		last = lsn
		if address, _ := layout.SplitFeedValue(it.Value()); !f.holds(address) {
			continue
		}
		r, err := f.item(it)
		if err != nil {
			return 0, err
		}
		if r == nil || r.Timestamp < f.since || f.c.def.ttl.Expired(r, f.e.o.Clock) {
			continue
		}
		if f.count > 0 {
			f.out = append(f.out, ',')
		}
		f.grow(len(r.Doc)+layout.SystemBytes, int(f.last-lsn)+1)
		f.out = append(append(f.out, r.Doc[:len(r.Doc)-1]...), `,"_lsn":`...)
		f.out = append(strconv.AppendUint(f.out, lsn, 10), '}')
		f.count++
		f.charge += charge.Read(len(r.Doc))
	}
	return f.last, it.Error()
}
