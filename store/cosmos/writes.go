package cosmos

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"byline/store/cosmos/session"
)

// Writes counts the writes of contexts that WithWrites returned. The zero value has counted nothing.
type Writes struct {
	mu     sync.Mutex
	ranges map[string]map[uint64]Written // guarded by mu; by the container's path and the id of the range
}

// Written summarizes the writes to a partition key range.
type Written struct {
	Transactions uint64 // acknowledged by Cosmos DB; ambiguous ones are not counted
	LSN          uint64 // the highest in their responses, at least that of the last one
	Version      int64  // of the session token with that LSN; 0 in an account with one region
}

// WithWrites returns a context whose writes w counts.
func WithWrites(ctx context.Context, w *Writes) context.Context {
	s := scopeOf(ctx)
	s.writes = w
	return context.WithValue(ctx, scopeKey{}, s)
}

// In returns the writes to a container, by the id of the partition key range.
func (w *Writes) In(c *Container) map[uint64]Written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ranges[c.path])
}

// count counts a request if it was a successful write of items.
func (w *Writes) count(r *http.Request, resp *http.Response) {
	path := containerPath(r.URL.EscapedPath())
	if path == "" || !isWrite(r) || resp.StatusCode >= http.StatusMultipleChoices || resp.StatusCode == http.StatusMultiStatus {
		return // a 207 is a batch that failed; see bodyPolicy
	}
	at := session.PositionOf(resp.Header.Get(sessionHeader)) // without a token, the write counts for range 0, whose LSN then has too many transactions
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ranges == nil {
		w.ranges = map[string]map[uint64]Written{}
	}
	if w.ranges[path] == nil {
		w.ranges[path] = map[uint64]Written{}
	}
	of := w.ranges[path][at.Range()]
	of.Transactions++
	of.LSN, of.Version = max(of.LSN, uint64(max(0, at.LSN()))), max(of.Version, at.Version())
	w.ranges[path][at.Range()] = of
}
