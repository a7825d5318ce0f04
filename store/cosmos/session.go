package cosmos

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Session is how far Cosmos DB must have come for a client to see what it wrote.
// Requests whose context has it (see WithSession) see at least that, on any instance.
//
// A nil Session asks for nothing. A Session is safe for concurrent use.
type Session struct {
	containers []*Container // which its tokens cover, in the order of their numbers in tokens
	known      sessionState
	wrote      atomic.Bool
	note       atomic.Pointer[note] // nil: none
}

// note is what a caller keeps in a session.
type note struct {
	at   uint32 // Unix seconds
	text string // at most maxNote bytes
}

// maxNote is the length of the longest note, in bytes.
const maxNote = 255

type sessionKey struct{}

type inSession struct {
	session  *Session
	patience *patience
}

// WithSession returns a context for one operation of a session, which may be nil: its requests
// see what the session has written, and wait for that together, for a second at most. Then they
// see what there is. The operation has time for retries of its own.
func WithSession(ctx context.Context, s *Session) context.Context {
	if scopeOf(ctx).retries != withoutEnd {
		ctx = withRetries(ctx, &retryTime{})
	}
	return context.WithValue(ctx, sessionKey{}, &inSession{s, newPatience()})
}

// withoutSession returns a context of the same operation, but of no session.
func withoutSession(ctx context.Context) context.Context {
	in, ok := ctx.Value(sessionKey{}).(*inSession)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, sessionKey{}, &inSession{nil, in.patience})
}

// SessionFrom returns the session of a context, nil if it has none.
func SessionFrom(ctx context.Context) *Session {
	if in, ok := ctx.Value(sessionKey{}).(*inSession); ok {
		return in.session
	}
	return nil
}

// sessionFormat begins every token of a session. It changes with the format.
const sessionFormat = 3

// sessionNote is in the place of a container's number and precedes a note.
const sessionNote = 0xff

const (
	maxSessionToken = 8 << 10 // length of the longest token that is looked at
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

// mac authenticates a token. That of another account or database differs, however the host of the
// account is written.
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

// NewSession returns the session that resumes one whose Token is given, or a new one if that
// is "". Its tokens cover the containers, which are of one database; their order is part of
// the tokens. A token that was not made with the SessionKey of this account, for this database,
// is ignored and counted; one of a container that was recreated asks for nothing.
func NewSession(token string, containers ...*Container) *Session {
	session := &Session{containers: containers}
	if token != "" && !session.resume(token) {
		containers[0].meter.invalid.Inc()
	}
	return session
}

// Token returns the token with which other instances see what the session has
// written, in characters that URLs and headers may have; "" if it has not written.
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
	if n := s.note.Load(); n != nil {
		b = binary.BigEndian.AppendUint32(append(b, sessionNote), n.at)
		b = append(append(b, byte(len(n.text))), n.text...)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(b)...))
}

// resume takes over the session of a token, if it is genuine.
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

// decode reads what a token says.
func (s *Session) decode(token []byte) bool {
	known := map[string]*tokens{}
	var noted *note
	r := tokenReader{rest: token}
	for len(r.rest) > 0 && !r.bad {
		i := int(r.byte())
		if i == sessionNote {
			noted = &note{at: r.uint32()}
			noted.text = string(r.take(int(r.byte())))
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
	s.note.Store(noted)
	return true
}

// Note returns what SetNote has set, on any instance, to the second; "" if nothing.
func (s *Session) Note() (text string, at time.Time) {
	if s == nil {
		return "", time.Time{}
	}
	n := s.note.Load()
	if n == nil {
		return "", time.Time{}
	}
	return n.text, time.Unix(int64(n.at), 0)
}

// SetNote has the session's tokens carry a text and a time in place of those before; "" for
// none. It panics if the text is longer than 255 bytes.
func (s *Session) SetNote(text string, at time.Time) {
	switch {
	case len(text) > maxNote:
		panic("cosmos: the note of a session is too long")
	case s == nil:
	case text == "":
		s.note.Store(nil)
	default:
		s.note.Store(&note{uint32(at.Unix()), text})
	}
}

// NoteWrite has the session learn from what is read from now on, as after a write.
func (s *Session) NoteWrite() {
	if s != nil {
		s.wrote.Store(true)
	}
}

// maxRegions is how many regions of an account a token may name.
const maxRegions = 256

// tokenReader reads the bytes of a token. Once they are bad it reads zeros.
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

// count reads how many of something follow, which are so many at most.
func (r *tokenReader) count(most uint64) int {
	n := r.uvarint()
	if r.bad = r.bad || n > most; r.bad {
		return 0
	}
	return int(n)
}

// admits reports whether what was read of a container's partition is as new as the session asks,
// if the range that answered had come so far. Of a range that nothing is known of, and that may have
// come out of a split of the one that was read, it cannot tell more than by its LSN.
func (s *Session) admits(of *Container, partition string, read answered) bool {
	if s == nil || !s.known.has(of.path) {
		return true
	}
	keys := of.sessions.known.keys(of.path)
	r := keys.holding(effectiveKey(partition))
	for _, asked := range s.known.about(of.path, r, keys).ranges {
		switch {
		case !read.known:
			return false
		case asked.id == read.id || r != nil && asked.id == r.id && r.is(read.id):
			if !read.covers(asked.progress) {
				return false
			}
		case asked.id > read.id && asked.lsn > read.lsn: // children have higher ids than their parents
			return false
		}
	}
	return true
}

// answered is which range has answered, and how far it had come.
type answered struct {
	rangeProgress
	known bool
}
