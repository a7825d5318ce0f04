package emulator

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"byline/store/emulator/internal/layout"
)

// replicaSteps is the number of steps in which a replica advances within its lag. It holds one more
// snapshot.
const replicaSteps = 8

// replica serves reads from a past state, like a replica that has not received the last writes. A
// write becomes visible soon after the lag has passed. Changes of metadata, including splits, and
// all writes before them become visible at once.
//
// A read whose session token is ahead of the replica is served from the newest state; every other
// such read of a token is refused (404, substatus 1002), as in the service when no replica is recent enough.
type replica struct {
	db      *pebble.DB
	lag     time.Duration
	refused sync.Map // tokens of which the last read was refused: keys are containerToken

	mu     sync.RWMutex
	states []pastState // guarded by mu; oldest first, which is the visible one
}

type containerToken struct {
	container uint32
	token     string
}

type pastState struct {
	snapshot *pebble.Snapshot
	taken    time.Time
}

func newReplica(db *pebble.DB, lag time.Duration) *replica {
	r := &replica{db: db, lag: lag}
	r.catchUp()
	return r
}

// run advances the replica until ctx ends.
func (r *replica) run(ctx context.Context) {
	ticker := time.NewTicker(max(r.lag/replicaSteps, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.follow()
		}
	}
}

// follow takes a snapshot and closes those that are older than the visible one.
func (r *replica) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states = append(r.states, pastState{r.db.NewSnapshot(), time.Now()})
	for time.Since(r.states[1].taken) >= r.lag {
		r.states[0].snapshot.Close() // never fails; iterators keep it open
		r.states = r.states[1:]
		if len(r.states) == 1 {
			return
		}
	}
}

// catchUp advances to the newest state.
func (r *replica) catchUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLocked()
	r.states = []pastState{{r.db.NewSnapshot(), time.Now()}}
}

func (r *replica) closeLocked() {
	for _, s := range r.states {
		s.snapshot.Close()
	}
	r.states = nil
}

func (r *replica) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeLocked()
}

// view is the state that a read sees: the newest or the replica's.
type view struct {
	pebble.Reader // valid until release; iterators stay valid
	release       func()
	lsn           uint64                // if one partition is read
	lsns          map[*partition]uint64 // if several partitions are read
}

// at returns an LSN of p that is durable and in the view.
func (v view) at(p *partition) uint64 {
	if v.lsns == nil {
		return v.lsn
	}
	return min(v.lsns[p], p.synced.Load())
}

// newestView returns the newest state of some partitions. It may be ahead of the LSNs that at
// returns.
func (e *Engine) newestView(ranges []*partition) view {
	v := view{Reader: e.db, release: func() {}, lsn: ranges[0].synced.Load()}
	if len(ranges) > 1 {
		v.lsns = make(map[*partition]uint64, len(ranges))
		for _, p := range ranges {
			v.lsns[p] = p.synced.Load()
		}
	}
	return v
}

// viewLocked returns the state that a read of some partitions sees under a session token. The
// caller holds c.mu.
func (e *Engine) viewLocked(c *container, ranges []*partition, token string) (view, error) {
	newest := e.newestView(ranges)
	if e.replica == nil {
		return newest, nil
	}
	past, err := e.replica.view(c, ranges)
	if err != nil {
		return newest, err
	}
	for _, p := range ranges {
		err := checkSession(p, past.lsns[p], token)
		if err == nil {
			continue
		}
		past.release()
		key := containerToken{c.No, strings.Clone(token)}
		if _, refused := e.replica.refused.LoadAndDelete(key); refused {
			return newest, nil
		}
		e.replica.refused.Store(key, true)
		return newest, err
	}
	return past, nil
}

func (r *replica) view(c *container, ranges []*partition) (view, error) {
	r.mu.RLock()
	v := view{Reader: r.states[0].snapshot, release: r.mu.RUnlock, lsns: make(map[*partition]uint64, len(ranges))}
	for _, p := range ranges {
		lsn, err := storedLSN(v, c, p)
		if err != nil {
			v.release()
			return view{}, err
		}
		v.lsns[p] = lsn
	}
	return v, nil
}

// storedLSN returns the last LSN of a partition.
func storedLSN(db pebble.Reader, c *container, p *partition) (uint64, error) {
	v, closer, err := db.Get(layout.LSNKey(c.No, p.No))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), closer.Close()
}
