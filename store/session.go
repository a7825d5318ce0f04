package store

import (
	"strings"
	"time"

	"byline/store/blog"
	"byline/store/cosmos"
)

// renameLag is how long usernames in views may be stale after a rename: longer than projections take,
// unless they are stopped.
const renameLag = time.Hour

// NewSession returns the session of a token, or a new one if the token is "" or not genuine. See
// cosmos.NewSession.
func (s *Store) NewSession(token string) *cosmos.Session {
	session := cosmos.NewSession(token, s.sessionContainers...)
	if token == "" {
		return session
	}
	switch id, at := s.note(session); {
	case id == "":
		session.SetNote("", time.Time{}) // later tokens need not carry it
	case strings.HasPrefix(id, deletedPrefix):
		s.hide(strings.TrimPrefix(id, deletedPrefix), at) // the change feed may not have delivered it yet
	}
	return session
}

// Renamed returns the id of the user that a session renamed within renameLag, so that views may have the
// old name, and "" if it renamed no user. The user may have been deleted since.
func (s *Store) Renamed(session *cosmos.Session) string {
	user, _ := s.note(session)
	if strings.HasPrefix(user, deletedPrefix) {
		return ""
	}
	return user
}

// note returns the note of a session, "" if it is older than renameLag.
func (s *Store) note(session *cosmos.Session) (text string, at time.Time) {
	text, at = session.Note()
	if text == "" || s.o.Clock().Sub(at).Abs() > renameLag { // clocks may differ
		return "", time.Time{}
	}
	return text, at
}

// deletedPrefix starts the note of a session that has deleted a user.
const deletedPrefix = "-"

// noteDeletion records in a session that a user has been deleted.
func (s *Store) noteDeletion(session *cosmos.Session, user string, at blog.Date) {
	session.SetNote(deletedPrefix+user, at.Time())
}

// noteRename records in a session that a user is being renamed.
func (s *Store) noteRename(session *cosmos.Session, user string) {
	session.SetNote(user, s.o.Clock())
}
