package cosmos

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

// inBlog returns a container, for sessions that read nothing of it.
func inBlog(t testing.TB) *Container {
	t.Helper()
	account, err := Open(Options{Endpoint: "https://blog.example", Key: "a2V5"})
	if err != nil {
		t.Fatal(err)
	}
	posts, err := account.Container("blog", "posts")
	if err != nil {
		t.Fatal(err)
	}
	return posts
}

func TestSessionNote(t *testing.T) {
	posts, at := inBlog(t), time.Unix(1_700_000_000, 0)
	head := binary.BigEndian.AppendUint32([]byte{sessionFormat}, sessionRealm("https://blog.example", "blog"))
	note := func(text string) string { return "\xff\x65\x53\xf1\x00" + string(rune(len(text))) + text }
	token := func(rest string) string { return base64.RawURLEncoding.EncodeToString(append(head[:5:5], rest...)) }
	for name, tt := range map[string]struct {
		rest string // of the token's bytes
		want string // the note
		bad  bool
	}{
		"none":                          {"", "", false},
		"note":                          {note("ada"), "ada", false},
		"the later one counts":          {note("ada") + note("grace"), "grace", false},
		"as long as can be":             {"\xff\x65\x53\xf1\x00\xff" + strings.Repeat("a", 255), strings.Repeat("a", 255), false},
		"before a container":            {note("ada") + "\x00\x00\x00\x00\x01\x00", "ada", false},
		"empty -> malformed":            {note(""), "", true},
		"cut in the text -> malformed":  {note("ada")[:7], "", true},
		"cut in the time -> malformed":  {note("ada")[:3], "", true},
		"without a length -> malformed": {note("ada")[:5], "", true},
		"other tag -> malformed":        {"\xfe" + note("ada")[1:], "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSession(token(tt.rest), posts)
			if err != nil || tt.bad {
				if (err != nil) != tt.bad {
					t.Error(err)
				}
				return
			}
			if got, when := s.Note(); got != tt.want || got != "" && !when.Equal(at) {
				t.Errorf("%q at %v", got, when)
			}
		})
	}
	t.Run("written as it is read", func(t *testing.T) {
		s, _ := NewSession("", posts)
		s.SetNote("ada", at.Add(999*time.Millisecond))
		if got := s.Token(); got != "" {
			t.Errorf("%s, although nothing was written", got)
		}
		s.NoteWrite()
		if got, want := s.Token(), token(note("ada")); got != want {
			t.Errorf("%s, not %s", got, want)
		}
		s.SetNote("", time.Time{})
		if got, want := s.Token(), token(""); got != want {
			t.Errorf("without a note: %s, not %s", got, want)
		}
	})
	t.Run("of another account", func(t *testing.T) {
		s, err := NewSession(base64.RawURLEncoding.EncodeToString([]byte("\x02\x00\x00\x00\x00"+note("ada"))), posts)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Note(); got != "" {
			t.Errorf("%q", got)
		}
	})
	t.Run("of no session", func(t *testing.T) {
		var s *Session
		s.SetNote("ada", at)
		s.NoteWrite()
		if got, _ := s.Note(); got != "" {
			t.Errorf("%q", got)
		}
	})
}
