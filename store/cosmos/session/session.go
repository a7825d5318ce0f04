package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"slices"
	"strings"
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

// sessionFormat is the first byte of every session token. It changes with the format.
const sessionFormat = 3

// sessionNote precedes a note, in place of a container's number.
const sessionNote = 0xff

const (
	maxSessionToken = 8 << 10 // length of the longest token that is accepted
	sessionMAC      = 16      // bytes at the end of a token
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

// mac authenticates a token.
func (k Key) mac(token []byte) []byte {
	host := k.Endpoint
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	h := hmac.New(sha256.New, k.Secret)
	h.Write([]byte(strings.ToLower(host) + "\x00" + k.Database + "\x00"))
	h.Write(token)
	return h.Sum(nil)[:sessionMAC]
}

// New resumes the session with a Token, or returns a new one if token is "". Its tokens cover the containers, given by
// their paths; their order is part of the tokens. It reports false if the token was not made with the key: then it is
// ignored. The part for a recreated container has no effect.
func New(token string, key Key, containers ...string) (s *Session, ok bool) {
	s = &Session{key: key, containers: containers}
	return s, token == "" || s.resume(token)
}

// Token returns the token with which other instances read the writes of the session, in characters that
// are valid in URLs and headers; "" if it has not written.
func (s *Session) Token() string {
	if s == nil || !s.wrote.Load() {
		return ""
	}
	b := []byte{sessionFormat}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	for i, path := range s.containers {
		t := s.known.containers[path]
		if t == nil || len(t.ranges) == 0 {
			continue
		}
		b = binary.BigEndian.AppendUint32(append(b, byte(i)), t.rid)
		b = binary.AppendUvarint(b, uint64(len(t.ranges)))
		for _, r := range t.ranges {
			b = binary.AppendVarint(binary.AppendUvarint(b, r.id), r.version)
			b = binary.AppendUvarint(binary.AppendVarint(b, r.lsn), uint64(len(r.regions)))
			for _, region := range r.regions {
				b = binary.AppendVarint(binary.AppendUvarint(b, region.region), region.lsn)
			}
		}
	}
	for _, n := range s.Notes() {
		b = binary.BigEndian.AppendUint32(append(b, sessionNote), uint32(n.At.Unix()))
		b = append(append(b, byte(len(n.Text))), n.Text...)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, s.key.mac(b)...))
}

// resume restores the session of a token. It reports false if the token is invalid.
func (s *Session) resume(token string) bool {
	if len(token) > maxSessionToken {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 1+sessionMAC || b[0] != sessionFormat {
		return false
	}
	end := len(b) - sessionMAC
	return hmac.Equal(b[end:], s.key.mac(b[:end])) && s.decode(b[1:end])
}

// decode restores the session from the bytes of a token. It reports false if they are malformed.
func (s *Session) decode(token []byte) bool {
	known := map[string]*tokens{}
	var notes []Note
	r := tokenReader{rest: token}
	for len(r.rest) > 0 && !r.bad {
		i := int(r.byte())
		if i == sessionNote {
			at := time.Unix(int64(r.uint32()), 0)
			notes = append(notes, Note{string(r.take(int(r.byte()))), at})
			r.bad = r.bad || len(notes) > maxNotes
			continue
		}
		t := &tokens{rid: r.uint32()}
		for range r.count(sessionRanges) {
			id := r.uvarint()
			p := progress{version: r.varint(), lsn: r.varint()}
			for range r.count(maxRegions) {
				p.raise(regionProgress{r.uvarint(), r.varint()})
			}
			t.raise(id, p, sessionRanges)
		}
		if i >= len(s.containers) {
			return false
		}
		known[s.containers[i]] = t
	}
	if r.bad {
		return false
	}
	s.known.containers = known
	s.UpdateNotes(func([]Note) []Note { return notes })
	return true
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

// tokenReader reads the bytes of a token. After malformed bytes it reads zeros.
type tokenReader struct {
	rest []byte
	bad  bool
}

func (r *tokenReader) take(n int) []byte {
	if r.bad = r.bad || n <= 0 || n > len(r.rest); r.bad {
		return make([]byte, 8)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *tokenReader) byte() byte     { return r.take(1)[0] }
func (r *tokenReader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *tokenReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.take(n)
	return v
}

func (r *tokenReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.take(n)
	return v
}

// count reads the length of a list; more than limit is malformed.
func (r *tokenReader) count(limit uint64) int {
	n := r.uvarint()
	if r.bad = r.bad || n > limit; r.bad {
		return 0
	}
	return int(n)
}
