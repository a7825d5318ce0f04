package cosmos

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// inBlog returns a container for sessions that do not read it.
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

// sign returns a valid token with the bytes rest.
func sign(of *Container, rest string) string {
	b := append([]byte{sessionFormat}, rest...)
	return base64.RawURLEncoding.EncodeToString(append(b, NewSession("", of).mac(b)...))
}

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
	posts, at := inBlog(t), time.Unix(1_700_000_000, 0)
	note := func(text string) string { return "\xff\x65\x53\xf1\x00" + string(rune(len(text))) + text }
	token := func(rest string) string { return sign(posts, rest) }
	for name, tt := range map[string]struct {
		rest string // of the token's bytes
		want string // the notes
		bad  bool
	}{
		"none":                          {"", "", false},
		"note":                          {note("ada"), "ada", false},
		"two notes":                     {note("ada") + note("grace"), "ada grace", false},
		"most":                          {strings.Repeat(note("ada"), 32), strings.TrimSpace(strings.Repeat("ada ", 32)), false},
		"too many -> malformed":         {strings.Repeat(note("ada"), 33), "", true},
		"longest":                       {"\xff\x65\x53\xf1\x00\xff" + strings.Repeat("a", 255), strings.Repeat("a", 255), false},
		"before a container":            {note("ada") + "\x00\x00\x00\x00\x01\x00", "ada", false},
		"empty -> malformed":            {note(""), "", true},
		"truncated text -> malformed":   {note("ada")[:7], "", true},
		"truncated time -> malformed":   {note("ada")[:3], "", true},
		"without a length -> malformed": {note("ada")[:5], "", true},
		"other tag -> malformed":        {"\xfe" + note("ada")[1:], "", true},
	} {
		t.Run(name, func(t *testing.T) {
			before := testutil.ToFloat64(posts.meter.invalid)
			s := NewSession(token(tt.rest), posts)
			if bad := testutil.ToFloat64(posts.meter.invalid) > before; bad != tt.bad {
				t.Errorf("got ignored %t, want %t", bad, tt.bad)
			}
			if got := texts(t, s, at); got != tt.want {
				t.Errorf("got notes %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("round trip", func(t *testing.T) {
		s := NewSession("", posts)
		s.UpdateNotes(func([]Note) []Note { return []Note{{"ada", at.Add(999 * time.Millisecond)}} })
		if got := s.Token(); got != "" {
			t.Errorf("before a write: got token %s, want none", got)
		}
		s.MarkWritten()
		if got, want := s.Token(), token(note("ada")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		s.UpdateNotes(func([]Note) []Note { return nil })
		if got, want := s.Token(), token(""); got != want {
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
	for _, seed := range []string{"", "\x00\x00\x00\x00\x01\x01\x00\x01\x0c\x00", "\x07\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f",
		"\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff\x65\x53\xf1\x00\x03ada"} {
		f.Add(seed)
	}
	posts := inBlog(f)
	f.Fuzz(func(t *testing.T, rest string) {
		s := NewSession(sign(posts, rest), posts)
		s.MarkWritten()
		again := NewSession(s.Token(), posts)
		again.MarkWritten()
		if got, want := again.Token(), s.Token(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Accounts with the same key, a session key or that of the account, accept each other's sessions,
// whatever the case of the host name; other accounts do not.
func TestSession_Key(t *testing.T) {
	container := func(o Options, database string) *Container {
		account, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := account.Container(database, "posts")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const host = "https://Blog.example:443/"
	shared := []byte("shared")
	for name, tt := range map[string]struct {
		one, two Options
		database string
		want     bool
	}{
		"same account key":            {Options{Endpoint: host, Key: "a2V5"}, Options{Endpoint: "https://blog.EXAMPLE:443", Key: "a2V5"}, "blog", true},
		"another account key":         {Options{Endpoint: host, Key: "a2V5"}, Options{Endpoint: host, Key: "b3RoZXI="}, "blog", false},
		"session key shared":          {Options{Endpoint: host, Key: "a2V5", SessionKey: shared}, Options{Endpoint: host, Key: "b3RoZXI=", SessionKey: shared}, "blog", true},
		"session key of one":          {Options{Endpoint: host, Key: "a2V5", SessionKey: shared}, Options{Endpoint: host, Key: "a2V5"}, "blog", false},
		"another account, shared key": {Options{Endpoint: host, Key: "a2V5", SessionKey: shared}, Options{Endpoint: "https://other.example:443/", Key: "a2V5", SessionKey: shared}, "blog", false},
		"another database":            {Options{Endpoint: host, Key: "a2V5"}, Options{Endpoint: host, Key: "a2V5"}, "other", false},
		"credentials":                 {Options{Endpoint: host, Credential: noCredential{}}, Options{Endpoint: host, Credential: noCredential{}}, "blog", false},
		"credentials, shared key":     {Options{Endpoint: host, Credential: noCredential{}, SessionKey: shared}, Options{Endpoint: host, Credential: noCredential{}, SessionKey: shared}, "blog", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSession("", container(tt.one, "blog"))
			at := time.Unix(1_700_000_000, 0)
			s.UpdateNotes(func([]Note) []Note { return []Note{{"ada", at}} })
			s.MarkWritten()
			if got := texts(t, NewSession(s.Token(), container(tt.two, tt.database)), at); (got == "ada") != tt.want {
				t.Errorf("got notes %q, want accepted %t", got, tt.want)
			}
		})
	}
}

// noCredential is a credential that returns no token.
type noCredential struct{ azcore.TokenCredential }

// A cached item is new enough for a session if the partition's range had reached the session's token.
func TestSession_Admits(t *testing.T) {
	posts := inBlog(t)
	const partition = "ada"
	key := effectiveKey(partition)
	ranges := func(mine keyRange) keyRanges {
		mine.min, mine.max = key[:4], key[:4]+"FF"
		return keyRanges{}.with(keyRange{id: 1, min: "", max: key[:4]}, mine, keyRange{id: 9, min: key[:4] + "FF", max: "FF"})
	}
	whole, split := ranges(keyRange{id: 5}), ranges(keyRange{id: 7, parents: []uint64{0, 5}})
	for name, tt := range map[string]struct {
		keys    keyRanges
		session string
		read    string
		want    bool
	}{
		"at the token":                        {whole, "5:-1#7", "5:-1#7", true},
		"behind":                              {whole, "5:-1#7", "5:-1#6", false},
		"behind another range":                {whole, "1:-1#99,5:-1#7,9:-1#99", "5:-1#7", true},
		"behind a range that may be a child":  {whole, "12:-1#99", "5:-1#7", false},
		"at a range that may be a child":      {whole, "12:-1#7", "5:-1#7", true},
		"unknown progress":                    {whole, "5:-1#7", "", false},
		"unknown progress, other range":       {whole, "9:-1#99", "", true},
		"child, session from before":          {split, "5:-1#7", "7:-1#8", true},
		"parent, session from after":          {split, "7:-1#8", "5:-1#7", false},
		"parent, both from before":            {split, "5:-1#7", "5:-1#7", true},
		"parent, behind":                      {split, "5:-1#7", "5:-1#6", false},
		"grandparent, at the token":           {split, "5:-1#7", "0:-1#7", true},
		"new child, session from before":      {whole, "5:-1#7", "12:-1#8", true},
		"ranges unknown":                      {keyRanges{}, "2:-1#7", "3:-1#1", true},
		"ranges unknown, behind a higher one": {keyRanges{}, "2:-1#7", "1:-1#6", false},
		"ranges unknown, at a higher one":     {keyRanges{}, "2:-1#7", "0:-1#7", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSession("", posts)
			s.known.learn(posts.path, 1, tt.session, sessionRanges)
			posts.sessions.known.update(posts.path, func(t *tokens) { t.keys = tt.keys })
			at, known := parseRange(tt.read)
			if got := s.admits(posts, partition, readPosition{at, known}); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
	if s := (*Session)(nil); !s.admits(posts, partition, readPosition{}) || !NewSession("", posts).admits(posts, partition, readPosition{}) {
		t.Error("a nil or an empty session does not admit a read")
	}
}
