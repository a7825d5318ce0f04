package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/blog"
)

const (
	streamBuffer   = 64               // events that wait for a stream's reader, at most
	streamPatience = 10 * time.Second // for the place in the feed to be found
	rememberedNew  = 1 << 14          // items that were published, to tell them from their later changes
	newFor         = 10 * time.Minute // after its creation, an item that was not seen yet may be new
	underWay       = time.Minute      // a write takes no longer, and clocks differ by no more
	streamRest     = 100              // polls after which the reader looks whether anybody still listens
)

// ErrTooSlow ends a stream whose reader let more than 64 events wait.
var ErrTooSlow = errors.New("the reader is too slow")

// Stream is what happens to one subject from the moment it was opened, by any
// process, in order, while Run runs. Who opens it must close it.
type Stream[T any] struct {
	events  chan T
	topics  *topics[T]
	subject string
	err     error // set before events is closed

	over bool   // guarded by topics.mu; it has ended or is closed
	wake func() // guarded by topics.mu; see Await
}

// Events delivers the events, which readers share and must not change. It is closed
// when the stream ends: then Err tells why.
func (s *Stream[T]) Events() <-chan T { return s.events }

// Err returns ErrTooSlow if the reader has missed events, and nil if there will be
// no more because the subject is gone. It must not be called before Events is closed.
func (s *Stream[T]) Err() error { return s.err }

// Close ends the stream. It may be called again.
func (s *Stream[T]) Close() {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	s.topics.removeLocked(s)
}

// Await is for a reader that occupies no goroutine while it waits. It reports whether
// there is nothing to take from Events; then f is called, by a goroutine of its own,
// once there is, or the stream has ended, or is closed.
func (s *Stream[T]) Await(f func()) bool {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	if s.over || len(s.events) > 0 {
		return false
	}
	s.wake = f
	return true
}

func (s *Stream[T]) wakeLocked() {
	if s.wake != nil {
		go s.wake()
		s.wake = nil
	}
}

// newSubscribers returns the gauge of open streams, which Stores with one registry share.
func newSubscribers(r prometheus.Registerer) (prometheus.Gauge, error) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "byline_subscribers", Help: "Open subscriptions."})
	err := r.Register(g)
	if registered := (prometheus.AlreadyRegisteredError{}); errors.As(err, &registered) {
		if have, ok := registered.ExistingCollector.(prometheus.Gauge); ok {
			return have, nil
		}
	}
	return g, err
}

// topics distributes events to the streams that are open, by subject.
type topics[T any] struct {
	subscribers prometheus.Gauge

	mu      sync.Mutex
	streams map[string]map[*Stream[T]]struct{} // guarded by mu
}

func (t *topics[T]) open(subject string) *Stream[T] {
	s := &Stream[T]{events: make(chan T, streamBuffer), topics: t, subject: subject}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[string]map[*Stream[T]]struct{}{}
	}
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

// publish hands event to every stream of the subject. It waits for no reader: one
// that is too slow loses its stream.
func (t *topics[T]) publish(subject string, event T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.streams[subject] {
		select {
		case s.events <- event:
			s.wakeLocked()
		default:
			t.endLocked(s, ErrTooSlow)
		}
	}
}

// end ends every stream of the subject.
func (t *topics[T]) end(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.streams[subject] {
		t.endLocked(s, nil)
	}
}

func (t *topics[T]) endLocked(s *Stream[T], err error) {
	s.err = err
	close(s.events)
	t.removeLocked(s)
}

// events turns the change feed of posts into streams: one reader of the feed,
// however many there are of the streams.
type events struct {
	published topics[*blog.Post]
	changed   topics[*blog.Post]    // by post
	comments  topics[*blog.Comment] // by post

	wanted chan struct{} // has one after somebody came to open a stream

	mu      sync.Mutex
	ready   chan struct{} // guarded by mu; closed while the place in the feed is known
	opening int           // guarded by mu; streams that are being opened

	since     time.Time                         // guarded by mu; of what was created before, not all is new: see isNew
	seen      *simplelru.LRU[string, blog.Date] // guarded by mu; what was new, and when
	forgotten blog.Date                         // guarded by mu; the last that has fallen out of seen
}

func newEvents(since time.Time, metrics prometheus.Registerer) (*events, error) {
	open, err := newSubscribers(metrics)
	if err != nil {
		return nil, err
	}
	e := &events{wanted: make(chan struct{}, 1), ready: make(chan struct{}), since: since,
		published: topics[*blog.Post]{subscribers: open}, changed: topics[*blog.Post]{subscribers: open}, comments: topics[*blog.Comment]{subscribers: open}}
	e.seen, err = simplelru.NewLRU(rememberedNew, func(_ string, created blog.Date) { e.forgotten = max(e.forgotten, created) })
	return e, err
}

// placeKnown returns a channel that is closed while the place in the feed is known.
func (e *events) placeKnown() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready
}

// forgetPlace is for the end of the reader, which next has to find its place again.
func (e *events) forgetPlace() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetPlaceLocked()
}

func (e *events) forgetPlaceLocked() {
	select {
	case <-e.ready:
		e.ready = make(chan struct{})
	default: // somebody may be waiting for it
	}
}

// rest forgets the place if nobody listens, and reports whether it did.
func (e *events) rest() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listenersLocked() > 0 {
		return false
	}
	e.forgetPlaceLocked()
	return true
}

// listeners counts the streams and those that are being opened.
func (e *events) listeners() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listenersLocked()
}

func (e *events) listenersLocked() int { return e.opening + e.streams() }

// awaitListener waits until somebody listens. It reports false if ctx ends first.
func (e *events) awaitListener(ctx context.Context) bool {
	for e.listeners() == 0 {
		select {
		case <-e.wanted:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// open keeps the reader from resting, or wakes it, until the function that it returns is
// called.
func (e *events) open() (opened func()) {
	e.mu.Lock()
	e.opening++
	e.mu.Unlock()
	select {
	case e.wanted <- struct{}{}:
	default:
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.opening--
	}
}

// PublishedPosts streams the posts that are created. An event comes at most one
// PollInterval after the write, as do those of the other streams.
func (s *Store) PublishedPosts(ctx context.Context) (*Stream[*blog.Post], error) {
	return openStream(ctx, s, &s.events.published, "")
}

// PostChanges streams a post as it is after each change, likes and comments
// included. Changes that follow each other within PollInterval may come as one. The
// stream ends when the post is deleted.
func (s *Store) PostChanges(ctx context.Context, postID string) (*Stream[*blog.Post], error) {
	return openOfPost(ctx, s, &s.events.changed, postID)
}

// NewComments streams the comments that are written on a post. The stream ends when
// the post is deleted.
func (s *Store) NewComments(ctx context.Context, postID string) (*Stream[*blog.Comment], error) {
	return openOfPost(ctx, s, &s.events.comments, postID)
}

// openStream opens a stream once the feed is being followed.
func openStream[T any](ctx context.Context, s *Store, t *topics[T], subject string) (*Stream[T], error) {
	defer s.events.open()()
	if err := s.awaitEvents(ctx); err != nil {
		return nil, err
	}
	return t.open(subject), nil
}

// openOfPost opens a stream about a post, which must exist: one point read.
func openOfPost[T any](ctx context.Context, s *Store, t *topics[T], postID string) (*Stream[T], error) {
	const op = "follow post"
	ctx = s.account.Begin(ctx, Subscribe)
	stream, err := openStream(ctx, s, t, postID) // before the read, so that a delete after it is noticed
	if err != nil {
		return nil, err
	}
	post, err := s.readPost(ctx, postID)
	if err == nil && post == nil {
		err = noPost(op)
	}
	if err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// awaitEvents waits for the reader to have found its place, as it has soon after
// the start, or after somebody came to listen.
func (s *Store) awaitEvents(ctx context.Context) error {
	const op = "follow changes"
	timeout := time.NewTimer(streamPatience)
	defer timeout.Stop()
	select {
	case <-s.events.placeKnown():
		return nil
	case <-ctx.Done():
		return &blog.Error{Code: blog.Canceled, Op: op, Err: context.Cause(ctx)}
	case <-timeout.C:
		return &blog.Error{Code: blog.Unavailable, Op: op, Err: errors.New("the change feed is not being followed")}
	}
}

// runEvents follows the change feed of posts until ctx ends, while there is a stream, or
// a cache, that wants to hear of changes.
func (s *Store) runEvents(ctx context.Context) error {
	for ctx.Err() == nil {
		if !s.posts.Caches() && !s.events.awaitListener(ctx) {
			return nil
		}
		if err := s.followEvents(ctx); err != nil {
			return err
		}
	}
	return nil
}

// followEvents follows the change feed of posts until ctx ends or nobody listens.
func (s *Store) followEvents(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	tail := s.tail("events", s.posts, "postId", s.distribute)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-tail.Ready():
			if !s.posts.Caches() { // nobody has listened until now
				s.events.listenSince(s.o.Clock())
			}
			close(s.events.placeKnown())
		case <-ctx.Done():
			return
		}
		for !s.posts.Caches() {
			select {
			case <-time.After(streamRest * s.o.PollInterval):
				if s.events.rest() {
					stop()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	err := tail.Run(ctx)
	stop()
	watch.Wait()
	s.events.forgetPlace()
	return err
}

// distribute hands the changes of a page to the streams. What cannot be read is
// left to the projections to report.
func (s *Store) distribute(_ context.Context, items [][]byte) error {
	const op = "distribute changes"
	for _, raw := range items {
		var item blog.Change
		if blog.Unmarshal(raw, &item, blog.Lenient) != nil {
			continue
		}
		switch {
		case item.Type == blog.TypePost && item.Deleted:
			s.events.changed.end(item.ID)
			s.events.comments.end(item.ID)
		case item.Type == blog.TypePost:
			isNew := s.events.isNew(&item)
			if !s.events.changed.followed(item.ID) && !(isNew && s.events.published.followed("")) {
				continue
			}
			p, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				continue
			}
			if isNew {
				s.events.published.publish("", p)
			}
			s.events.changed.publish(p.ID, p)
		case item.Type == blog.TypeComment && !item.Deleted:
			if !s.events.isNew(&item) || !s.events.comments.followed(item.PostID) {
				continue
			}
			if c, err := blog.DecodeComment(op, raw); err == nil && c != nil {
				s.events.comments.publish(c.PostID, c)
			}
		}
	}
	return nil
}

// isNew reports whether an item was created when it was written, at a moment of
// Cosmos DB's clock in seconds, rather than written again: the feed shows the latest
// state, which does not say. What has not been changed is new also if it was created
// just before anybody listened: its write was still under way, or the clock of its
// writer is behind. What has been changed is not new if it is so old that it may have
// been seen and forgotten.
func (e *events) isNew(n *blog.Change) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	since, written := e.since, time.Unix(n.Written, 0)
	if n.Revision <= 1 && n.EditedAt == "" {
		since = since.Add(-underWay)
	} else if n.CreatedAt <= e.forgotten {
		return false
	}
	if n.CreatedAt < blog.NewDate(since) || n.CreatedAt < blog.NewDate(written.Add(-newFor)) || e.seen.Contains(n.ID) {
		return false
	}
	e.seen.Add(n.ID, min(n.CreatedAt, blog.NewDate(written.Add(time.Second)))) // a date may be wrong
	return true
}

func (e *events) listenSince(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since = t
}

// Streams returns how many streams are open.
func (s *Store) Streams() int { return s.events.streams() }

func (e *events) streams() int { return e.published.count() + e.changed.count() + e.comments.count() }

func (t *topics[T]) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, streams := range t.streams {
		n += len(streams)
	}
	return n
}
