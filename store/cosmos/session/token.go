package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"time"
)

// sessionFormat is the first byte of every session token. It changes with the format.
const sessionFormat = 3

// sessionNote precedes a note, in place of a container's number.
const sessionNote = 0xff

const (
	maxSessionToken = 8 << 10 // length of the longest token that is accepted
	sessionMAC      = 16      // bytes at the end of a token
)

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
