package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Session holds the session tokens of a client's writes. Requests of the session read
// these writes, on any instance.
//
// A nil Session requires nothing. A Session is safe for concurrent use.
type Session struct {
	key        Key
	containers []string // paths of those that its tokens cover; the index is the container's number in tokens
	known      State
	wrote      atomic.Bool

	mu    sync.Mutex
	notes []Note // guarded by mu; its elements are never modified
}

// Note is a text that a caller stores in a session.
type Note struct {
	Text string    // 1 to 255 bytes
	At   time.Time // in whole seconds
}

const (
	maxNote  = 255 // bytes of the longest note
	maxNotes = 32  // of a session
)

// Key authenticates the tokens of sessions. They are valid for one database of one account, whatever the case of the
// host name.
type Key struct {
	Secret             []byte
	Endpoint, Database string
}

// Secret returns the secret of an account with a key; without, a random one.
func Secret(accountKey string) []byte {
	if accountKey == "" {
		secret := make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // it never fails
		return secret
	}
	h := hmac.New(sha256.New, []byte(accountKey))
	h.Write([]byte("byline session"))
	return h.Sum(nil)
}

// New resumes the session with a Token, or returns a new one if token is "". Its tokens cover the containers, given by
// their paths; their order is part of the tokens. It reports false if the token was not made with the key: then it is
// ignored. The part for a recreated container has no effect.
func New(token string, key Key, containers ...string) (s *Session, ok bool) {
	s = &Session{key: key, containers: containers}
	return s, token == "" || s.resume(token)
}

// Notes returns the notes of the session, which were stored on any instance. The caller must not modify them.
func (s *Session) Notes() []Note {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes
}

// UpdateNotes replaces the notes in the session's tokens by those that f returns, given a copy of them. It
// panics if one is empty or too long, or if there are more than 32.
func (s *Session) UpdateNotes(f func([]Note) []Note) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := f(slices.Clone(s.notes))
	if len(notes) > maxNotes || slices.ContainsFunc(notes,
		func(n Note) bool { return n.Text == "" || len(n.Text) > maxNote }) {
		panic("session: a note of a session is empty or too long, or there are too many")
	}
	s.notes = notes
}

// MarkWritten marks the session as written: it records the session tokens of responses from now on.
func (s *Session) MarkWritten() {
	if s != nil {
		s.wrote.Store(true)
	}
}

// maxRegions is the largest number of regions in a token.
const maxRegions = 256
