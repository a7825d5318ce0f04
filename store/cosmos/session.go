package cosmos

import (
	"context"
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

// Session holds the session tokens of a client's writes. Requests whose context has it (see WithSession)
// read these writes, on any instance.
//
// A nil Session requires nothing. A Session is safe for concurrent use.
type Session struct {
	containers []*Container // that its tokens cover; the index is the container's number in tokens
	known      sessionState
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

type sessionKey struct{}

type sessionScope struct {
	session *Session
	wait    *replicaWait
}

// WithSession returns a context for one operation of a session, which may be nil. Its requests read the
// writes of the session. They wait for replicas to reach them, together for at most a second, and then
// read what the replicas have. The operation has its own retry window.
func WithSession(ctx context.Context, s *Session) context.Context {
	if scopeOf(ctx).retryWindow != unlimitedWindow {
		ctx = withRetryWindow(ctx, &retryWindow{})
	}
	return context.WithValue(ctx, sessionKey{}, &sessionScope{s, newReplicaWait()})
}

// withoutSession returns a context of the same operation without a session.
func withoutSession(ctx context.Context) context.Context {
	in, ok := ctx.Value(sessionKey{}).(*sessionScope)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, sessionKey{}, &sessionScope{nil, in.wait})
}

// SessionFrom returns the session of a context, nil if it has none.
func SessionFrom(ctx context.Context) *Session {
	if in, ok := ctx.Value(sessionKey{}).(*sessionScope); ok {
		return in.session
	}
	return nil
}

// sessionFormat is the first byte of every session token. It changes with the format.
const sessionFormat = 3

// sessionNote precedes a note, in place of a container's number.
const sessionNote = 0xff

const (
	maxSessionToken = 8 << 10 // length of the longest token that is accepted
	sessionMAC      = 16      // bytes at the end of a token
)

// pathOf returns the path of a container.
func pathOf(database, name string) string {
	return "/dbs/" + url.PathEscape(database) + "/colls/" + url.PathEscape(name)
}

// sessionKeyOf returns the key that authenticates sessions.
func sessionKeyOf(o Options) []byte {
	if len(o.SessionKey) > 0 {
		return o.SessionKey
	}
	if o.Key == "" {
		key := make([]byte, sha256.Size)
		_, _ = rand.Read(key) // it never fails
		return key
	}
	h := hmac.New(sha256.New, []byte(o.Key))
	h.Write([]byte("byline session"))
	return h.Sum(nil)
}

// mac authenticates a token. It depends on the account and the database, but not on the case of the host
// name.
func (s *Session) mac(token []byte) []byte {
	c := s.containers[0]
	host := c.requests.Endpoint()
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	h := hmac.New(sha256.New, c.sessionKey)
	h.Write([]byte(strings.ToLower(host) + "\x00" + c.database + "\x00"))
	h.Write(token)
	return h.Sum(nil)[:sessionMAC]
}

// NewSession resumes the session with a Token, or returns a new one if token is "". Its tokens cover the
// containers, which belong to one database; their order is part of the tokens. A token that was not made
// with the SessionKey of this account, for this database, is ignored and counted; the part for a
// recreated container has no effect.
func NewSession(token string, containers ...*Container) *Session {
	session := &Session{containers: containers}
	if token != "" && !session.resume(token) {
		containers[0].meter.invalid.Inc()
	}
	return session
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
	for i, c := range s.containers {
		t := s.known.containers[c.path]
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
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
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
	return hmac.Equal(b[end:], s.mac(b[:end])) && s.decode(b[1:end])
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
		known[s.containers[i].path] = t
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
	if len(notes) > maxNotes || slices.ContainsFunc(notes, func(n Note) bool { return n.Text == "" || len(n.Text) > maxNote }) {
		panic("cosmos: a note of a session is empty or too long, or there are too many")
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

// admits reports whether a read of a container's partition, at a position, is as new as the session
// requires. An unknown range in the session may be a child of the range that was read, split off since:
// then admits compares only LSNs.
func (s *Session) admits(of *Container, partition string, read readPosition) bool {
	if s == nil || !s.known.has(of.path) {
		return true
	}
	keys := of.sessions.known.keys(of.path)
	r := keys.forKey(effectiveKey(partition))
	for _, required := range s.known.forRange(of.path, r, keys).ranges {
		switch {
		case !read.known:
			return false
		case required.id == read.id || r != nil && required.id == r.id && r.coversTokensOf(read.id):
			if !read.covers(required.progress) {
				return false
			}
		case required.id > read.id && required.lsn > read.lsn: // children have higher ids than their parents
			return false
		}
	}
	return true
}

// readPosition is the partition key range that served a read, and its progress.
type readPosition struct {
	rangeProgress
	known bool
}
