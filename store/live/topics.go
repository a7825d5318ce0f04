package live

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/internal/metric"
)

const (
	streamBuffer = 64 // unread events of a stream

	// maxBehind is how many bytes of events of a kind may be published while an event waits to be read. The
	// streams of a subject share its events, so no more are held in memory.
	maxBehind = 32 << 20

	recordBytes = 64 // of an event, beside its content
)

// newSubscribers returns the gauge of open streams, which Stores with one registry share.
func newSubscribers(r prometheus.Registerer) (prometheus.Gauge, error) {
	return metric.Register(r,
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "byline_subscribers", Help: "Open subscriptions."}))
}

// topics distributes the events of a kind to the open streams of each subject.
type topics[T any] struct {
	subscribers prometheus.Gauge
	maxBehind   int

	// last makes the event that a stream ends with when its subject is deleted; nil: none.
	last func(subject string) T

	mu     sync.Mutex
	of     map[string]*topic[T] // guarded by mu; by subject, those with streams
	latest []published[T]       // guarded by mu; events of at most maxBehind bytes together
	bytes  int                  // guarded by mu; of latest
}

// topic has the streams of a subject.
type topic[T any] struct {
	streams map[*Stream[T]]struct{}
	events  int // published
}

// published is an event that may be unread.
type published[T any] struct {
	to     *topic[T]
	number int // of the topic's events
	size   int
}

func newTopics[T any](subscribers prometheus.Gauge, maxBehind int) topics[T] {
	return topics[T]{subscribers: subscribers, maxBehind: maxBehind, of: map[string]*topic[T]{}}
}

func (t *topics[T]) open(subject string) *Stream[T] {
	s := &Stream[T]{events: make(chan T, streamBuffer), topics: t, subject: subject}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[subject] == nil {
		t.of[subject] = &topic[T]{streams: map[*Stream[T]]struct{}{}}
	}
	t.of[subject].streams[s] = struct{}{}
	t.subscribers.Inc()
	return s
}

// streamsLocked returns the streams of a subject.
func (t *topics[T]) streamsLocked(subject string) map[*Stream[T]]struct{} {
	if to := t.of[subject]; to != nil {
		return to.streams
	}
	return nil
}

func (t *topics[T]) removeLocked(s *Stream[T]) {
	streams := t.streamsLocked(s.subject)
	delete(streams, s)
	if len(streams) == 0 {
		delete(t.of, s.subject)
	}
	if !s.over {
		s.over = true
		t.subscribers.Dec()
		if s.ended != nil {
			s.ended()
		}
	}
	s.wakeLocked()
}

// followed reports whether there is a stream of the subject.
func (t *topics[T]) followed(subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.streamsLocked(subject)) > 0
}

// publish sends event, whose content takes size bytes, to every stream of the subject. It never blocks: a
// stream whose buffer is full ends.
func (t *topics[T]) publish(subject string, event T, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.of[subject]
	if to == nil {
		return
	}
	for s := range to.streams {
		select {
		case s.events <- event:
			s.wakeLocked()
		default:
			t.endLocked(s, ErrTooSlow)
		}
	}
	size += recordBytes
	t.latest = append(t.latest, published[T]{to, to.events, size})
	to.events++
	for t.bytes += size; t.bytes > t.maxBehind; {
		t.forgetLocked()
	}
}

// forgetLocked removes the oldest of the latest events, and ends the streams that have not read it.
func (t *topics[T]) forgetLocked() {
	oldest := t.latest[0]
	t.latest[0] = published[T]{}
	t.latest, t.bytes = t.latest[1:], t.bytes-oldest.size
	for s := range oldest.to.streams {
		if len(s.events) >= oldest.to.events-oldest.number {
			s.discardUnread()
			t.endLocked(s, ErrTooSlow)
		}
	}
}

// end ends every stream of the subject.
func (t *topics[T]) end(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.streamsLocked(subject) {
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
	for _, to := range t.of {
		for s := range to.streams {
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
	for _, to := range t.of {
		n += len(to.streams)
	}
	return n
}
