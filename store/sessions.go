package store

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/session"
	"byline/store/recency"
)

// viewLag is how long a session carries what views may not have yet: longer than projections take, unless they
// are stopped. Of follows it is recency.FreshFor.
const viewLag = time.Hour

// The notes of a session are its last writes of counts and follows, each a writeNote, and the user that it has renamed
// or, with deletedPrefix, deleted last.
const deletedPrefix = "-"

// With the note of a user these are all that a session can have.
const (
	maxCountNotes  = 16
	maxFollowNotes = 15
)

// writeNote is the note of a write that views lack at first: the counts of comments and likes of a post, or whether a
// user follows an author, and since when.
type writeNote struct {
	subject  string // the post, or the user and the author, separated by a slash
	revision int64
	values   [2]int64
}

// writePrefix begins a writeNote. No id has it.
const writePrefix = "+"

// ofFollow reports whether the note is of a follow.
func (n writeNote) ofFollow() bool { return strings.Contains(n.subject, "/") }

// supersedes reports whether the note is as new as another of its subject, by the rule of recency.Follows if it is of a
// follow.
func (n writeNote) supersedes(o writeNote) bool {
	if n.ofFollow() && n.values[1] < o.values[1] {
		return false
	}
	return n.revision >= o.revision
}

func (n writeNote) String() string {
	b := append(make([]byte, 0, 96), writePrefix...)
	for _, v := range append([]int64{n.revision}, n.values[:]...) {
		b = binary.AppendVarint(b, v)
	}
	return string(append(b, n.subject...))
}

// parseNote parses a writeNote; ok is false for other notes.
func parseNote(text string) (n writeNote, ok bool) {
	text, ok = strings.CutPrefix(text, writePrefix)
	if !ok {
		return n, false
	}
	rest := []byte(text)
	for _, v := range []*int64{&n.revision, &n.values[0], &n.values[1]} {
		read := 0
		if *v, read = binary.Varint(rest); read <= 0 {
			return n, false
		}
		rest = rest[read:]
	}
	n.subject = string(rest)
	return n, true
}

// noteWrite records a write in the session of ctx.
func noteWrite(ctx context.Context, n writeNote, at time.Time) {
	cosmos.SessionFrom(ctx).UpdateNotes(func(notes []session.Note) []session.Note {
		for i, have := range notes {
			h, ok := parseNote(have.Text)
			if !ok || h.subject != n.subject {
				continue
			}
			if h.supersedes(n) { // of a concurrent operation
				return notes
			}
			notes = slices.Delete(notes, i, i+1)
			break
		}
		notes = slices.Insert(notes, 0, session.Note{Text: n.String(), At: at})
		left := map[bool]int{false: maxCountNotes, true: maxFollowNotes}
		return slices.DeleteFunc(notes, func(have session.Note) bool {
			write, ok := parseNote(have.Text)
			if ok {
				left[write.ofFollow()]--
			}
			return ok && left[write.ofFollow()] < 0
		})
	})
}

// sessions makes the sessions of clients, and reads and writes their notes.
type sessions struct {
	*base
	counts     *shownCounts
	follows    *shownFollows
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
		if write, ok := parseNote(n.Text); ok && write.ofFollow() {
			s.follows.raiseFollow(followOfNote(write), n.At)
		} else if ok {
			s.counts.raiseCounts(write.subject, countsOfNote(write))
		} else if user, deleted := strings.CutPrefix(n.Text, deletedPrefix); deleted {
			s.deletions.Hide(user, n.At)
		}
	}
	return in
}

// outdated reports whether the views have what a note says.
func (s *sessions) outdated(n session.Note) bool {
	lag := viewLag
	if write, ok := parseNote(n.Text); ok && write.ofFollow() {
		lag = recency.FreshFor
	}
	return s.o.Clock().Sub(n.At).Abs() > lag // clocks may differ
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

// isOfUser reports whether a note is of a user, not a writeNote.
func isOfUser(n session.Note) bool { return !strings.HasPrefix(n.Text, writePrefix) }

// noteUser replaces the note of a user.
func noteUser(in *session.Session, text string, at time.Time) {
	in.UpdateNotes(func(notes []session.Note) []session.Note {
		return append(slices.DeleteFunc(notes, isOfUser), session.Note{Text: text, At: at})
	})
}
