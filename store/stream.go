package store

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/projection"
)

const (
	streamBuffer     = 64               // unread events of a stream
	tailStartTimeout = 10 * time.Second // longest wait of a new stream for the tail
	maxSeen          = 1 << 14          // published ids kept to tell creations from later changes
	maxNewAge        = 10 * time.Minute // age up to which an unseen item may be new
	maxWriteTime     = time.Minute      // longest write, and largest clock difference
	idleCheckPolls   = 100              // poll intervals between checks for listeners
)

// ErrTooSlow ends a stream with more than 64 unread events, or with more than its share once all
// unread events take too much memory.
var ErrTooSlow = errors.New("the reader is too slow")

// Stream delivers the events of one subject in order, from the moment it was opened, whichever process
// caused them. Run must be running. The reader must close the stream.
type Stream[T any] struct {
	events  chan T
	topics  *topics[T]
	subject string
	err     error // set before events is closed

	author string // guarded by topics.mu; author of the subject, a post
	over   bool   // guarded by topics.mu; the stream has ended or is closed
	wake   func() // guarded by topics.mu; see Await
	sizes  sizes  // guarded by topics.mu
}

// Events returns the channel of events, which readers share and must not change. It is closed when
// the stream ends: see Err.
func (s *Stream[T]) Events() <-chan T { return s.events }

// Err returns ErrTooSlow if the reader has missed events, and nil if the subject was deleted.
// Call it only after Events is closed.
func (s *Stream[T]) Err() error { return s.err }

// Close ends the stream. It can be called repeatedly.
func (s *Stream[T]) Close() {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	s.topics.removeLocked(s)
}

// Await lets a reader wait without a goroutine. If no event is unread, it returns true, and calls f in a
// goroutine when one arrives or the stream ends.
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

// topics distributes events to the open streams of each subject.
type topics[T any] struct {
	subscribers prometheus.Gauge
	maxUnread   int // bytes of unread events

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
		t.endLocked(s, nil)
	}
}

// endOf ends the streams of an author's posts.
func (t *topics[T]) endOf(author string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, streams := range t.streams {
		for s := range streams {
			if s.author == author {
				t.endLocked(s, nil)
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

// events turns the change feed of posts into streams, with one reader of the change feed for
// all streams.
type events struct {
	published topics[*blog.Post]
	changed   topics[*blog.Post]    // by post
	comments  topics[*blog.Comment] // by post

	wanted chan struct{} // signals a new listener
	tail   atomic.Pointer[cosmos.Tail]

	mu      sync.Mutex
	ready   chan struct{} // guarded by mu; closed while the tail runs
	opening int           // guarded by mu; streams being opened

	observed  changefeed.Signal // set after each read of the tail
	throttled error             // guarded by mu; the 429 error of the tail's last read, if it was throttled

	since     time.Time                         // guarded by mu; see isNew
	seen      *simplelru.LRU[string, blog.Date] // guarded by mu; published items and their dates
	forgotten blog.Date                         // guarded by mu; the newest date evicted from seen
}

func newEvents(since time.Time, metrics prometheus.Registerer) (*events, error) {
	open, err := newSubscribers(metrics)
	if err != nil {
		return nil, err
	}
	e := &events{wanted: make(chan struct{}, 1), ready: make(chan struct{}), since: since,
		published: newTopics[*blog.Post](open, maxUnread), changed: newTopics[*blog.Post](open, maxUnread), comments: newTopics[*blog.Comment](open, maxUnread)}
	e.seen, err = simplelru.NewLRU(maxSeen, func(_ string, created blog.Date) { e.forgotten = max(e.forgotten, created) })
	return e, err
}

// endOf ends the streams of a deleted author's posts.
func (e *events) endOf(author string) {
	e.changed.endOf(author)
	e.comments.endOf(author)
}

// tailReady returns a channel that is closed once the tail runs.
func (e *events) tailReady() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready
}

// resetReady replaces the ready channel when the tail ends.
func (e *events) resetReady() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resetReadyLocked()
}

func (e *events) resetReadyLocked() {
	select {
	case <-e.ready:
		e.ready = make(chan struct{})
	default: // awaitEvents may wait for it
	}
}

// stopIfIdle reports whether there are no listeners. If so, it resets the ready channel, and the caller must
// stop the tail.
func (e *events) stopIfIdle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listenersLocked() > 0 {
		return false
	}
	e.resetReadyLocked()
	return true
}

// listeners counts the streams, open and being opened.
func (e *events) listeners() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listenersLocked()
}

func (e *events) listenersLocked() int { return e.opening + e.streams() }

// awaitListener waits for a listener. It returns false if ctx ends first.
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

// holdTail starts the tail, or keeps it running, until release is called.
func (e *events) holdTail() (release func()) {
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

// PublishedPosts streams new posts. In all streams an event arrives at most one PollInterval after the
// write. If nothing has changed for a while and another process writes, it takes up to 20 intervals, at
// most 2 s.
func (s *Store) PublishedPosts(ctx context.Context) (*Stream[*blog.Post], error) {
	return openStream(ctx, s, &s.events.published, "")
}

// PostChanges streams the state of a post after each change, including likes and comments. Changes
// within one PollInterval may arrive as one event. The stream ends when the post is deleted.
func (s *Store) PostChanges(ctx context.Context, postID string) (*Stream[*blog.Post], error) {
	return openOfPost(ctx, s, &s.events.changed, postID)
}

// NewComments streams the new comments of a post. The stream ends when the post is deleted.
func (s *Store) NewComments(ctx context.Context, postID string) (*Stream[*blog.Comment], error) {
	return openOfPost(ctx, s, &s.events.comments, postID)
}

// openStream opens a stream once the tail runs.
func openStream[T any](ctx context.Context, s *Store, t *topics[T], subject string) (*Stream[T], error) {
	defer s.events.holdTail()()
	if err := s.awaitEvents(ctx); err != nil {
		return nil, err
	}
	return t.open(subject), nil
}

// openOfPost opens a stream of a post, which must exist: one point read.
func openOfPost[T any](ctx context.Context, s *Store, t *topics[T], postID string) (*Stream[T], error) {
	const op = "follow post"
	ctx = s.account.Begin(ctx, Subscribe)
	stream, err := openStream(ctx, s, t, postID) // before the read, so as not to miss a delete
	if err != nil {
		return nil, err
	}
	s.awaitDeletions(ctx)
	post, err := s.readPost(ctx, postID)
	if post != nil {
		t.setAuthor(stream, post.AuthorID)
		post = s.shown(post) // the author may have been deleted since the read
	}
	if err == nil && post == nil {
		err = noPost(op)
	}
	if err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// awaitEvents waits until the tail runs, and until it has polled the changes from the time without
// listeners; if there are streams, it already has. While Cosmos DB throttles the tail, the wait is limited to the
// retry budget of a request.
func (s *Store) awaitEvents(ctx context.Context) error {
	started := s.events.tailReady()
	select {
	case <-started:
		if !s.posts.Caches() || s.events.streams() > 0 {
			return nil
		}
	default:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tailStartTimeout, &blog.Error{Code: blog.Unavailable, Op: followChanges, Err: errors.New("the change feed is not being followed")})
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer giveUp(nil)
	watch.Go(func() { giveUp(s.events.awaitThrottled(ctx, s.account.RetryBudget())) })
	select {
	case <-started:
	case <-ctx.Done():
		return whyNotFollowed(ctx)
	}
	if tail := s.events.tail.Load(); s.posts.Caches() && tail.CatchUp(ctx, projection.IdleInterval(s.o.PollInterval)) != nil {
		return whyNotFollowed(ctx)
	}
	return nil
}

const followChanges = "follow changes" // the operation in errors

// whyNotFollowed returns the error of a context of awaitEvents that has ended.
func whyNotFollowed(ctx context.Context) error {
	err := context.Cause(ctx)
	if known := (*blog.Error)(nil); errors.As(err, &known) {
		return known
	}
	if cosmos.HasStatus(err, http.StatusTooManyRequests) {
		return blog.CosmosError(followChanges, err)
	}
	return &blog.Error{Code: blog.Canceled, Op: followChanges, Err: err}
}

// observe records the outcome of the tail's last read.
func (e *events) observe(p changefeed.Progress) {
	e.mu.Lock()
	e.throttled = nil
	if cosmos.HasStatus(p.Err, http.StatusTooManyRequests) {
		e.throttled = p.Err
	}
	e.mu.Unlock()
	e.observed.Set()
}

// awaitThrottled waits for the budget and then until the tail's last read was throttled. It returns the error of
// that read, or nil if ctx ends first.
func (e *events) awaitThrottled(ctx context.Context, budget time.Duration) error {
	over := time.NewTimer(budget)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		return nil
	}
	for {
		observed := e.observed.Next()
		e.mu.Lock()
		err := e.throttled
		e.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-observed:
		case <-ctx.Done():
			return nil
		}
	}
}

// runEvents follows the change feed of posts until ctx ends: always with a cache, otherwise only while there are
// listeners.
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

// followEvents follows the change feed of posts until ctx ends or, without a cache, there are no listeners.
func (s *Store) followEvents(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	s.events.observe(changefeed.Progress{}) // clear the error of the previous tail
	tail := s.tail("events", s.posts, "postId", s.distribute,
		changefeed.Options{Unwatched: func() bool { return s.events.listeners() == 0 }, Observe: s.events.observe})
	s.events.tail.Store(tail)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-tail.Ready():
			if !s.posts.Caches() { // the tail has just started
				s.events.setSince(s.o.Clock())
			}
			close(s.events.tailReady())
		case <-ctx.Done():
			return
		}
		for !s.posts.Caches() {
			select {
			case <-time.After(idleCheckPolls * s.o.PollInterval):
				if s.events.stopIfIdle() {
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
	s.events.resetReady()
	return err
}

// distribute sends the changes of a page to the streams, except items of deleted users. It skips
// malformed items, which the projections report.
func (s *Store) distribute(ctx context.Context, items [][]byte) error {
	const op = "distribute changes"
	if s.events.listeners() > 0 {
		s.awaitDeletions(ctx)
	}
	for _, raw := range items {
		var item blog.Change
		if blog.Unmarshal(raw, &item, blog.Lenient) != nil {
			continue
		}
		switch hidden := s.deletions.hides(item.UserID, item.CreatedAt); {
		case item.Type == blog.TypePost && (item.Deleted || hidden):
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
				s.events.published.publish("", p, len(raw))
			}
			s.events.changed.publish(p.ID, p, len(raw))
		case item.Type == blog.TypeComment && !item.Deleted && !hidden:
			if !s.events.isNew(&item) || !s.events.comments.followed(item.PostID) {
				continue
			}
			if c, err := blog.DecodeComment(op, raw); err == nil && c != nil {
				s.events.comments.publish(c.PostID, c, len(raw))
			}
		}
	}
	return nil
}

// isNew reports whether a change is the creation of an item. The change feed has only the latest
// version of an item, so dates decide. An unchanged item is also new if it was created up to
// maxWriteTime before the tail started: its write may have been in flight, or the writer's clock may
// be behind. A changed item is not new if it is so old that it may have been evicted from seen.
func (e *events) isNew(n *blog.Change) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	since, written := e.since, time.Unix(n.Written, 0)
	if n.Revision <= 1 && n.EditedAt == "" {
		since = since.Add(-maxWriteTime)
	} else if n.CreatedAt <= e.forgotten {
		return false
	}
	if n.CreatedAt < blog.NewDate(since) || n.CreatedAt < blog.NewDate(written.Add(-maxNewAge)) || e.seen.Contains(n.ID) {
		return false
	}
	e.seen.Add(n.ID, min(n.CreatedAt, blog.NewDate(written.Add(time.Second)))) // a date may be wrong
	return true
}

func (e *events) setSince(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since = t
}

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
