package live

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/internal/metric"
)

const streamBuffer = 64 // unread events of a stream

// newSubscribers returns the gauge of open streams, which Stores with one registry share.
func newSubscribers(r prometheus.Registerer) (prometheus.Gauge, error) {
	return metric.Register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: "byline_subscribers", Help: "Open subscriptions."}))
}

// topics distributes events to the open streams of each subject.
type topics[T any] struct {
	subscribers prometheus.Gauge
	maxUnread   int // bytes of unread events

	// last makes the event that a stream ends with when its subject is deleted; nil: none.
	last func(subject string) T

	mu       sync.Mutex
	streams  map[string]map[*Stream[T]]struct{} // guarded by mu
	unread   int                                // guarded by mu; upper bound of the bytes of unread events
	unreadOf map[string]int                     // guarded by mu; the same by subject
}

func newTopics[T any](subscribers prometheus.Gauge, maxUnread int) topics[T] {
	return topics[T]{subscribers: subscribers, maxUnread: maxUnread, streams: map[string]map[*Stream[T]]struct{}{}, unreadOf: map[string]int{}}
}

func (t *topics[T]) open(subject string) *Stream[T] {
	s := &Stream[T]{events: make(chan T, streamBuffer), topics: t, subject: subject}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams[subject] == nil {
		t.streams[subject] = map[*Stream[T]]struct{}{}
	}
	t.streams[subject][s] = struct{}{}
	t.subscribers.Inc()
	return s
}

func (t *topics[T]) removeLocked(s *Stream[T]) {
	delete(t.streams[s.subject], s)
	if len(t.streams[s.subject]) == 0 {
		delete(t.streams, s.subject)
		t.setUnreadLocked(s.subject)
	}
	if !s.over {
		s.over = true
		t.subscribers.Dec()
	}
	s.wakeLocked()
}

// followed reports whether there is a stream of the subject.
func (t *topics[T]) followed(subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.streams[subject]) > 0
}

// publish sends event, which takes size bytes, to every stream of the subject. It never blocks: a
// stream whose buffer is full ends.
func (t *topics[T]) publish(subject string, event T, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.streams[subject] {
		select {
		case s.events <- event:
			s.sizes.add(size)
			s.wakeLocked()
		default:
			t.endLocked(s, ErrTooSlow)
		}
	}
	t.countLocked(subject)
}

// end ends every stream of the subject.
func (t *topics[T]) end(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.streams[subject] {
		t.deletedLocked(s)
	}
}

// deletedLocked ends a stream whose subject was deleted.
func (t *topics[T]) deletedLocked(s *Stream[T]) {
	if t.last != nil {
		s.events <- t.last(s.subject) // the only event: it does not block
	}
	t.endLocked(s, nil)
}

// endOfAuthor ends the streams of an author's posts.
func (t *topics[T]) endOfAuthor(author string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, streams := range t.streams {
		for s := range streams {
			if s.author == author {
				t.deletedLocked(s)
			}
		}
	}
}

// setAuthor records the author of a stream's post.
func (t *topics[T]) setAuthor(s *Stream[T], author string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.author = author
}

func (t *topics[T]) endLocked(s *Stream[T], err error) {
	s.err = err
	close(s.events)
	t.removeLocked(s)
}

// count returns the number of open streams.
func (t *topics[T]) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, streams := range t.streams {
		n += len(streams)
	}
	return n
}
