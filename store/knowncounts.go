package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/session"
	"byline/store/stored"
)

// The counts in lists come from views, which follow the posts with a lag. So that a writer finds their own likes
// and comments counted, an instance keeps the counts of the posts that it has written, and lists show them until
// the view is as new: the higher revision of the post wins. A session carries the counts that it has written to
// other instances, which learn them from its token. They are true for every reader, so all of an instance's readers
// are shown them. In the item cache a response with a list depends on the counts of its posts, so that it is
// not cached beyond a change of them.

const (
	maxInstanceCounts = 10_000 // posts whose counts an instance keeps, those written last
	maxSessionCounts  = 16     // likewise of a session
)

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
	counts *knownCounts
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
	newer := s.counts.newer(page.Items)
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
	if s.counts.raise(post, c) {
		s.posts.Changed(countsOf + post) // now: since the write, a response may have read older counts
	}
}

// countsPrefix starts the note of the counts of a post. No id has it.
const countsPrefix = "+"

// noteCounts has lists show the counts of a post that was just written, on this instance and, with the session
// of ctx, on others.
func (s *shownCounts) noteCounts(ctx context.Context, p *blog.Post) {
	counts, now := postCounts{p.Revision, p.CommentCount, p.LikeCount}, s.o.Clock()
	s.raiseCounts(p.ID, counts)
	cosmos.SessionFrom(ctx).UpdateNotes(func(notes []session.Note) []session.Note {
		for i, n := range notes {
			post, have, ok := parseCounts(n.Text)
			if !ok || post != p.ID {
				continue
			}
			if have.revision >= counts.revision { // of a concurrent operation
				return notes
			}
			notes = slices.Delete(notes, i, i+1)
			break
		}
		notes = slices.Insert(notes, 0, session.Note{Text: counts.note(p.ID), At: now})
		left := maxSessionCounts
		return slices.DeleteFunc(notes, func(n session.Note) bool {
			if isOfUser(n) {
				return false
			}
			left--
			return left < 0
		})
	})
}

// note returns the counts of a post as the text of a note.
func (c postCounts) note(post string) string {
	b := append(make([]byte, 0, 64), countsPrefix...)
	for _, n := range []int64{c.revision, int64(c.comments), int64(c.likes)} {
		b = binary.AppendVarint(b, n)
	}
	return string(append(b, post...))
}

// parseCounts returns the post and counts of a note; ok is false for other notes.
func parseCounts(note string) (post string, c postCounts, ok bool) {
	rest, ok := strings.CutPrefix(note, countsPrefix)
	if !ok {
		return "", c, false
	}
	var numbers [3]int64
	for i := range numbers {
		n := 0
		if numbers[i], n = binary.Varint([]byte(rest)); n <= 0 {
			return "", c, false
		}
		rest = rest[n:]
	}
	return rest, postCounts{numbers[0], int32(numbers[1]), int32(numbers[2])}, true
}

// isOfUser reports whether a note is of a user, not of the counts of a post.
func isOfUser(n session.Note) bool { return !strings.HasPrefix(n.Text, countsPrefix) }

// countedWrites writes what is counted on posts: comments and likes.
type countedWrites struct {
	*base
	shown *shownCounts
}

// create creates the item id in a post's partition and counts it on the post, in one
// transactional batch. It returns the updated post. If the item exists, nothing changes and
// exists is true. LimitReached if the counter is at its limit.
func (w *countedWrites) create(
	ctx context.Context, op, postID, id, counter string, item []byte,
) (post *blog.Post, exists bool, err error) {
	r, err := batch(ctx, w.posts, postID, func(b *cosmos.Batch) {
		b.Patch(postID, patchCounter(counter, 1))
		b.Create(item)
	})
	switch {
	case err != nil:
		return nil, false, stored.Error(op, err)
	case r.Failed == 0 && r.Status == http.StatusNotFound:
		return nil, false, blog.NoPost(op)
	case r.Failed == 0 && r.Status == http.StatusPreconditionFailed:
		exists, err = w.countError(ctx, op, postID, id)
		return nil, exists, err
	case r.Failed == 1 && r.Status == http.StatusConflict:
		return nil, true, nil
	case r.Failed >= 0:
		return nil, false, stored.Error(op, r.Err())
	}
	post, err = w.writtenPost(ctx, op, r.Items[0])
	return post, false, err
}

// countError explains why the counting patch failed: it reports whether the item exists, and returns the error
// if it does not.
func (w *countedWrites) countError(ctx context.Context, op, postID, id string) (exists bool, err error) {
	post, err := w.readPost(ctx, postID)
	if post == nil && err == nil {
		err = blog.NoPost(op)
	}
	if err != nil {
		return false, err
	}
	item, err := stored.Read(ctx, op, w.posts, stored.Key(postID, id))
	if item != nil || err != nil {
		return true, err
	}
	return false, &blog.Error{Code: blog.LimitReached, Op: op, Reason: blog.ReasonFull,
		Message: "this post has as many comments or likes as it can have"}
}

// patchCounter returns a patch that adds to a counter of a post, up to its limit, and increments its
// revision.
func patchCounter(path string, by int64) cosmos.Patch {
	var p cosmos.Patch
	p.Condition = "from c where c.type = '" + blog.TypePost + "' AND NOT IS_DEFINED(c.deleted)"
	if by > 0 {
		p.Condition += fmt.Sprintf(" AND c.%s < %d", path[1:], maxCounted[path])
	}
	p.Increment(path, by)
	p.Increment("/revision", 1)
	return p
}

// readPair reads a post and another item of its partition in one snapshot.
func (w *countedWrites) readPair(ctx context.Context, op, postID, id string) (post, other []byte, err error) {
	r, err := batch(ctx, w.posts, postID, func(b *cosmos.Batch) {
		b.Read(postID)
		b.Read(id)
	})
	switch {
	case err != nil:
		return nil, nil, stored.Error(op, err)
	case r.Failed == 0 && r.Status == http.StatusNotFound:
		return nil, nil, blog.NoPost(op)
	case r.Failed == 1 && r.Status == http.StatusNotFound:
		return nil, nil, &blog.Error{Code: blog.Conflict, Op: op, Reason: blog.ReasonConcurrent,
			Message: "another request is changing the same item; try again"}
	case r.Failed >= 0:
		return nil, nil, stored.Error(op, r.Err())
	}
	return r.Items[0], r.Items[1], nil
}

// writtenPost is decodePost for a post whose counts were just written.
func (w *countedWrites) writtenPost(ctx context.Context, op string, raw []byte) (*blog.Post, error) {
	p, err := w.decodePost(op, raw)
	if p != nil && err == nil {
		w.shown.noteCounts(ctx, p)
	}
	return p, err
}

// viewLag is how long a session carries what views may not have yet: longer than projections take, unless they
// are stopped.
const viewLag = time.Hour

// The notes of a session are the counts of posts that it has written (see knowncounts.go), and the user that it has
// renamed or, with deletedPrefix, deleted last.
const deletedPrefix = "-"

// sessions makes the sessions of clients, and reads and writes their notes.
type sessions struct {
	*shownCounts
	source     *cosmos.Account     // of sessions; nil in the zero Store, whose sessions have no containers
	containers []*cosmos.Container // whose session tokens a session has; the tokens depend on the order
}

// NewSession returns the session of a token, or a new one if the token is "" or not genuine. See
// cosmos.Account.NewSession. It also applies the notes of the session to this instance, as if the instance had made the
// writes: the change feed may not have delivered them yet, and the projections may not have applied them.
func (s *sessions) NewSession(token string) *session.Session {
	in := s.source.NewSession(token, s.containers...)
	notes := in.Notes()
	if slices.ContainsFunc(notes, s.outdated) { // later tokens need not carry it
		in.UpdateNotes(func(notes []session.Note) []session.Note { return slices.DeleteFunc(notes, s.outdated) })
		notes = in.Notes()
	}
	for _, n := range notes {
		if post, counts, ok := parseCounts(n.Text); ok {
			s.raiseCounts(post, counts)
		} else if user, deleted := strings.CutPrefix(n.Text, deletedPrefix); deleted {
			s.deletions.Hide(user, n.At)
		}
	}
	return in
}

// outdated reports whether a note is older than viewLag.
func (s *sessions) outdated(n session.Note) bool {
	return s.o.Clock().Sub(n.At).Abs() > viewLag // clocks may differ
}

// Renamed returns the id of the user that a session renamed within viewLag, so that views may have the
// old name, and "" if it renamed no user. The user may have been deleted since.
func (s *sessions) Renamed(in *session.Session) string {
	for _, n := range in.Notes() {
		if isOfUser(n) && !strings.HasPrefix(n.Text, deletedPrefix) && !s.outdated(n) {
			return n.Text
		}
	}
	return ""
}

// hasChangedUser reports whether a session has renamed or deleted a user within viewLag.
func (s *sessions) hasChangedUser(in *session.Session) bool {
	return slices.ContainsFunc(in.Notes(), func(n session.Note) bool { return isOfUser(n) && !s.outdated(n) })
}

// noteDeletion records in a session that a user has been deleted.
func (s *sessions) noteDeletion(in *session.Session, user string, at blog.Date) {
	noteUser(in, deletedPrefix+user, at.Time())
}

// noteRename records in a session that a user is being renamed.
func (s *sessions) noteRename(in *session.Session, user string) {
	noteUser(in, user, s.o.Clock())
}

// noteUser replaces the note of a user.
func noteUser(in *session.Session, text string, at time.Time) {
	in.UpdateNotes(func(notes []session.Note) []session.Note {
		return append(slices.DeleteFunc(notes, isOfUser), session.Note{Text: text, At: at})
	})
}
