package live

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
	"byline/store/cosmos/itemcache"
)

const (
	maxSeen        = 1 << 14          // published ids kept to tell creations from later changes
	maxNewAge      = 10 * time.Minute // age up to which an unseen item may be new
	idleCheckPolls = 100              // poll intervals between checks for listeners
)

// Options are what Events needs of its store.
type Options struct {
	// Tail returns a tail of the changes of posts, which calls handle and observe.
	Tail func(handle changefeed.Handler, unwatched func() bool, observe func(changefeed.Progress)) *itemcache.Tail

	// KeepsTail is whether the tail runs without streams, too, for the item cache.
	KeepsTail bool

	// Deletions hides what deleted users wrote.
	Deletions Deletions

	// OnPostChange is called with each change of a post that is not hidden, before its events. Watchers returns the
	// viewers with streams of home who follow an author.
	OnPostChange func(*blog.Change)
	Watchers     func(authorID string) (viewers []string)

	// ReadPost reads a post, hidden or not: nil if it does not exist. It waits for the known deletions before.
	ReadPost func(ctx context.Context, id string) (*blog.Post, error)

	PollInterval time.Duration
	RetryBudget  time.Duration // while the tail is throttled, a new stream waits as long
	Clock        func() time.Time
	Metrics      prometheus.Registerer
}

// Deletions are the users that are being deleted.
type Deletions interface {
	Await(context.Context) // waits until those of other instances are known
	Hides(userID string, created blog.Date) bool
}

// Events turns the change feed of posts into streams, with one reader of the change feed for all streams. It is safe
// for concurrent use.
type Events struct {
	o Options

	published topics[*blog.Post]
	home      topics[*blog.Post]    // by viewer
	changed   topics[*blog.Post]    // by post
	comments  topics[*blog.Comment] // by post

	deleted        topics[*PostDeletion]  // by post
	commentChanges topics[*CommentChange] // by post

	wanted chan struct{} // signals a new listener
	tail   atomic.Pointer[itemcache.Tail]

	mu      sync.Mutex
	ready   chan struct{} // guarded by mu; closed while the tail runs
	opening int           // guarded by mu; streams being opened

	observed  changefeed.Signal // set after each read of the tail
	throttled error             // guarded by mu; the 429 error of the tail's last read, if it was throttled

	since     time.Time                         // guarded by mu; see isNew
	seen      *simplelru.LRU[string, blog.Date] // guarded by mu; published items and their dates
	forgotten blog.Date                         // guarded by mu; the newest date evicted from seen
}

// New returns Events. Nothing is sent before Run.
func New(o Options) (*Events, error) {
	open, err := newSubscribers(o.Metrics)
	if err != nil {
		return nil, err
	}
	e := &Events{o: o, wanted: make(chan struct{}, 1), ready: make(chan struct{}), since: o.Clock(),
		published: newTopics[*blog.Post](open, maxBehind), home: newTopics[*blog.Post](open, maxBehind),
		changed:  newTopics[*blog.Post](open, maxBehind),
		comments: newTopics[*blog.Comment](open, maxBehind),
		deleted:  newTopics[*PostDeletion](open, maxBehind), commentChanges: newTopics[*CommentChange](open, maxBehind)}
	e.deleted.last = func(post string) *PostDeletion { return &PostDeletion{post} }
	e.seen, err = simplelru.NewLRU(maxSeen, func(_ string, created blog.Date) {
		e.forgotten = max(e.forgotten, created)
	})
	return e, err
}

// EndOfAuthor ends the streams of a deleted author's posts.
func (e *Events) EndOfAuthor(author string) {
	e.changed.endOfAuthor(author)
	e.comments.endOfAuthor(author)
	e.commentChanges.endOfAuthor(author)
	e.deleted.endOfAuthor(author)
}

// tailReady returns a channel that is closed once the tail runs.
func (e *Events) tailReady() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready
}

// resetReady replaces the ready channel when the tail ends.
func (e *Events) resetReady() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resetReadyLocked()
}

func (e *Events) resetReadyLocked() {
	select {
	case <-e.ready:
		e.ready = make(chan struct{})
	default: // awaitTail may wait for it
	}
}

// stopIfIdle reports whether there are no listeners. If so, it resets the ready channel, and the caller must
// stop the tail.
func (e *Events) stopIfIdle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listenersLocked() > 0 {
		return false
	}
	e.resetReadyLocked()
	return true
}

// listeners counts the streams, open and being opened.
func (e *Events) listeners() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.listenersLocked()
}

func (e *Events) listenersLocked() int { return e.opening + e.streams() }

// awaitListener waits for a listener. It returns false if ctx ends first.
func (e *Events) awaitListener(ctx context.Context) bool {
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
func (e *Events) holdTail() (release func()) {
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
func (e *Events) observe(p changefeed.Progress) {
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
func (e *Events) awaitThrottled(ctx context.Context, budget time.Duration) error {
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

// Run follows the change feed of posts until ctx ends: always if it keeps the tail, otherwise only while there are
// listeners.
func (e *Events) Run(ctx context.Context) error {
	e.setSince(e.o.Clock()) // responses have corrected the clock by now
	for ctx.Err() == nil {
		if !e.o.KeepsTail && !e.awaitListener(ctx) {
			return nil
		}
		if err := e.follow(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow follows the change feed of posts until ctx ends or, unless it keeps the tail, there are no listeners.
func (e *Events) follow(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	e.observe(changefeed.Progress{}) // clear the error of the previous tail
	tail := e.o.Tail(e.distribute, func() bool { return e.listeners() == 0 }, e.observe)
	e.tail.Store(tail)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-tail.Ready():
			if !e.o.KeepsTail { // the tail has just started
				e.setSince(e.o.Clock())
			}
			close(e.tailReady())
		case <-ctx.Done():
			return
		}
		for !e.o.KeepsTail {
			select {
			case <-time.After(idleCheckPolls * e.o.PollInterval):
				if e.stopIfIdle() {
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
	e.resetReady()
	return err
}

// distribute sends the changes of a page to the streams, except items of deleted users. It skips
// malformed items, which the projections report.
func (e *Events) distribute(ctx context.Context, items [][]byte) error {
	const op = "distribute changes"
	if e.listeners() > 0 {
		e.o.Deletions.Await(ctx)
	}
	for _, raw := range items {
		var item blog.Change
		if blog.Unmarshal(raw, &item, blog.Lenient) != nil {
			continue
		}
		switch hidden := e.o.Deletions.Hides(item.UserID, item.CreatedAt); {
		case item.Type == blog.TypePost && (item.Deleted || hidden):
			if item.Deleted {
				e.o.OnPostChange(&item)
			}
			e.changed.end(item.ID)
			e.comments.end(item.ID)
			e.commentChanges.end(item.ID)
			e.deleted.end(item.ID)
		case item.Type == blog.TypePost:
			e.o.OnPostChange(&item)
			isNew := e.isNew(&item)
			var viewers []string
			if isNew {
				viewers = e.o.Watchers(item.UserID)
			}
			if !e.changed.followed(item.ID) && !(isNew && e.published.followed("")) && len(viewers) == 0 {
				continue
			}
			p, err := blog.DecodePostOrTombstone(op, raw)
			if err != nil {
				continue
			}
			if isNew {
				e.published.publish("", p, len(raw))
				for _, viewer := range viewers {
					e.home.publish(viewer, p, len(raw)/len(viewers)) // they share the event
				}
			}
			e.changed.publish(p.ID, p, len(raw))
		case item.Type == blog.TypeComment && item.Deleted:
			e.commentChanges.publish(item.PostID, &CommentChange{Kind: Deleted, PostID: item.PostID, ID: item.ID},
				len(raw))
		case item.Type == blog.TypeComment && !hidden:
			e.distributeComment(op, &item, raw)
		}
	}
	return nil
}

// distributeComment sends the change of a comment that exists.
func (e *Events) distributeComment(op string, item *blog.Change, raw []byte) {
	isNew := e.isNew(item)
	if !e.commentChanges.followed(item.PostID) && !(isNew && e.comments.followed(item.PostID)) {
		return
	}
	c, err := blog.DecodeComment(op, raw)
	if err != nil || c == nil {
		return
	}
	kind := Edited
	if isNew {
		kind = Added
		e.comments.publish(c.PostID, c, len(raw))
	}
	e.commentChanges.publish(c.PostID, &CommentChange{kind, c.PostID, c.ID, c}, len(raw))
}

// isNew reports whether a change is the creation of an item. The change feed has only the latest
// version of an item, so dates decide. An unchanged item is also new if it was created up to
// blog.MaxWriteTime before the tail started: its write may have been in flight, or the writer's clock may
// be behind. A changed item is not new if it is so old that it may have been evicted from seen.
func (e *Events) isNew(n *blog.Change) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	since, written := e.since, time.Unix(n.Written, 0)
	if n.Revision <= 1 && n.UpdatedAt == "" {
		since = since.Add(-blog.MaxWriteTime)
	} else if n.CreatedAt <= e.forgotten {
		return false
	}
	if n.CreatedAt < blog.NewDate(since) || n.CreatedAt < blog.NewDate(written.Add(-maxNewAge)) ||
		e.seen.Contains(n.ID) {
		return false
	}
	e.seen.Add(n.ID, min(n.CreatedAt, blog.NewDate(written.Add(time.Second)))) // a date may be wrong
	return true
}

func (e *Events) setSince(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since = t
}

func (e *Events) streams() int {
	return e.published.count() + e.home.count() + e.changed.count() + e.comments.count() + e.deleted.count() +
		e.commentChanges.count()
}
