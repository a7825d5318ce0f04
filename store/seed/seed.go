package seed

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brianvoe/gofakeit/v7"
	"golang.org/x/sync/errgroup"

	"byline/store"
)

const (
	posts   = 250
	authors = 20 // of the users, who write posts
	workers = 8
)

// start is when the demo blog's first post was published; the last is about ten
// weeks later.
var start = time.Date(2026, time.January, 5, 7, 30, 0, 0, time.UTC)

// Options of Load.
type Options struct {
	// UserID gives the id of the user who signs in under a username.
	UserID func(username string) string

	// Open returns a store whose items are dated by clock.
	Open func(clock func() time.Time) (*store.Store, error)

	// Progress, if set, is called whenever a post with its comments and likes is
	// in the store. It may be called by several goroutines at once.
	Progress func(done, total int)
}

// Needed reports whether the demo blog should be loaded: the store is empty, or
// an earlier Load was interrupted.
func Needed(ctx context.Context, s *store.Store, o Options) (bool, error) {
	empty, err := s.Empty(ctx)
	if empty || err != nil {
		return empty, err
	}
	first, err := s.User(ctx, o.UserID(Usernames[0]))
	if first == nil || err != nil {
		return false, err
	}
	if first.CreatedAt != store.NewDate(joined(0)) {
		return false, nil // somebody real has that name
	}
	last, err := s.User(ctx, o.UserID(Usernames[len(Usernames)-1]))
	return last == nil, err
}

// Load writes the demo blog, the newest posts first.
func Load(ctx context.Context, o Options) error {
	w, err := newWriter(o)
	if err != nil {
		return err
	}
	last := len(Usernames) - 1
	for i := range last {
		if err := w.user(ctx, i); err != nil {
			return err
		}
	}
	threads := plan()
	g, gctx := errgroup.WithContext(ctx)
	next := make(chan *thread)
	g.Go(func() error {
		defer close(next)
		for _, t := range threads {
			select {
			case next <- t:
			case <-gctx.Done():
				return gctx.Err()
			}
		}
		return nil
	})
	var done atomic.Int64
	for range workers {
		w, err := newWriter(o)
		if err != nil {
			return err
		}
		g.Go(func() error {
			for t := range next {
				if err := w.thread(gctx, t); err != nil {
					return fmt.Errorf("post %d: %w", t.number, err)
				}
				if n := done.Add(1); o.Progress != nil {
					o.Progress(int(n), len(threads))
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return w.user(ctx, last) // the sign that everything is there
}

// thread is a post with its comments and likes.
type thread struct {
	number         int
	author         int
	title, content string
	at             time.Time
	comments       []comment
	likes          []like
}

type comment struct {
	author  int
	content string
	at      time.Time
}

type like struct {
	user int
	at   time.Time
}

// plan decides what is in the demo blog, the newest post first. It is the same
// every time.
func plan() []*thread {
	f := gofakeit.New(1815) // the year ada was born
	var threads []*thread
	at := start
	for n := range posts {
		at = at.Add(time.Duration(f.Number(2*3600, 11*3600)) * time.Second)
		t := &topics[f.Number(0, len(topics)-1)]
		p := &thread{number: n, author: f.Number(0, authors-1), at: at}
		p.title, p.content = t.post(f)
		if popular := f.Number(0, 9); popular > 1 {
			for range f.Number(0, 6) {
				p.comments = append(p.comments, comment{f.Number(0, len(Usernames)-2), t.comment(f), at.Add(later(f))})
			}
			for u := range len(Usernames) - 1 {
				if f.Number(0, 24) < popular {
					p.likes = append(p.likes, like{u, at.Add(later(f))})
				}
			}
		}
		threads = append(threads, p)
	}
	for i, j := 0, len(threads)-1; i < j; i, j = i+1, j-1 {
		threads[i], threads[j] = threads[j], threads[i]
	}
	return threads
}

// later is how long after a post somebody says something about it.
func later(f *gofakeit.Faker) time.Duration {
	return time.Duration(f.Number(60, 2*24*3600)) * time.Second
}

// joined is when a user joined: before the first post.
func joined(user int) time.Time { return start.Add(time.Duration(user-len(Usernames)) * 7 * time.Hour) }

// writer writes with the dates of the plan. It is for one goroutine.
type writer struct {
	store  *store.Store
	userID func(string) string
	at     time.Time
}

func newWriter(o Options) (*writer, error) {
	w := &writer{userID: o.UserID}
	var err error
	w.store, err = o.Open(func() time.Time { return w.at })
	return w, err
}

func (w *writer) user(ctx context.Context, n int) error {
	w.at = joined(n)
	_, err := w.store.CreateUser(ctx, store.NewUser{ID: w.userID(Usernames[n]), Username: Usernames[n], Key: "demo"})
	return err
}

func (w *writer) thread(ctx context.Context, t *thread) error {
	w.at = t.at
	p, err := w.store.CreatePost(ctx, store.NewPost{AuthorID: w.userID(Usernames[t.author]), Title: t.title, Content: t.content,
		Key: fmt.Sprintf("demo-%d", t.number)})
	if err != nil {
		return err
	}
	for i, c := range t.comments {
		w.at = c.at
		if _, _, err := w.store.CreateComment(ctx, store.NewComment{AuthorID: w.userID(Usernames[c.author]), PostID: p.ID,
			Content: c.content, Key: fmt.Sprintf("demo-%d", i)}); err != nil {
			return err
		}
	}
	for _, l := range t.likes {
		w.at = l.at
		if _, _, err := w.store.LikePost(ctx, w.userID(Usernames[l.user]), p.ID); err != nil {
			return err
		}
	}
	return nil
}
