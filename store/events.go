package store

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
)

const (
	maxSeen        = 1 << 14          // published ids kept to tell creations from later changes
	maxNewAge      = 10 * time.Minute // age up to which an unseen item may be new
	maxWriteTime   = time.Minute      // longest write, and largest clock difference
	idleCheckPolls = 100              // poll intervals between checks for listeners
)

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

// endOfAuthor ends the streams of a deleted author's posts.
func (e *events) endOfAuthor(author string) {
	e.changed.endOfAuthor(author)
	e.comments.endOfAuthor(author)
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
	tail := s.tail("events", s.posts, "postId", s.distribute, func() bool { return s.events.listeners() == 0 }, s.events.observe)
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
	if n.Revision <= 1 && n.UpdatedAt == "" {
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
