package graph

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/graph-gophers/dataloader/v7"
	"golang.org/x/sync/errgroup"

	"byline/graph/cost"
	"byline/graph/fields"
)

const loaderWait = time.Millisecond // how long a batch waits for more keys

// loader reads objects of one type in batches and caches them for the response. A key that is
// loaded twice is read once; failed reads are not cached.
//
// A batch queues groups of keys, not keys: a group that was announced enters its batch as a
// whole, however busy the machine is. While more groups are expected nothing is queued, since
// they may belong to the same batch.
type loader[K comparable, V any] struct {
	read func(field any, keys []K) ([]V, error)

	mu        sync.Mutex
	queue     *dataloader.Loader[*group[K], []V] // guarded by mu; nil until the first read
	values    map[K]func() (V, error)            // guarded by mu; values that were read or are being read
	expected  int                                // guarded by mu; groups that will be announced
	held      *heldGroup[K, V]                   // guarded by mu; held back until they are announced; nil: none
	announced []func() []K                       // guarded by mu; announced groups that are not yet in groups
	groups    map[K][]K                          // guarded by mu; the group that a key was announced in
}

// group is a set of keys that are read together, identified by its address.
type group[K comparable] struct {
	keys  []K
	field any // for the first of them; see cost.WithField
}

// heldGroup is a group that is held back until it is queued.
type heldGroup[K comparable, V any] struct {
	group[K]
	queued chan struct{} // closed when read is set
	read   dataloader.Thunk[[]V]
}

// newLoader returns a loader whose batches run on ctx. fetch gets distinct keys, at
// most fields.BatchSize of them, and returns their values in the same order.
func newLoader[K comparable, V any](ctx context.Context, fetch func(context.Context, []K) ([]V, error)) *loader[K, V] {
	return &loader[K, V]{read: func(field any, keys []K) ([]V, error) {
		return fetchAll(cost.WithField(ctx, field), keys, fetch)
	}}
}

// batch reads the keys of some groups.
func (l *loader[K, V]) batch(_ context.Context, groups []*group[K]) []*dataloader.Result[[]V] {
	var keys []K
	for _, g := range groups {
		keys = append(keys, g.keys...)
	}
	values, err := l.read(groups[0].field, keys)
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

// fetchAll fetches the values of any number of keys, fields.BatchSize at a time.
func fetchAll[K, V any](ctx context.Context, keys []K, fetch func(context.Context, []K) ([]V, error)) ([]V, error) {
	values := make([]V, len(keys))
	g, ctx := errgroup.WithContext(ctx)
	for start := 0; start < len(keys); start += fields.BatchSize {
		end := min(start+fields.BatchSize, len(keys))
		g.Go(func() error {
			got, err := guarded(func() ([]V, error) { return fetch(ctx, keys[start:end]) })
			copy(values[start:end], got)
			return err
		})
	}
	return values, g.Wait()
}

// expect registers a group of keys that will be announced later, by one call of announce. Loading
// one key of a group loads the whole group. Until announce is called, loads wait, so that they share
// the group's batch: a load in between, by the caller itself, would deadlock. keys is called when
// the next key is loaded.
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

// prime caches a value that was read by other means.
func (l *loader[K, V]) prime(key K, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.values[key]; !ok {
		l.setLocked(key, func() (V, error) { return value, nil })
	}
}

// readOne returns the cached value of a key. Otherwise it reads the key by itself,
// rather than in a batch, and caches its value.
func (l *loader[K, V]) readOne(key K, read func() (V, error)) (V, error) {
	l.mu.Lock()
	cached, ok := l.values[key]
	l.mu.Unlock()
	if ok {
		if value, err := cached(); err == nil {
			return value, nil
		}
	}
	value, err := read()
	if err == nil {
		l.prime(key, value)
	}
	return value, err
}

func (l *loader[K, V]) setLocked(key K, value func() (V, error)) {
	if l.values == nil {
		l.values = map[K]func() (V, error){}
	}
	l.values[key] = value
}

// load returns the value of key, cached or read with the next batch.
func (l *loader[K, V]) load(ctx context.Context, key K) (V, error) {
	l.mu.Lock()
	value, ok := l.values[key]
	if !ok {
		l.enqueueLocked(ctx, append(l.groupLocked(key), key))
		value = l.values[key]
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
		pending[i] = l.values[k]
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

// groupLocked returns the group that key was announced in, nil if it was not.
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

// enqueueLocked queues those keys that are not cached, as one group.
func (l *loader[K, V]) enqueueLocked(ctx context.Context, keys []K) {
	g := l.held
	if g == nil {
		g = &heldGroup[K, V]{group: group[K]{field: cost.FieldOf(ctx)}, queued: make(chan struct{})}
	}
	for _, k := range keys {
		if _, ok := l.values[k]; ok {
			continue
		}
		i := len(g.keys)
		g.keys = append(g.keys, k)
		l.setLocked(k, func() (value V, err error) {
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

// queueLocked adds a group to the next batch.
func (l *loader[K, V]) queueLocked(g *group[K]) dataloader.Thunk[[]V] {
	if l.queue == nil { // created lazily: most responses use few loaders
		l.queue = dataloader.NewBatchedLoader(l.batch, dataloader.WithWait[*group[K], []V](loaderWait),
			dataloader.WithBatchCapacity[*group[K], []V](fields.BatchSize),
			dataloader.WithCache[*group[K], []V](&dataloader.NoCache[*group[K], []V]{}))
	}
	return l.queue.Load(context.Background(), g) // the batch has a context of its own
}

// forget removes keys whose read failed from the cache. Only the first call for a group does.
func (l *loader[K, V]) forget(g *group[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range g.keys {
		delete(l.values, k)
	}
	g.keys = nil
}

// memo makes each read once: the first caller reads, others wait and get the same value or
// error. The zero value is ready.
type memo[K comparable, V any] struct {
	mu    sync.Mutex
	reads map[K]*memoRead[V] // guarded by mu
}

type memoRead[V any] struct {
	done  chan struct{} // closed when value and err are set
	value V
	err   error
}

func (m *memo[K, V]) do(key K, read func() (V, error)) (V, error) {
	m.mu.Lock()
	r, ok := m.reads[key]
	if !ok {
		r = &memoRead[V]{done: make(chan struct{})}
		if m.reads == nil {
			m.reads = map[K]*memoRead[V]{}
		}
		m.reads[key] = r
	}
	m.mu.Unlock()
	if ok {
		<-r.done
		return r.value, r.err
	}
	defer close(r.done)
	r.value, r.err = guarded(read)
	return r.value, r.err
}
