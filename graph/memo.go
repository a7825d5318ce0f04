package graph

import "sync"

// memo makes each read once: the first to ask reads, the others wait and get the
// same, be it a value or an error. The zero value is ready.
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
