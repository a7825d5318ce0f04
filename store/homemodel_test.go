package store_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

// homeModel is what home feeds should have, as changes of it are written.
type homeModel struct {
	*world
	stores  []*store.Store
	r       *rand.Rand
	viewer  *blog.User
	authors []*blog.User

	following sync.Mutex // held while a follow changes

	mu      sync.Mutex
	posts   map[string]*blog.Post // guarded by mu, as the others are
	follows map[string]bool       // by author
	deleted map[string]bool       // authors
	touched map[string]bool       // posts and authors, since the last round
	edits   int
}

// step makes a random change through a random instance.
func (m *homeModel) step() error {
	ctx := context.Background()
	m.mu.Lock()
	s, author := m.stores[m.r.IntN(len(m.stores))], m.authors[m.r.IntN(len(m.authors))].UserID
	action := m.r.IntN(20)
	m.edits++
	n := m.edits
	var post *blog.Post
	if all := slices.Collect(maps.Values(m.posts)); len(all) > 0 {
		post = all[m.r.IntN(len(all))]
	}
	deleted := len(m.deleted)
	gone := m.deleted[author]
	switch {
	case action < 6 && !gone || action < 12 && post == nil:
	case action < 12:
		m.touched[post.ID] = true
		gone = m.deleted[post.UserID]
	case action < 14:
	case action < 19:
		m.touched[author] = true
	case deleted < 2:
		m.touched[author], m.deleted[author] = true, true
	}
	m.mu.Unlock()
	if gone {
		return nil
	}
	switch {
	case action < 6:
		p, err := s.CreatePost(ctx, store.NewPost{AuthorID: author, Title: fmt.Sprint("new ", n), Content: "text"})
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.posts[p.ID], m.touched[p.ID] = p, true
		m.mu.Unlock()
	case action < 9:
		_, err := s.EditPost(ctx, post.UserID, post.ID, store.PostEdit{Title: new(fmt.Sprint("edit ", n))})
		return err
	case action < 12:
		m.mu.Lock()
		delete(m.posts, post.ID)
		m.mu.Unlock()
		return s.DeletePost(ctx, post.UserID, post.ID)
	case action < 14:
		_, err := s.UpdateUser(ctx, author, store.UserEdit{Username: new(fmt.Sprint("name", n))})
		return err
	case action < 19:
		return m.toggle(ctx, s, author)
	case deleted < 2:
		for { // until the name that the instance has is not one from before a rename
			u, err := s.User(ctx, author)
			if err != nil || u == nil {
				return err
			}
			if err := s.DeleteUser(ctx, author, u.Username); blog.CodeOf(err) != blog.Invalid || ctx.Err() != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// toggle begins or ends the follow of an author.
func (m *homeModel) toggle(ctx context.Context, s *store.Store, author string) error {
	m.following.Lock()
	defer m.following.Unlock()
	change := s.FollowUser
	if m.follows[author] {
		change = s.UnfollowUser
	}
	if _, err := change(ctx, m.viewer.UserID, author); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follows[author] = !m.follows[author]
	return nil
}

// wanted returns the ids of the posts that the feed should have, newest first.
func (m *homeModel) wanted() (ids []string) {
	var posts []*blog.Post
	for _, p := range m.posts {
		if m.follows[p.UserID] && !m.deleted[p.UserID] {
			posts = append(posts, p)
		}
	}
	slices.SortFunc(posts, func(a, b *blog.Post) int {
		return strings.Compare(string(b.CreatedAt)+b.ID, string(a.CreatedAt)+a.ID)
	})
	for _, p := range posts {
		ids = append(ids, p.ID)
	}
	return ids
}

// walk reads the whole feed, each page from another instance.
func (m *homeModel) walk(stores []*store.Store) (posts []*blog.Post) {
	m.T.Helper()
	for p := (store.Paging{First: 3}); ; {
		page, err := stores[len(posts)%len(stores)].Home(m.T.Context(), m.viewer.UserID, p)
		if err != nil {
			m.T.Fatal(err)
		}
		posts = append(posts, page.Items...)
		if !page.More {
			return posts
		}
		p.After = page.End()
	}
}

// Walks of a home feed over instances, while others publish, edit and delete posts, authors are renamed and deleted,
// and follows change, have nothing twice, all that exists and is followed all the time, and nothing that is not, also
// beyond the index and across months. Once the changes are known, all instances have exactly what they should.
func TestHome_Model(t *testing.T) {
	for name, tt := range map[string]struct {
		recency, cacheBytes, unknown int
	}{
		"in the index":                 {0, 1 << 20, 0},
		"beyond it, few authors":       {15, 1 << 20, 0},
		"beyond it, many authors":      {15, 1 << 20, 60},
		"beyond it, without a cache":   {15, 0, 0},
		"in the index without a cache": {0, 0, 60},
	} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			w := newWorld(t)
			m := &homeModel{world: w, r: rand.New(rand.NewPCG(seed, 0)), posts: map[string]*blog.Post{},
				follows: map[string]bool{}, deleted: map[string]bool{}, touched: map[string]bool{}}
			for i := range 6 {
				u, posts := addPosts(w, fmt.Sprint("writer", i), 15, time.Date(2025, 12, 1+i, 0, 0, 0, 0, time.UTC),
					storetest.Epoch(), func(int) []string { return nil })
				m.authors = append(m.authors, u)
				for _, p := range posts {
					m.posts[p.ID] = p
				}
			}
			m.viewer = w.AddUser("reader")
			w.addFollows(m.viewer, unknownAuthors(tt.unknown)...)
			for i := range 2 {
				m.stores = append(m.stores, w.instance(fmt.Sprint("store", i), tt.cacheBytes, store.Options{Recency: tt.recency}))
			}
			for _, u := range m.authors[:3] {
				if _, err := m.stores[0].FollowUser(t.Context(), m.viewer.UserID, u.UserID); err != nil {
					t.Fatal(err)
				}
				m.follows[u.UserID] = true
			}
			rounds := 12
			if testing.Short() {
				rounds = 4
			}
			for range rounds {
				for i := range m.stores {
					testkit.Until(t, func() error {
						var ids []string
						for _, p := range m.walk(m.stores[i : i+1]) {
							ids = append(ids, p.ID)
						}
						if want := m.wanted(); !slices.Equal(ids, want) {
							return fmt.Errorf("store %d has\n%v, want\n%v", i, ids, want)
						}
						return nil
					})
				}
				m.round()
			}
		})
	}
}

// round walks the feed while it changes.
func (m *homeModel) round() {
	m.T.Helper()
	clear(m.touched)
	before, followed := m.wanted(), maps.Clone(m.follows)
	hidden := maps.Clone(m.deleted)
	var changes errgroup.Group
	for range 2 {
		changes.Go(func() error {
			for range 6 {
				switch err := m.step(); blog.CodeOf(err) {
				case blog.NotFound, blog.Forbidden, blog.Conflict: // the other has deleted it
				default:
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	walked := m.walk(m.stores)
	if err := changes.Wait(); err != nil {
		m.T.Fatal(err)
	}
	var last *blog.Post
	have := map[string]bool{}
	for _, p := range walked {
		if last != nil && (p.CreatedAt > last.CreatedAt || p.CreatedAt == last.CreatedAt && p.ID >= last.ID) {
			m.T.Errorf("%s of %s comes after %s of %s", p.ID, p.CreatedAt, last.ID, last.CreatedAt)
		}
		if !m.touched[p.UserID] && (!followed[p.UserID] || hidden[p.UserID]) {
			m.T.Errorf("%s is of an author who is not followed", p.ID)
		}
		have[p.ID], last = true, p
	}
	for _, id := range before {
		if p := m.posts[id]; p != nil && !m.touched[id] && !m.touched[p.UserID] && !have[id] {
			m.T.Errorf("%s of %s is missing", id, p.CreatedAt)
		}
	}
}
