package store

import (
	"slices"
	"strings"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/session"
)

// viewLag is how long a session carries what views may not have yet: longer than projections take, unless they
// are stopped.
const viewLag = time.Hour

// The notes of a session are the counts of posts that it has written (see postCounts), and the user that it has
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
