package live

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/stored"
)

const tailStartTimeout = 10 * time.Second // longest wait of a new stream for the tail

// ErrTooSlow ends a stream with more than 64 unread events, or whose next event is older than the latest
// 32 MB of the events of its kind.
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
	ended  func() // guarded by topics.mu; called at the end; nil: nothing
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

// onEnd calls f when the stream ends or is closed, or at once if it is.
func (s *Stream[T]) onEnd(f func()) {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	if s.over {
		f()
		return
	}
	s.ended = f
}

// discardUnread discards the unread events.
func (s *Stream[T]) discardUnread() {
	for {
		select {
		case <-s.events:
		default:
			return
		}
	}
}

func (s *Stream[T]) wakeLocked() {
	if s.wake != nil {
		go s.wake()
		s.wake = nil
	}
}

// PostDeletion is the deletion of a post.
type PostDeletion struct{ PostID string }

// CommentChange is a change of a comment.
type CommentChange struct {
	Kind       ChangeKind
	PostID, ID string
	Comment    *blog.Comment // nil if it was deleted
}

// ChangeKind is what happened to an item. The names are GraphQL's.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "ADDED"
	Edited  ChangeKind = "EDITED" // or its author was renamed
	Deleted ChangeKind = "DELETED"
)

// PublishedPosts streams new posts. In all streams an event arrives at most one PollInterval after the
// write. If nothing has changed for a while and another process writes, it takes up to 20 intervals, at
// most 2 s.
func (e *Events) PublishedPosts(ctx context.Context) (*Stream[*blog.Post], error) {
	return open(ctx, e, &e.published, "")
}

// HomePosts is PublishedPosts for the new posts of those whom a viewer follows, as Options.Watchers has them. It calls
// ended once, when the stream has ended or if it cannot be opened.
func (e *Events) HomePosts(ctx context.Context, viewer string, ended func()) (*Stream[*blog.Post], error) {
	s, err := open(ctx, e, &e.home, viewer)
	if err != nil {
		ended()
		return nil, err
	}
	s.onEnd(ended)
	return s, nil
}

// PostChanges streams the state of a post after each change of it, including its counts, but not edits of its
// comments. Changes within one PollInterval may arrive as one event. The stream ends when the post is deleted.
func (e *Events) PostChanges(ctx context.Context, postID string) (*Stream[*blog.Post], error) {
	return openOfPost(ctx, e, &e.changed, postID)
}

// PostDeletions streams the deletion of a post, after which the stream ends.
func (e *Events) PostDeletions(ctx context.Context, postID string) (*Stream[*PostDeletion], error) {
	return openOfPost(ctx, e, &e.deleted, postID)
}

// CommentChanges streams the changes of the comments of a post. Changes of a comment within one PollInterval may
// arrive as one event. The stream ends when the post is deleted.
func (e *Events) CommentChanges(ctx context.Context, postID string) (*Stream[*CommentChange], error) {
	return openOfPost(ctx, e, &e.commentChanges, postID)
}

// NewComments streams the new comments of a post. The stream ends when the post is deleted.
func (e *Events) NewComments(ctx context.Context, postID string) (*Stream[*blog.Comment], error) {
	return openOfPost(ctx, e, &e.comments, postID)
}

// open opens a stream once the tail runs.
func open[T any](ctx context.Context, e *Events, t *topics[T], subject string) (*Stream[T], error) {
	defer e.holdTail()()
	if err := e.awaitTail(ctx); err != nil {
		return nil, err
	}
	return t.open(subject), nil
}

// openOfPost opens a stream of a post, which must exist: one point read.
func openOfPost[T any](ctx context.Context, e *Events, t *topics[T], postID string) (*Stream[T], error) {
	stream, err := open(ctx, e, t, postID) // before the read, so as not to miss a delete
	if err != nil {
		return nil, err
	}
	post, err := e.o.ReadPost(ctx, postID)
	if post != nil {
		t.setAuthor(stream, post.UserID)
		if e.o.Deletions.Hides(post.UserID, post.CreatedAt) { // the author may have been deleted since the read
			post = nil
		}
	}
	if err == nil && post == nil {
		err = blog.NoPost("follow post")
	}
	if err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// awaitTail waits until the tail runs and has polled the changes from the time without listeners, which also
// ends the long interval between its polls; if there are streams, it already has. While Cosmos DB throttles the
// tail, the wait is limited to the retry budget of a request.
func (e *Events) awaitTail(ctx context.Context) error {
	started := e.tailReady()
	select {
	case <-started:
		if !e.o.KeepsTail || e.streams() > 0 {
			return nil
		}
	default:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tailStartTimeout,
		&blog.Error{Code: blog.Unavailable, Op: followChanges,
			Err: errors.New("the change feed is not being followed")})
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer giveUp(nil)
	watch.Go(func() { giveUp(e.awaitThrottled(ctx, e.o.RetryBudget)) })
	select {
	case <-started:
	case <-ctx.Done():
		return notFollowed(ctx)
	}
	if e.o.KeepsTail && e.tail.Load().CatchUp(ctx, 0) != nil {
		return notFollowed(ctx)
	}
	return nil
}

const followChanges = "follow changes" // the operation in errors

// notFollowed returns the error of a context of awaitTail that has ended.
func notFollowed(ctx context.Context) error {
	err := context.Cause(ctx)
	if known := (*blog.Error)(nil); errors.As(err, &known) {
		return known
	}
	if cosmos.HasStatus(err, http.StatusTooManyRequests) {
		return stored.Error(followChanges, err)
	}
	return &blog.Error{Code: blog.Canceled, Op: followChanges, Err: err}
}
