package emulator

import (
	"bytes"
	"context"
	"errors"

	"byline/store/emulator/internal/layout"

	"github.com/cockroachdb/pebble/v2"
)

// replicated is the state that the account's other regions have received, for FailOver.
type replicated struct {
	items *pebble.Snapshot
	cat   *catalog
}

// Replicated records the present state as the one that the account's other regions have received. Like
// FailOver it waits for requests in progress. It is for tests.
func (e *Engine) Replicated() error {
	e.life.Lock()
	defer e.life.Unlock()
	if e.closed {
		return errClosed
	}
	e.releaseReplicated()
	e.replicated = &replicated{e.db.NewSnapshot(), e.catalog.Load()}
	return nil
}

func (e *Engine) releaseReplicated() {
	if e.replicated != nil {
		e.replicated.items.Close() // never fails
		e.replicated = nil
	}
}

// FailOver makes a forced failover: the next of Options.Regions takes the writes, and the writes since
// Replicated are lost. LSNs continue from that state, so session tokens and change feed continuations may
// be ahead of them. It fails if Replicated was not called, or if a database, a container or its physical
// partitions have changed since. It is for tests: data on disk is rolled back too.
func (e *Engine) FailOver() error {
	e.life.Lock()
	defer e.life.Unlock()
	switch {
	case e.closed:
		return errClosed
	case e.replicated == nil:
		return errors.New("fail over: no replicated state")
	case e.replicated.cat != e.catalog.Load():
		return errors.New("fail over: the account's metadata has changed since the replicated state")
	}
	defer e.releaseReplicated()
	batch := e.db.NewBatch()
	defer batch.Close()
	for _, d := range e.replicated.cat.databases {
		for _, c := range d.containers {
			c.lock() // expired items may be purged meanwhile
			defer c.unlock()
			for _, p := range c.ranges {
				if err := e.durable.waitSynced(context.Background(), p, p.applied.Load()); err != nil {
					return err
				}
			}
			for _, kind := range layout.ContainerKinds {
				low := layout.AppendKind(nil, kind, c.No)
				if err := restore(batch, e.db, e.replicated.items, low, layout.PrefixEnd(low)); err != nil {
					return err
				}
			}
		}
	}
	if err := e.durable.outcome(e.db.Apply(batch, pebble.Sync)); err != nil {
		e.writesFailed(err)
		return notDurable()
	}
	for _, d := range e.replicated.cat.databases {
		for _, c := range d.containers {
			for _, p := range c.ranges {
				p.size, p.logical = nil, nil
			}
			if err := e.recoverLSNs(c); err != nil {
				return err
			}
		}
	}
	if e.replica != nil {
		e.replica.catchUp()
	}
	e.regions.failOver()
	return nil
}

// restore adds to batch the writes that return the keys in [low, high) from their current to their past state.
func restore(batch *pebble.Batch, current, past pebble.Reader, low, high []byte) (err error) {
	bounds := &pebble.IterOptions{LowerBound: low, UpperBound: high}
	now, err := current.NewIter(bounds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, now.Close()) }()
	then, err := past.NewIter(bounds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, then.Close()) }()
	now.First()
	then.First()
	for now.Valid() || then.Valid() {
		order := 0
		switch {
		case !then.Valid():
			order = -1
		case !now.Valid():
			order = 1
		default:
			order = bytes.Compare(now.Key(), then.Key())
		}
		switch {
		case order < 0:
			err = batch.Delete(now.Key(), nil)
		case order > 0 || !bytes.Equal(now.Value(), then.Value()):
			err = batch.Set(then.Key(), then.Value(), nil)
		}
		if err != nil {
			return err
		}
		if order <= 0 {
			now.Next()
		}
		if order >= 0 {
			then.Next()
		}
	}
	return errors.Join(now.Error(), then.Error())
}
