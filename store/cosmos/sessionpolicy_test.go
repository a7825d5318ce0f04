package cosmos

import (
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"byline/store/cosmos/session"
)

// Responses that depend on the state of the items have the progress of the range.
func TestSessions_Learn(t *testing.T) {
	for status, learns := range map[int]bool{200: true, 201: true, 204: true, 207: true, 304: true, 404: true,
		409: true, 412: true,
		400: false, 401: false, 408: false, 410: false, 429: false, 449: false, 500: false, 503: false} {
		var s sessions
		s.learn(&http.Response{StatusCode: status, Header: http.Header{session.Header: {"0:-1#7"}}},
			session.TargetOf("c", "", ""), nil)
		if token, _ := s.known.Header(session.TargetOf("c", "", ""), nil); (token != "") != learns {
			t.Errorf("status %d: got token %q, want one %t", status, token, learns)
		}
	}
}

// Accounts with the same key, a session key or that of the account, accept each other's sessions,
// whatever the case of the host name; other accounts do not.
func TestSession_Key(t *testing.T) {
	open := func(o Options, database string) (*Account, *Container) {
		account, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := account.Container(database, "posts")
		if err != nil {
			t.Fatal(err)
		}
		return account, c
	}
	const host = "https://Blog.example:443/"
	shared := []byte("shared")
	for name, tt := range map[string]struct {
		one, two Options
		database string
		want     bool
	}{
		"same account key": {Options{Endpoint: host, Key: "a2V5"},
			Options{Endpoint: "https://blog.EXAMPLE:443", Key: "a2V5"}, "blog", true},
		"another account key": {Options{Endpoint: host, Key: "a2V5"}, Options{Endpoint: host, Key: "b3RoZXI="},
			"blog", false},
		"session key shared": {Options{Endpoint: host, Key: "a2V5", SessionKey: shared},
			Options{Endpoint: host, Key: "b3RoZXI=", SessionKey: shared}, "blog", true},
		"session key of one": {Options{Endpoint: host, Key: "a2V5", SessionKey: shared},
			Options{Endpoint: host, Key: "a2V5"}, "blog", false},
		"another account, shared key": {Options{Endpoint: host, Key: "a2V5", SessionKey: shared},
			Options{Endpoint: "https://other.example:443/", Key: "a2V5", SessionKey: shared}, "blog", false},
		"another database": {Options{Endpoint: host, Key: "a2V5"}, Options{Endpoint: host, Key: "a2V5"},
			"other", false},
		"credentials": {Options{Endpoint: host, Credential: noCredential{}},
			Options{Endpoint: host, Credential: noCredential{}}, "blog", false},
		"credentials, shared key": {Options{Endpoint: host, Credential: noCredential{}, SessionKey: shared},
			Options{Endpoint: host, Credential: noCredential{}, SessionKey: shared}, "blog", true},
	} {
		t.Run(name, func(t *testing.T) {
			one, posts := open(tt.one, "blog")
			s := one.NewSession("", posts)
			at := time.Unix(1_700_000_000, 0)
			s.UpdateNotes(func([]session.Note) []session.Note { return []session.Note{{Text: "ada", At: at}} })
			s.MarkWritten()
			two, of := open(tt.two, tt.database)
			got := two.NewSession(s.Token(), of).Notes()
			if accepted := len(got) == 1 && got[0].Text == "ada" && got[0].At.Equal(at); accepted != tt.want ||
				len(got) > 1 {
				t.Errorf("got notes %v, want accepted %t", got, tt.want)
			}
			if ignored := testutil.ToFloat64(of.meter.invalid) > 0; ignored == tt.want {
				t.Errorf("counted as ignored %t, want %t", ignored, !tt.want)
			}
		})
	}
}

// noCredential is a credential that returns no token.
type noCredential struct{ azcore.TokenCredential }
