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
	queue     *dataloader.Loader[*group[K], []V] // guarded by mu; nil until something is read
	values    map[K]func() (V, error)            // guarded by mu; what was read, or is being read
	expected  int                                // guarded by mu; groups that will be announced
	held      *heldGroup[K, V]                   // guarded by mu; what is not queued until they are; nil: nothing
	announced []func() []K                       // guarded by mu; groups that are not in groups yet
	groups    map[K][]K                          // guarded by mu; the group that a key was announced in
}

// group is some keys that are read together; its identity is its address.
type group[K comparable] struct {
	keys  []K
	field any // for the first of them; see cost.WithField
}

// heldGroup is a group that is held back until it is queued.
type heldGroup[K comparable, V any] struct {
	group[K]
	queued chan struct{} // closed when read is there
	read   dataloader.Thunk[[]V]
}

// newLoader makes a loader whose batches run on ctx. fetch gets distinct keys, at
// most fields.BatchSize of them, and returns their values in the same order.
func newLoader[K comparable, V any](ctx context.Context, fetch func(context.Context, []K) ([]V, error)) *loader[K, V] {
	return &loader[K, V]{read: func(field any, keys []K) ([]V, error) { return fetchAll(cost.WithField(ctx, field), keys, fetch) }}
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

// guarded makes a panic of read an error, so that callers that wait for it return.
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

// load returns the value of key, from memory or with the next batch.
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

// queueLocked has the next batch read a group.
func (l *loader[K, V]) queueLocked(g *group[K]) dataloader.Thunk[[]V] {
	if l.queue == nil { // most loaders of most responses are asked for nothing
		l.queue = dataloader.NewBatchedLoader(l.batch, dataloader.WithWait[*group[K], []V](loaderWait),
			dataloader.WithBatchCapacity[*group[K], []V](fields.BatchSize),
			dataloader.WithCache[*group[K], []V](&dataloader.NoCache[*group[K], []V]{}))
	}
	return l.queue.Load(context.Background(), g) // the batch has a context of its own
}

// forget makes keys whose read failed unknown again, once.
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
	done  chan struct{} // closed when value and err are there
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
