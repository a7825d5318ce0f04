package store

import (
	"time"

	"byline/store/cosmos"
)

// renameLag is how long usernames on views may be stale after a rename: longer than
// projections take, unless they are stopped.
const renameLag = time.Hour

// NewSession returns the session of a token, or a new one if the token is "" or not genuine. See
// cosmos.NewSession.
func (s *Store) NewSession(token string) *cosmos.Session {
	session := cosmos.NewSession(token, s.users, s.posts, s.feed) // tokens depend on the order
	if s.Renamed(session) == "" {
		session.SetNote("", time.Time{}) // later tokens need not carry it
	}
	return session
}

// Renamed returns the id of the user whom a session has given another name so recently
// that copies may lag behind, "" if the session renamed nobody. The user may have been deleted since.
func (s *Store) Renamed(session *cosmos.Session) string {
	user, at := session.Note()
	if user == "" || s.o.Clock().Sub(at).Abs() > renameLag { // clocks may differ
		return ""
	}
	return user
}

// noteRename notes that a user is being given another name.
func (s *Store) noteRename(session *cosmos.Session, user string) {
	session.SetNote(user, s.o.Clock())
}
