package changefeed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/itemjson"
	"byline/store/cosmos/session"
)

// lease is an item of the leases container: owner and progress of one feed range.
//
// Invariant: all changes of the range before the continuation have been handled. It holds for every
// lease by itself. So no change is lost while leases together cover the range, even if they overlap,
// and a lease that others cover can be removed.
type lease struct {
	ID           string `json:"id"`
	MinInclusive string `json:"minInclusive"`
	MaxExclusive string `json:"maxExclusive"`
	Owner        string `json:"owner"` // "" if free
	Continuation string `json:"continuation"`
	Generation   int64  `json:"generation"` // raised by every change of owner
	Renewals     int64  `json:"renewals"`   // raised by every write, which changes the ETag

	// Expiry is how long the lease stays valid without renewal, in nanoseconds. Owners may differ
	// in it.
	Expiry time.Duration `json:"expiry,omitempty"`

	// Merging marks a lease that replaces all narrower ones within its range. Its owner removes
	// those first.
	Merging bool `json:"merging,omitempty"`

	// Resets counts the Resets of the range. Of two leases for the same changes, the one with fewer
	// Resets is revoked: it replaces no other.
	Resets int64 `json:"resets,omitempty"`

	// ReplayTo is the LSN at the end of the feed when the range was reset, until the range has been
	// replayed up to it; then 0.
	ReplayTo uint64 `json:"replayTo,omitempty"`

	// Version is the version of the session token that came with the continuation. A failover raises it.
	Version int64 `json:"version,omitempty"`

	// Until bounds the times of the changes before the continuation, in Unix seconds: none is later.
	Until int64 `json:"until,omitempty"`

	raw     []byte // as read or created
	etag    azcore.ETag
	written time.Time // start of this process's last write
	renewed time.Time // _ts of a listed lease, in whole seconds
}

func (v *lease) feedRange() azcosmos.FeedRange {
	return azcosmos.FeedRange{MinInclusive: v.MinInclusive, MaxExclusive: v.MaxExclusive}
}

// errLeaseLost is the cause of the cancellation of a handler's context if another process has taken
// the lease, or may have taken it because it was not renewed in time.
var errLeaseLost = errors.New("lease lost")

// leases reads and writes the leases of one processor.
type leases struct {
	container Container
	prefix    string
	clock     func() time.Time
}

func (l leases) id(r azcosmos.FeedRange) string {
	return l.prefix + "." + spanOf(r)
}

// list returns all leases. The result is not a snapshot: while leases are replaced, it may miss both
// the old and the new ones.
func (l leases) list(ctx context.Context) ([]*lease, error) {
	pager := l.container.NewQueryItemsPager("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)",
		azcosmos.NewPartitionKey(),
		&azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@prefix", Value: l.prefix + "."}}})
	var all []*lease
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list leases: %w", err)
		}
		for _, raw := range page.Items {
			var v struct {
				lease
				ETag azcore.ETag `json:"_etag"`
				TS   int64       `json:"_ts"`
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				return nil, fmt.Errorf("list leases: %w", err)
			}
			v.raw, v.etag, v.renewed = raw, v.ETag, time.Unix(v.TS, 0)
			if v.ID == l.id(v.feedRange()) { // excludes processors whose name has this one as a prefix
				all = append(all, &v.lease)
			}
		}
	}
	return all, nil
}

// read returns a lease, or nil if it does not exist.
func (l leases) read(ctx context.Context, id string) (*lease, error) {
	r, err := l.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), id, nil)
	if hasStatus(err, http.StatusNotFound) && !isBehind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lease %s: %w", id, err)
	}
	v := &lease{raw: r.Value, etag: r.ETag}
	if err := json.Unmarshal(r.Value, v); err != nil {
		return nil, fmt.Errorf("read lease %s: %w", id, err)
	}
	return v, nil
}

// create creates a lease. It reports false if the lease exists.
func (l leases) create(ctx context.Context, v *lease) (bool, error) {
	v.ID = l.id(v.feedRange())
	item, err := itemjson.Encode(v)
	if err != nil {
		return false, err
	}
	began := l.clock()
	r, err := l.container.CreateItem(ctx, azcosmos.NewPartitionKeyString(v.ID), item, nil)
	if hasStatus(err, http.StatusConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("create lease %s: %w", v.ID, err)
	}
	v.raw, v.etag, v.written = item, r.ETag, began
	return true, nil
}

// save replaces the lease if its ETag has not changed, and updates the ETag; otherwise it returns
// errLeaseLost. The lease must have been read or created.
func (l leases) save(ctx context.Context, v *lease) error {
	v.Renewals++
	item, err := itemjson.EncodeOver(v, v.raw)
	if err != nil {
		return fmt.Errorf("write lease %s: %w", v.ID, err)
	}
	began := l.clock()
	r, err := l.container.ReplaceItem(ctx, azcosmos.NewPartitionKeyString(v.ID), v.ID, item,
		&azcosmos.ItemOptions{IfMatchEtag: &v.etag})
	if hasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return errLeaseLost
	}
	if err != nil {
		return fmt.Errorf("write lease %s: %w", v.ID, err)
	}
	v.etag, v.written = r.ETag, began
	return nil
}

// remove deletes the lease if its ETag has not changed; otherwise it returns errLeaseLost.
func (l leases) remove(ctx context.Context, v *lease) error {
	_, err := l.container.DeleteItem(ctx, azcosmos.NewPartitionKeyString(v.ID), v.ID,
		&azcosmos.ItemOptions{IfMatchEtag: &v.etag})
	if hasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return errLeaseLost
	}
	if err != nil {
		return fmt.Errorf("delete lease %s: %w", v.ID, err)
	}
	return nil
}

// reset moves a lease to the position of v, in a new generation, if it was reset less often than v.
// The next write of its owner fails, and the owner takes the lease again.
func (l leases) reset(ctx context.Context, v *lease) error {
	for {
		now, err := l.read(ctx, v.ID)
		if now == nil || err != nil || now.Resets >= v.Resets {
			return err
		}
		now.Continuation, now.Resets, now.ReplayTo = v.Continuation, v.Resets, v.ReplayTo
		now.Generation++
		if err := l.save(ctx, now); !errors.Is(err, errLeaseLost) {
			return err
		}
	}
}

// take makes owner the owner of a lease and increments its generation. It returns nil if another process was faster, or
// if a later version of the program wrote the lease. An expired lease must be unchanged since it was seen. With steal,
// the lease has an owner that may still write checkpoints, so only its owner and generation must be unchanged.
func (l leases) take(ctx context.Context, seen *lease, owner string, expiry time.Duration, steal bool) (*lease, error) {
	v := *seen
	for range 5 {
		v.Owner, v.Expiry = owner, expiry
		v.Generation++
		err := l.save(ctx, &v)
		if err == nil {
			return &v, nil
		}
		if errors.Is(err, itemjson.ErrLater) {
			return nil, nil // left to processes of that version
		}
		if !errors.Is(err, errLeaseLost) {
			return nil, err
		}
		now, err := l.read(ctx, seen.ID)
		if err != nil {
			return nil, err
		}
		if !steal || now == nil || now.Owner != seen.Owner || now.Generation != seen.Generation {
			return nil, nil
		}
		v = *now
	}
	return nil, nil
}

// complete lists the leases and creates the missing ones: for every part of a feed range that no
// lease covers, from the beginning of the feed. Other processes may have created one of them, split
// or merged it, and removed it between the listing and the creation. A lease created here that the
// final listing shows to be replaced is removed again.
func (l leases) complete(ctx context.Context, ranges []azcosmos.FeedRange) ([]*lease, error) {
	all, err := l.list(ctx)
	missing := missingRanges(ranges, all)
	if err == nil && len(missing) > 0 && len(all) > 0 {
		// A listing may have missed both a lease and its replacement: list again.
		all, err = l.list(ctx)
		missing = missingRanges(ranges, all)
	}
	if err != nil || len(missing) == 0 {
		return all, err
	}
	created := map[string]azcore.ETag{}
	for _, r := range missing {
		v := &lease{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive}
		if ok, err := l.create(ctx, v); err != nil {
			return nil, err
		} else if ok {
			created[v.ID] = v.etag
		}
	}
	if all, err = l.list(ctx); err != nil {
		return nil, err
	}
	isCreated := func(v *lease) bool { return created[v.ID] == v.etag }
	others := feedRanges(slices.DeleteFunc(slices.Clone(all), isCreated))
	var kept []*lease
	for _, v := range all {
		if !isCreated(v) || len(uncovered(v.feedRange(), others)) > 0 {
			kept = append(kept, v)
		} else if err := l.remove(ctx, v); err != nil && !errors.Is(err, errLeaseLost) {
			return nil, err
		}
	}
	return kept, nil
}

// missingRanges returns the parts of the ranges that no lease covers.
func missingRanges(ranges []azcosmos.FeedRange, all []*lease) (missing []azcosmos.FeedRange) {
	for _, r := range ranges {
		missing = append(missing, uncovered(r, feedRanges(all))...)
	}
	return missing
}

func feedRanges(all []*lease) []azcosmos.FeedRange {
	ranges := make([]azcosmos.FeedRange, len(all))
	for i, v := range all {
		ranges[i] = v.feedRange()
	}
	return ranges
}

// held is a lease of this process. Checkpoints and renewals come from different goroutines.
type held struct {
	leases   leases
	r        azcosmos.FeedRange
	expiry   time.Duration
	watchdog *time.Timer // cancels the work when the lease has not been written for its expiry

	writing chan struct{} // holds a value during a write

	mu      sync.Mutex
	lease   lease  // guarded by mu; as last written
	at      string // guarded by mu; the continuation, saved with the next write
	version int64  // guarded by mu; its Version
	until   int64  // guarded by mu; its Until
}

func (h *held) get() lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// remains returns how long the lease is valid without another write. The caller holds mu, or has not
// shared h yet.
func (h *held) remains() time.Duration { return h.expiry - h.leases.clock().Sub(h.lease.written) }

// write changes the lease. An ambiguous earlier write may have changed the ETag: if owner and
// generation are still the same, it writes again.
func (h *held) write(ctx context.Context, change func(*lease)) error {
	h.writing <- struct{}{}
	defer func() { <-h.writing }()
	h.mu.Lock()
	v, at := h.lease, h.at
	v.Version, v.Until = h.version, h.until
	h.mu.Unlock()
	owner, generation := v.Owner, v.Generation
	v.Continuation = at
	change(&v)
	err := h.leases.save(ctx, &v)
	if errors.Is(err, errLeaseLost) {
		now, rerr := h.leases.read(ctx, v.ID)
		if rerr != nil {
			return rerr
		}
		if now == nil || now.Owner != owner || now.Generation != generation {
			return err
		}
		v.raw, v.etag = now.raw, now.etag
		err = h.leases.save(ctx, &v)
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease = v; v.Continuation != at {
		h.at = v.Continuation
	}
	h.watchdog.Reset(h.remains())
	return nil
}

// record sets the position that the next write saves: after the page. It returns the time of the last
// write.
func (h *held) record(page pageResult) (written time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.version, h.until = page.at, page.end.version, page.until
	return h.lease.written
}

// age returns the time since the last write.
func (h *held) age() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases.clock().Sub(h.lease.written)
}

// renew keeps the lease from expiring, and saves the continuation.
func (h *held) renew(ctx context.Context) error { return h.write(ctx, func(*lease) {}) }

// checkpoint saves a continuation.
func (h *held) checkpoint(ctx context.Context, continuation string) error {
	return h.write(ctx, func(v *lease) { v.Continuation = continuation })
}

// release saves the continuation and frees the lease.
func (h *held) release(ctx context.Context, continuation string) error {
	return h.write(ctx, func(v *lease) { v.Owner, v.Continuation = "", continuation })
}

// sighting records when a lease was first seen with its present ETag, by this process's clock. Expiry
// is measured from then, never by another machine's clock.
type sighting struct {
	etag  azcore.ETag
	since time.Time
}

// remains returns how long the lease is valid unless it changes.
func (s *sighting) remains(v *lease, now time.Time) time.Duration {
	if s.etag != v.etag {
		s.etag, s.since = v.etag, now
	}
	return v.Expiry - now.Sub(s.since)
}

// isBehind reports whether a 404 means that no replica has reached the session token, so that the item may exist.
func isBehind(err error) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && session.IsBehind(r.RawResponse)
}

func hasStatus(err error, statuses ...int) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && slices.Contains(statuses, r.StatusCode)
}
