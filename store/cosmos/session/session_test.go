package session

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// posts is the path of the container of the tests' sessions.
const posts = "/dbs/blog/colls/posts"

var testKey = Key{Secret: Secret("a2V5"), Endpoint: "https://blog.example", Database: "blog"}

// sign returns a valid token with the bytes rest.
func sign(rest string) string {
	b := append([]byte{sessionFormat}, rest...)
	return base64.RawURLEncoding.EncodeToString(append(b, testKey.mac(b)...))
}

// resume returns the session of a token, and reports whether the token is valid.
func resume(token string) (*Session, bool) { return New(token, testKey, posts) }

// texts returns the texts of a session's notes, which must all be of a time.
func texts(t testing.TB, s *Session, at time.Time) (all string) {
	t.Helper()
	for _, n := range s.Notes() {
		all += n.Text + " "
		if !n.At.Equal(at) {
			t.Errorf("note %q is of %v, want %v", n.Text, n.At, at)
		}
	}
	return strings.TrimSuffix(all, " ")
}

func TestSession_Notes(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	note := func(text string) string { return "\xff\x65\x53\xf1\x00" + string(rune(len(text))) + text }
	for name, tt := range map[string]struct {
		rest string // of the token's bytes
		want string // the notes
		bad  bool
	}{
		"none":      {"", "", false},
		"note":      {note("ada"), "ada", false},
		"two notes": {note("ada") + note("grace"), "ada grace", false},
		"most": {strings.Repeat(note("ada"), 32),
			strings.TrimSpace(strings.Repeat("ada ", 32)), false},
		"too many -> malformed": {strings.Repeat(note("ada"), 33), "", true},
		"longest": {"\xff\x65\x53\xf1\x00\xff" + strings.Repeat("a", 255),
			strings.Repeat("a", 255), false},
		"before a container":            {note("ada") + "\x00\x00\x00\x00\x01\x00", "ada", false},
		"empty -> malformed":            {note(""), "", true},
		"truncated text -> malformed":   {note("ada")[:7], "", true},
		"truncated time -> malformed":   {note("ada")[:3], "", true},
		"without a length -> malformed": {note("ada")[:5], "", true},
		"other tag -> malformed":        {"\xfe" + note("ada")[1:], "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s, ok := resume(sign(tt.rest))
			if ok == tt.bad {
				t.Errorf("got ignored %t, want %t", !ok, tt.bad)
			}
			if got := texts(t, s, at); got != tt.want {
				t.Errorf("got notes %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("round trip", func(t *testing.T) {
		s, _ := resume("")
		s.UpdateNotes(func([]Note) []Note { return []Note{{"ada", at.Add(999 * time.Millisecond)}} })
		if got := s.Token(); got != "" {
			t.Errorf("before a write: got token %s, want none", got)
		}
		s.MarkWritten()
		if got, want := s.Token(), sign(note("ada")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.UpdateNotes(func([]Note) []Note { return nil })
		if got, want := s.Token(), sign(""); got != want {
			t.Errorf("without a note: got %s, want %s", got, want)
		}
	})
	t.Run("nil session", func(t *testing.T) {
		var s *Session
		s.UpdateNotes(func([]Note) []Note { return []Note{{"ada", at}} })
		s.MarkWritten()
		if got := s.Notes(); got != nil {
			t.Errorf("got notes %v, want none", got)
		}
	})
}

// FuzzSession: any authentic token, also one of another version of this program, results in a session that
// survives a round trip.
func FuzzSession(f *testing.F) {
	for _, seed := range []string{"", "\x00\x00\x00\x00\x01\x01\x00\x01\x0c\x00", "\x07\x00\x00\x00\x00\x00",
		"\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f",
		"\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\x65\x53\xf1\x00\x03ada"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		s, _ := resume(sign(rest))
		s.MarkWritten()
		again, _ := resume(s.Token())
		again.MarkWritten()
		if got, want := again.Token(), s.Token(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
