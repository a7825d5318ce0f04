package graph

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/graph-gophers/dataloader/v7"
	"golang.org/x/sync/errgroup"
)

const (
	loaderWait  = time.Millisecond // how long a batch waits for company
	loaderBatch = 100              // the store's bound on reading many at once
)

// loader reads objects of one kind in batches and remembers them. A key that was
// asked for twice is read once; a read that failed is not remembered.
//
// What is queued for a batch is a group of keys, not a key: a group that was
// announced enters its batch as a whole, however busy the machine is. While more are expected
// to be announced nothing is queued, for they may belong to the same batch.
type loader[K comparable, V any] struct {
	read func(asker any, keys []K) ([]V, error)

	mu        sync.Mutex
	queue     *dataloader.Loader[*group[K], []V] // guarded by mu; nil until something is read
	known     map[K]func() (V, error)            // guarded by mu; what was read, or is being read
	expected  int                                // guarded by mu; groups that will be announced
	held      *heldGroup[K, V]                   // guarded by mu; what is not queued until they are; nil: nothing
	announced []func() []K                       // guarded by mu; groups that are not in groups yet
	groups    map[K][]K                          // guarded by mu; the group that a key was announced in
}

// group is some keys that are read together; its identity is its address.
type group[K comparable] struct {
	keys  []K
	asker any // for the first of them; see withAsker
}

// heldGroup is a group that is held back until it is queued.
type heldGroup[K comparable, V any] struct {
	group[K]
	queued chan struct{} // closed when read is there
	read   dataloader.Thunk[[]V]
}

// newLoader makes a loader whose batches run on ctx. fetch gets distinct keys, at
// most loaderBatch of them, and returns their values in the same order.
func newLoader[K comparable, V any](ctx context.Context, fetch func(context.Context, []K) ([]V, error)) *loader[K, V] {
	return &loader[K, V]{read: func(asker any, keys []K) ([]V, error) { return fetchAll(withAsker(ctx, asker), keys, fetch) }}
}

// batch reads the keys of some groups.
func (l *loader[K, V]) batch(_ context.Context, groups []*group[K]) []*dataloader.Result[[]V] {
	var keys []K
	for _, g := range groups {
		keys = append(keys, g.keys...)
	}
	values, err := l.read(groups[0].asker, keys)
	results := make([]*dataloader.Result[[]V], len(groups))
	for i, g := range groups {
		results[i] = &dataloader.Result[[]V]{Error: err}
		if err == nil {
			n := len(g.keys)
			results[i].Data, values = values[:n:n], values[n:]
		}
	}
	return results
}

// fetchAll fetches the values of any number of keys, loaderBatch at a time.
func fetchAll[K, V any](ctx context.Context, keys []K, fetch func(context.Context, []K) ([]V, error)) ([]V, error) {
	values := make([]V, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	for start := 0; start < len(keys); start += loaderBatch {
		end := min(start+loaderBatch, len(keys))
		g.Go(func() error {
			got, err := guarded(func() ([]V, error) { return fetch(ctx, keys[start:end]) })
			copy(values[start:end], got)
			return err
		})
	}
	return values, g.Wait()
}

// guarded makes a panic of read an error, so that nobody waits for it in vain.
func guarded[V any](read func() (V, error)) (value V, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = caught(v)
		}
	}()
	return read()
}

// expect says that keys are going to be announced, once, by what it returns: that they will be
// asked for together, if at all. The first of them to be loaded takes the others along. keys is
// called when it matters. Nothing may be loaded on the way from the one to the other.
func (l *loader[K, V]) expect() (announce func(keys func() []K)) {
	l.mu.Lock()
	l.expected++
	l.mu.Unlock()
	return func(keys func() []K) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.announced = append(l.announced, keys)
		if l.expected--; l.expected == 0 && l.held != nil {
			l.held.read = l.queueLocked(&l.held.group)
			close(l.held.queued)
			l.held = nil
		}
	}
}

// prime remembers a value that was read by other means.
func (l *loader[K, V]) prime(key K, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[key]; !ok {
		l.knowLocked(key, func() (V, error) { return value, nil })
	}
}

// readAlone returns what is remembered of a key. If nothing is, it is read by itself, rather
// than in a batch, and remembered.
func (l *loader[K, V]) readAlone(key K, read func() (V, error)) (V, error) {
	l.mu.Lock()
	remembered, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		if value, err := remembered(); err == nil {
			return value, nil
		}
	}
	value, err := read()
	if err == nil {
		l.prime(key, value)
	}
	return value, err
}

func (l *loader[K, V]) knowLocked(key K, value func() (V, error)) {
	if l.known == nil {
		l.known = map[K]func() (V, error){}
	}
	l.known[key] = value
}

// load returns the value of key, from memory or with the next batch.
func (l *loader[K, V]) load(ctx context.Context, key K) (V, error) {
	l.mu.Lock()
	value, ok := l.known[key]
	if !ok {
		l.enqueueLocked(ctx, append(l.groupLocked(key), key))
		value = l.known[key]
	}
	l.mu.Unlock()
	return value()
}

// loadMany returns the values of the keys in their order, or an error.
func (l *loader[K, V]) loadMany(ctx context.Context, keys []K) ([]V, error) {
	l.mu.Lock()
	l.enqueueLocked(ctx, keys)
	pending := make([]func() (V, error), len(keys))
	for i, k := range keys {
		pending[i] = l.known[k]
	}
	l.mu.Unlock()
	values := make([]V, len(keys))
	for i, value := range pending {
		var err error
		if values[i], err = value(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// groupLocked returns the keys that were announced together with key, if it was.
func (l *loader[K, V]) groupLocked(key K) []K {
	for _, keys := range l.announced {
		if l.groups == nil {
			l.groups = map[K][]K{}
		}
		group := slices.Clip(keys())
		for _, k := range group {
			l.groups[k] = group
		}
	}
	l.announced = nil
	return l.groups[key]
}

// enqueueLocked queues those keys that are not known, as one group.
func (l *loader[K, V]) enqueueLocked(ctx context.Context, keys []K) {
	g := l.held
	if g == nil {
		g = &heldGroup[K, V]{group: group[K]{asker: askerOf(ctx)}, queued: make(chan struct{})}
	}
	for _, k := range keys {
		if _, ok := l.known[k]; ok {
			continue
		}
		i := len(g.keys)
		g.keys = append(g.keys, k)
		l.knowLocked(k, func() (value V, err error) {
			<-g.queued
			values, err := g.read()
			if err != nil {
				l.forget(&g.group)
				return value, err
			}
			return values[i], nil
		})
	}
	switch {
	case len(g.keys) == 0:
	case l.expected > 0:
		l.held = g
	default:
		g.read = l.queueLocked(&g.group)
		close(g.queued)
	}
}

// queueLocked has the next batch read a group.
func (l *loader[K, V]) queueLocked(g *group[K]) dataloader.Thunk[[]V] {
	if l.queue == nil { // most loaders of most responses are asked for nothing
		l.queue = dataloader.NewBatchedLoader(l.batch, dataloader.WithWait[*group[K], []V](loaderWait),
			dataloader.WithBatchCapacity[*group[K], []V](loaderBatch),
			dataloader.WithCache[*group[K], []V](&dataloader.NoCache[*group[K], []V]{}))
	}
	return l.queue.Load(context.Background(), g) // the batch has a context of its own
}

// forget makes keys whose read failed unknown again, once.
func (l *loader[K, V]) forget(g *group[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range g.keys {
		delete(l.known, k)
	}
	g.keys = nil
}
