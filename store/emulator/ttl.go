package emulator

import (
	"bytes"
	"context"
	"errors"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/partitionkey"

	"github.com/cockroachdb/pebble/v2"
)

// Expired items are invisible at once. Purging only frees their space.
const (
	purgeInterval = 5 * time.Second
	purgeBatch    = 100 // items per scan
)

func (e *Engine) purgeLoop(ctx context.Context) {
	timer := time.NewTimer(purgeInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if e.durable.failed.Load() != nil {
				return // nothing can be deleted any more
			}
			if _, err := e.purge(ctx); err != nil && ctx.Err() == nil {
				e.o.Logger.Error("could not purge expired items", "err", err)
			}
			timer.Reset(purgeInterval)
		}
	}
}

// purge deletes expired items and returns their number.
func (e *Engine) purge(ctx context.Context) (int, error) {
	purged := 0
	for _, d := range e.catalog.Load().databases {
		for _, c := range d.containers {
			for ctx.Err() == nil {
				found, n, err := e.purgeSome(ctx, c)
				purged += n
				if api := (*apierror.Error)(nil); errors.As(err, &api) && api.Substatus == apierror.SubOwnerNotFound {
					break // dropped meanwhile
				}
				if err != nil {
					return purged, err
				}
				if found < purgeBatch || n == 0 {
					break
				}
			}
		}
	}
	return purged, ctx.Err()
}

// purgeSome deletes some of a container's expired items.
func (e *Engine) purgeSome(ctx context.Context, c *container) (found, purged int, err error) {
	addresses, epkLength, components, err := e.expiredAddresses(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	for rest := addresses; len(rest) > 0; {
		n := epkLength + partitionkey.KeyLength(rest[0][epkLength:], components)
		partition := rest[0][:n]
		same := 1 // one transaction per logical partition, unless it becomes large
		for same < len(rest) && bytes.HasPrefix(rest[same], partition) {
			same++
		}
		done, removed := 0, 0
		if _, _, err := e.commitAt(ctx, c, partition, func(t *transaction) error {
			for _, address := range rest[:same] {
				if t.batch.Len() > maxBatchWritten {
					break
				}
				done++
				id := string(address[n:])
				old, live, err := t.stored(id, &t.scratch.Doc)
				if err != nil {
					return err
				}
				if old == nil || live { // rewritten meanwhile
					continue
				}
				if _, err = t.remove(id, old); err != nil {
					return err
				}
				removed++
			}
			return nil
		}); err != nil {
			return len(addresses), purged, err
		}
		purged += removed
		rest = rest[done:]
	}
	return len(addresses), purged, nil
}

func (e *Engine) expiredAddresses(
	ctx context.Context, c *container,
) (addresses [][]byte, epkLength, components int, err error) {
	if err := c.rLock(ctx); err != nil {
		return nil, 0, 0, err
	}
	defer c.mu.RUnlock()
	if c.deleted || !c.def.ttl.Enabled {
		return nil, 0, 0, nil
	}
	it, err := e.db.NewIter(&pebble.IterOptions{
		LowerBound: layout.AppendKind(nil, layout.KindExpiry, c.No),
		UpperBound: layout.AppendExpiryKey(nil, c.No, e.o.Clock().Unix()+1, nil),
	})
	if err != nil {
		return nil, 0, 0, err
	}
	defer it.Close()
	for it.First(); it.Valid() && len(addresses) < purgeBatch; it.Next() {
		addresses = append(addresses, bytes.Clone(it.Key()[13:]))
	}
	return addresses, c.def.key.EPKLength(), len(c.def.key.Paths), it.Error()
}
