package store

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
)

// The counts in lists come from views, which follow the posts with a lag. So that a writer finds their own likes
// and comments counted, an instance keeps the counts of the posts that it has written, and lists show them until
// the view is as new: the higher revision of the post wins. A session carries the counts that it has written to
// other instances, which learn them from its token. They are true for every reader, so all of an instance's readers
// are shown them. In the item cache a response with a list depends on the counts of its posts, so that it is
// not cached beyond a change of them.

// maxInstanceCounts is how many posts' counts an instance keeps, those written last.
const maxInstanceCounts = 10_000

// postCounts are the counts of a post as of a revision.
type postCounts struct {
	revision        int64
	comments, likes int32
}

// knownCounts are the counts of posts that an instance knows. They are safe for concurrent use.
type knownCounts struct {
	mu    sync.RWMutex
	posts *simplelru.LRU[string, postCounts] // guarded by mu
}

func newKnownCounts() *knownCounts {
	posts, _ := simplelru.NewLRU[string, postCounts](maxInstanceCounts, nil) // fails only for sizes below 1
	return &knownCounts{posts: posts}
}

// raise sets the counts of a post that was written, and reports whether no higher revision was known.
func (k *knownCounts) raise(post string, c postCounts) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, known := k.posts.Peek(post)
	newer := !known || c.revision > have.revision
	if newer {
		k.posts.Add(post, c)
	}
	return newer
}

// newer returns the known counts of the posts of a list that are newer than those in the list, by index.
func (k *knownCounts) newer(posts []*blog.Post) map[int]postCounts {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var newer map[int]postCounts
	for i, p := range posts {
		if c, known := k.posts.Peek(p.ID); known && c.revision > p.Revision {
			if newer == nil {
				newer = map[int]postCounts{}
			}
			newer[i] = c
		}
	}
	return newer
}

// shownCounts has lists show the counts of the posts that an instance has written, or learned from a session.
type shownCounts struct {
	*base
	known *knownCounts
}

// countsOf, before the id of a post, is what lists depend on in the item cache: no partition of posts has such a key.
const countsOf = "counts of "

// withCounts returns a page of a view with the newest known counts. It does not modify the page, which may be
// cached. A response with it depends on its posts.
func (s *shownCounts) withCounts(ctx context.Context, page *Page[*blog.Post], err error) (*Page[*blog.Post], error) {
	if err != nil {
		return nil, err
	}
	for _, p := range page.Items {
		s.posts.DependOn(ctx, countsOf+p.ID) // before the counts are read
	}
	newer := s.known.newer(page.Items)
	if len(newer) == 0 {
		return page, nil
	}
	shown := *page
	shown.Items = slices.Clone(page.Items)
	for i, c := range newer {
		post := *page.Items[i]
		post.CommentCount, post.LikeCount = c.comments, c.likes
		shown.Items[i] = &post
	}
	return &shown, nil
}

// raiseCounts has lists show the counts of a post that was written, here or elsewhere.
func (s *shownCounts) raiseCounts(post string, c postCounts) {
	if s.known.raise(post, c) {
		s.posts.Changed(countsOf + post) // now: since the write, a response may have read older counts
	}
}

// noteCounts has lists show the counts of a post that was just written, on this instance and, with the session
// of ctx, on others.
func (s *shownCounts) noteCounts(ctx context.Context, p *blog.Post) {
	counts := postCounts{p.Revision, p.CommentCount, p.LikeCount}
	s.raiseCounts(p.ID, counts)
	noteWrite(ctx, writeNote{revision: p.Revision, subject: p.ID,
		values: [2]int64{int64(p.CommentCount), int64(p.LikeCount)}}, s.o.Clock())
}

// countsOfNote returns the counts of the post that is the subject of a note.
func countsOfNote(n writeNote) postCounts {
	return postCounts{n.revision, int32(n.values[0]), int32(n.values[1])}
}
