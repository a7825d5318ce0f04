package cosmos

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
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

// WithSession returns a context whose requests belong to a session.
func WithSession(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionFrom returns the session of a context, nil if it has none.
func SessionFrom(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}

// sessionFormat begins every token of a session. It changes with the format.
const sessionFormat = 2

// sessionNote is in the place of a container's number and precedes a note.
const sessionNote = 0xff

// maxSessionToken is the length of the longest token that is looked at.
const maxSessionToken = 8 << 10

var errSession = errors.New("malformed")

// pathOf returns the path of a container.
func pathOf(database, name string) string {
	return "/dbs/" + url.PathEscape(database) + "/colls/" + url.PathEscape(name)
}

// sessionRealm tells the tokens of an account and database from those of others.
func sessionRealm(host, database string) uint32 {
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	return crc32.ChecksumIEEE([]byte(strings.ToLower(host) + "\x00" + database))
}

// realm is that of the containers, which are of one database.
func (s *Session) realm() uint32 {
	c := s.containers[0]
	return sessionRealm(c.requests.Endpoint(), c.database)
}

// NewSession returns the session that resumes one whose Token is given, or a new one if that
// is "". Its tokens cover the containers, which are of one database; their order is part of
// the tokens. A token of another account or database, or of a container that was recreated,
// asks for nothing. It is an error if the token is malformed.
func NewSession(token string, containers ...*Container) (*Session, error) {
	session := &Session{containers: containers}
	if token == "" {
		return session, nil
	}
	if err := session.decode(token); err != nil {
		return nil, err
	}
	return session, nil
}

// Token returns the token with which other instances see what the session has
// written, in characters that URLs and headers may have; "" if it has not written.
func (s *Session) Token() string {
	if s == nil || !s.wrote.Load() {
		return ""
	}
	b := binary.BigEndian.AppendUint32([]byte{sessionFormat}, s.realm())
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
	return base64.RawURLEncoding.EncodeToString(b)
}

// decode reads a token.
func (s *Session) decode(token string) error {
	if len(token) > maxSessionToken {
		return errSession
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) < 5 || b[0] != sessionFormat {
		return errSession
	}
	foreign := binary.BigEndian.Uint32(b[1:]) != s.realm()
	known := map[string]*tokens{}
	var noted *note
	r := tokenReader{rest: b[5:]}
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
			return errSession
		}
		known[s.containers[i].path] = t
	}
	if r.bad {
		return errSession
	}
	if !foreign {
		s.known.containers = known
		s.note.Store(noted)
	}
	return nil
}

// Note returns what SetNote has set, on any instance, to the second; "" if nothing. It comes
// from the client, who may have forged it.
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

// Admits reports whether what was read of a container, when Cosmos DB answered with a session
// token, is new enough for the session. Of a range that may have come out of a split of the
// one that was read, it cannot tell more than by its LSN.
func (s *Session) Admits(of *Container, token string) bool { return s.admits(of.path, token) }

func (s *Session) admits(path, token string) bool {
	if s == nil {
		return true
	}
	asked := s.known.of(path)
	if asked == nil {
		return true
	}
	id, read, ok := parseRange(token)
	if !ok {
		return false
	}
	for _, r := range asked.ranges {
		switch {
		case r.id == id && !read.covers(r.progress):
			return false
		case r.id > id && r.lsn > read.lsn: // children have higher ids than their parents
			return false
		}
	}
	return true
}
