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
)

// lease is an item of the leases container: who works on a feed range, and how
// far they have come.
//
// Invariant: all changes of the range before the continuation have been handled.
// It holds of every lease by itself, so any leases that cover a range between
// them, however they overlap, lose nothing, and one that others cover can go.
type lease struct {
	ID           string `json:"id"`
	MinInclusive string `json:"minInclusive"`
	MaxExclusive string `json:"maxExclusive"`
	Owner        string `json:"owner"` // "" if nobody
	Continuation string `json:"continuation"`
	Generation   int64  `json:"generation"` // raised by every change of owner
	Renewals     int64  `json:"renewals"`   // raised by every write, so that observers see a sign of life

	// Expiry is how long the owner lets the lease go without a sign of life, in
	// nanoseconds. Owners may differ in it.
	Expiry time.Duration `json:"expiry,omitempty"`

	// Merging says that the lease replaces all finer ones within its range, which
	// its owner removes before anything else.
	Merging bool `json:"merging,omitempty"`

	// Resets counts how often Reset has sent the range back to the beginning. Of
	// two leases for the same changes, the one that was reset less often holds what
	// Reset has revoked: it replaces no other.
	Resets int64 `json:"resets,omitempty"`

	// ReplayTo is the LSN at which the range's feed ended when it was reset, until
	// the changes up to there have been handled again; then 0.
	ReplayTo uint64 `json:"replayTo,omitempty"`

	etag    azcore.ETag
	written time.Time // by this process, at the latest: when the write was begun
	renewed time.Time // by whom ever, by Cosmos DB's clock in whole seconds; of listed leases
}

func (v *lease) feedRange() azcosmos.FeedRange {
	return azcosmos.FeedRange{MinInclusive: v.MinInclusive, MaxExclusive: v.MaxExclusive}
}

// ErrLeaseLost is the cause with which a handler's context ends when another
// process has taken the lease, or may have taken it because this one could not
// renew it in time.
var ErrLeaseLost = errors.New("the lease was lost")

// leases reads and writes the leases of one processor.
type leases struct {
	container *azcosmos.ContainerClient
	prefix    string
	clock     func() time.Time
}

func (l leases) id(r azcosmos.FeedRange) string {
	return l.prefix + "." + spanOf(r)
}

// list returns all leases. They are not of one moment: a lease may be missing
// that was replaced by others meanwhile, and these others, too.
func (l leases) list(ctx context.Context) ([]*lease, error) {
	pager := l.container.NewQueryItemsPager("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)", azcosmos.NewPartitionKey(),
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
			v.etag, v.renewed = v.ETag, time.Unix(v.TS, 0)
			if v.ID == l.id(v.feedRange()) { // not of a processor whose name begins with this one's
				all = append(all, &v.lease)
			}
		}
	}
	return all, nil
}

// read returns a lease, nil if there is none.
func (l leases) read(ctx context.Context, id string) (*lease, error) {
	r, err := l.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), id, nil)
	if hasStatus(err, http.StatusNotFound) && !sessionAhead(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lease %s: %w", id, err)
	}
	v := &lease{etag: r.ETag}
	if err := json.Unmarshal(r.Value, v); err != nil {
		return nil, fmt.Errorf("read lease %s: %w", id, err)
	}
	return v, nil
}

// create makes a lease, and reports false if there is one already.
func (l leases) create(ctx context.Context, v *lease) (bool, error) {
	v.ID = l.id(v.feedRange())
	item, err := json.Marshal(v)
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
	v.etag, v.written = r.ETag, began
	return true, nil
}

// save writes the lease if it is still what was read, and takes over its new
// ETag; otherwise it returns ErrLeaseLost.
func (l leases) save(ctx context.Context, v *lease) error {
	v.Renewals++
	item, err := json.Marshal(v)
	if err != nil {
		return err
	}
	began := l.clock()
	r, err := l.container.ReplaceItem(ctx, azcosmos.NewPartitionKeyString(v.ID), v.ID, item, &azcosmos.ItemOptions{IfMatchEtag: &v.etag})
	if hasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("write lease %s: %w", v.ID, err)
	}
	v.etag, v.written = r.ETag, began
	return nil
}

// remove deletes the lease if it is still what was read; otherwise it returns
// ErrLeaseLost, also if it is gone.
func (l leases) remove(ctx context.Context, v *lease) error {
	_, err := l.container.DeleteItem(ctx, azcosmos.NewPartitionKeyString(v.ID), v.ID, &azcosmos.ItemOptions{IfMatchEtag: &v.etag})
	if hasStatus(err, http.StatusPreconditionFailed, http.StatusNotFound) {
		return ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("delete lease %s: %w", v.ID, err)
	}
	return nil
}

// sendBack moves an existing lease to where v is, in a new generation, if v was
// reset since the lease was. Its owner finds its next write refused, and takes it
// up anew.
func (l leases) sendBack(ctx context.Context, v *lease) error {
	for {
		now, err := l.read(ctx, v.ID)
		if now == nil || err != nil || now.Resets >= v.Resets {
			return err
		}
		now.Continuation, now.Resets, now.ReplayTo = v.Continuation, v.Resets, v.ReplayTo
		now.Generation++
		if err := l.save(ctx, now); !errors.Is(err, ErrLeaseLost) {
			return err
		}
	}
}

// take makes owner the owner of a lease, in a new generation. It returns nil if
// somebody was faster. A lease that nobody renews must be as it was seen; one
// that is stolen must only have the owner that it was seen with, who may be
// writing checkpoints all the time.
func (l leases) take(ctx context.Context, seen *lease, owner string, expiry time.Duration, steal bool) (*lease, error) {
	v := *seen
	for range 5 {
		v.Owner, v.Expiry = owner, expiry
		v.Generation++
		err := l.save(ctx, &v)
		if err == nil {
			return &v, nil
		}
		if !errors.Is(err, ErrLeaseLost) {
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

// complete lists the leases, and makes those that are missing: for every feed
// range, or what is left of it, that no lease covers. They begin at the beginning
// of the feed. One that others have made, too, and split or merged and removed,
// between the first listing and the making, is taken back if the last listing shows
// what replaced it: it would be worked on from the beginning, in a generation that
// it has had.
func (l leases) complete(ctx context.Context, ranges []azcosmos.FeedRange) ([]*lease, error) {
	all, err := l.list(ctx)
	missing := without(ranges, all)
	if err == nil && len(missing) > 0 && len(all) > 0 {
		// A listing may have missed both a lease and what replaced it: look twice.
		all, err = l.list(ctx)
		missing = without(ranges, all)
	}
	if err != nil || len(missing) == 0 {
		return all, err
	}
	made := map[string]azcore.ETag{}
	for _, r := range missing {
		v := &lease{MinInclusive: r.MinInclusive, MaxExclusive: r.MaxExclusive}
		if ok, err := l.create(ctx, v); err != nil {
			return nil, err
		} else if ok {
			made[v.ID] = v.etag
		}
	}
	if all, err = l.list(ctx); err != nil {
		return nil, err
	}
	isMade := func(v *lease) bool { return made[v.ID] == v.etag }
	others := feedRanges(slices.DeleteFunc(slices.Clone(all), isMade))
	var rest []*lease
	for _, v := range all {
		if !isMade(v) || len(uncovered(v.feedRange(), others)) > 0 {
			rest = append(rest, v)
		} else if err := l.remove(ctx, v); err != nil && !errors.Is(err, ErrLeaseLost) {
			return nil, err
		}
	}
	return rest, nil
}

// without returns what of the ranges has no lease.
func without(ranges []azcosmos.FeedRange, all []*lease) (missing []azcosmos.FeedRange) {
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

// held is a lease that this process holds. Its checkpoints and its renewals come
// from different goroutines.
type held struct {
	leases   leases
	r        azcosmos.FeedRange
	expiry   time.Duration
	watchdog *time.Timer // ends the work when the lease was not written for as long as its expiry

	mu    sync.Mutex
	lease lease // guarded by mu
}

func (h *held) get() lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// remains is how long the lease is good for unless it is written.
func (h *held) remains() time.Duration { return h.expiry - h.leases.clock().Sub(h.lease.written) }

// write changes the lease. A write that was cut off may have taken effect without
// our learning its ETag: then the lease is still this owner's in this generation,
// and is written again.
func (h *held) write(ctx context.Context, change func(*lease)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.lease
	change(&v)
	err := h.leases.save(ctx, &v)
	if errors.Is(err, ErrLeaseLost) {
		now, rerr := h.leases.read(ctx, v.ID)
		if rerr != nil {
			return rerr
		}
		if now == nil || now.Owner != h.lease.Owner || now.Generation != h.lease.Generation {
			return err
		}
		v.etag = now.etag
		err = h.leases.save(ctx, &v)
	}
	if err != nil {
		return err
	}
	h.lease = v
	h.watchdog.Reset(h.remains())
	return nil
}

// renew writes a sign of life.
func (h *held) renew(ctx context.Context) error { return h.write(ctx, func(*lease) {}) }

// checkpoint writes how far the work has come.
func (h *held) checkpoint(ctx context.Context, continuation string) error {
	return h.write(ctx, func(v *lease) { v.Continuation = continuation })
}

// release gives the lease up, with the last checkpoint.
func (h *held) release(ctx context.Context, continuation string) error {
	return h.write(ctx, func(v *lease) { v.Owner, v.Continuation = "", continuation })
}

// sighting is when a lease was first seen in its present state, by this
// process's own clock: whether a lease has expired is judged by how long it has
// not changed, never by another machine's time.
type sighting struct {
	etag  azcore.ETag
	since time.Time
}

// remains is how long, unless it changes, the lease is still its owner's.
func (s *sighting) remains(v *lease, now time.Time) time.Duration {
	if s.etag != v.etag {
		s.etag, s.since = v.etag, now
	}
	return v.Expiry - now.Sub(s.since)
}

// sessionAhead reports whether a 404 means that no replica has come as far as the
// session token asks, so that nobody knows whether there is such an item.
func sessionAhead(err error) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.RawResponse.Header.Get("X-Ms-Substatus") == "1002"
}

func hasStatus(err error, statuses ...int) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && slices.Contains(statuses, r.StatusCode)
}
