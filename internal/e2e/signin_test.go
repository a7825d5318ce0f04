package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"byline/internal/testkit"
)

// identityProvider publishes one key at a time.
type identityProvider struct {
	*httptest.Server
	down atomic.Bool
	key  atomic.Pointer[jose.JSONWebKey] // private
}

func startProvider(t testing.TB) *identityProvider {
	t.Helper()
	p := &identityProvider{}
	p.rotate(t, "first")
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Load().Public()}}
		if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			body = map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/keys"}
		}
		if p.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *identityProvider) rotate(t testing.TB, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.key.Store(&jose.JSONWebKey{Key: key, KeyID: name, Algorithm: "ES256"})
}

func (p *identityProvider) token(t testing.TB, subject string, roles ...string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key.Load()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"aud":"byline","sub":%q,"exp":%d,"app":{"roles":["%s"]}}`,
		p.URL, subject, time.Now().Add(time.Hour).Unix(), strings.Join(roles, `","`)))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Secret(token)
}

// withToken sends an operation with a bearer token, and returns the data and the code of the error.
func withToken(i *instance, token, query string) (data, code string) {
	i.T.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		i.T.Fatal(err)
	}
	r, err := http.NewRequestWithContext(i.T.Context(), http.MethodPost, i.Root+"/graphql",
		strings.NewReader(string(body)))
	if err != nil {
		i.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		i.T.Fatal(err)
	}
	defer res.Body.Close()
	var response struct {
		Data   json.RawMessage
		Errors []struct{ Extensions struct{ Code string } }
	}
	if err := json.NewDecoder(res.Body).Decode(&response); err != nil {
		i.T.Fatal(err)
	}
	if len(response.Errors) > 0 {
		return "", response.Errors[0].Extensions.Code
	}
	return string(response.Data), ""
}

// check is a check in a response of /readyz.
type check struct {
	Name   string
	OK     bool
	Detail string
}

// identityCheck returns the check of the identity provider.
func identityCheck(i *instance) check {
	i.T.Helper()
	res, err := http.Get(i.Root + "/readyz")
	if err != nil {
		i.T.Fatal(err)
	}
	defer res.Body.Close()
	var response struct{ Checks []check }
	if err := json.NewDecoder(res.Body).Decode(&response); err != nil {
		i.T.Fatal(err)
	}
	for _, c := range response.Checks {
		if c.Name == "identity" {
			if !c.OK && res.StatusCode != http.StatusServiceUnavailable {
				i.T.Errorf("status %d", res.StatusCode)
			}
			return c
		}
	}
	i.T.Fatal("no check of the provider")
	return check{}
}

// TestProvider_SignIn: with an issuer its tokens are accepted and demo tokens are not, also after its key is rotated
// and while it is down; moderators may delete posts of others.
func TestProvider_SignIn(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	s := start(t, "--data", t.TempDir(), "--no-demo", "--auth-issuer", p.URL, "--auth-audience", "byline",
		"--auth-moderator-role", "moderator", "--auth-role-claim", "app.roles")
	ready := func() error {
		if c := identityCheck(s); c != (check{Name: "identity", OK: true}) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	}
	eventually(t, ready)
	if !strings.Contains(s.Log.String(), `level=WARN msg="no account is named`) {
		t.Errorf("no warning about the embedded engine: %s", s.Log)
	}
	if _, code := withToken(s, "demo:ada", `{ viewer { id } }`); code != "UNAUTHENTICATED" {
		t.Errorf("a demo token: %q", code)
	}
	ada := p.token(t, "ada")
	if _, code := withToken(s, ada,
		`mutation { createUser(input: {username: "countess"}) { user { id } } }`); code != "" {
		t.Fatal(code)
	}
	data, code := withToken(s, ada, `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`)
	if code != "" {
		t.Fatal(code)
	}
	_, id, _ := strings.Cut(strings.TrimSuffix(data, `"}}}`), `"id":"`)

	p.rotate(t, "second")
	if data, code := withToken(s, p.token(t, "ada"),
		`{ viewer { username } }`); data != `{"viewer":{"username":"countess"}}` {
		t.Errorf("the rotated key: %s %s", data, code)
	}
	if _, code := withToken(s, ada, `{ viewer { username } }`); code != "UNAUTHENTICATED" {
		t.Errorf("the old key: %q", code)
	}
	known := p.token(t, "grace", "writer")
	moderator := p.token(t, "margaret", "writer", "moderator")

	p.down.Store(true)
	p.rotate(t, "third")
	if _, code := withToken(s, p.token(t, "ada"), `{ viewer { id } }`); code != "UNAVAILABLE" {
		t.Errorf("an unknown key while the provider is down: %q", code)
	}
	if c := identityCheck(s); !c.OK || !strings.Contains(c.Detail, "503 Service Unavailable") {
		t.Errorf("/readyz does not report that the provider is down: %+v", c)
	}
	remove := `mutation { deletePost(input: {id: "` + id + `"}) { deletedPostId } }`
	if _, code := withToken(s, known, remove); code != "FORBIDDEN" {
		t.Errorf("another user with a known key: %q", code)
	}
	if _, code := withToken(s, moderator, remove); code != "" {
		t.Errorf("a moderator with a known key: %q", code)
	}
	p.down.Store(false)
	eventually(t, ready)
}

// TestRUPerViewer_DefaultLimit: with a provider and without a flag, a viewer can spend the default of --ru-per-viewer
// in a minute, and is then throttled; with demo tokens there is no limit.
func TestRUPerViewer_DefaultLimit(t *testing.T) {
	testkit.Heavy(t)
	t.Parallel()
	p := startProvider(t)
	for name, tt := range map[string]struct {
		flags   []string
		token   string
		limited bool
	}{
		"with a provider":  {[]string{"--auth-issuer", p.URL, "--auth-audience", "byline"}, p.token(t, "ada"), true},
		"with demo tokens": {nil, "demo:ada", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, append(tt.flags, "--data", t.TempDir(), "--no-demo")...)
			if tt.limited {
				eventually(t, func() error {
					if c := identityCheck(s); !c.OK {
						return errors.New(c.Detail)
					}
					return nil
				})
			}
			if _, code := withToken(s, tt.token,
				`mutation { createUser(input: {username: "ada"}) { user { id } } }`); code != "" {
				t.Fatal(code)
			}
			data, code := withToken(s, tt.token,
				`mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`)
			if code != "" {
				t.Fatal(code)
			}
			_, id, _ := strings.Cut(strings.TrimSuffix(data, `"}}}`), `"id":"`)
			var toggles strings.Builder // predicted to cost 392 RU, and about 300
			for i := range 10 {
				fmt.Fprintf(&toggles,
					`l%d: likePost(input: {postId: %q}) { post { id } } u%[1]d: unlikePost(input: {postId: %[2]q}) { post { id } } `, i, id)
			}
			accepted, began := 0, time.Now()
			// On a busy machine operations take so long that much of the budget is refilled.
			for code = ""; code == "" && (accepted < 30 || tt.limited) && time.Since(began) < 2*time.Minute; {
				switch _, code = withToken(s, tt.token, "mutation { "+toggles.String()+"}"); code {
				case "":
					accepted++
				case "UNAVAILABLE": // the server is overloaded
					code = ""
				}
			}
			if want := map[bool]string{true: "THROTTLED", false: ""}[tt.limited]; code != want ||
				accepted < map[bool]int{true: 15, false: 30}[tt.limited] {
				t.Errorf("%q after %d operations", code, accepted)
			}
			t.Logf("%q after %d operations", code, accepted)
		})
	}
}

// TestProvider_DownAtStart: a server that has never reached its provider is not ready, and serves anonymous clients.
func TestProvider_DownAtStart(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	p.down.Store(true)
	s := start(t, "--data", t.TempDir(), "--no-demo", "--auth-issuer", p.URL, "--auth-audience", "byline")
	if c := identityCheck(s); c.OK || !strings.Contains(c.Detail, "identity provider") {
		t.Errorf("%+v", c)
	}
	if _, code := withToken(s, p.token(t, "ada"), `{ viewer { id } }`); code != "UNAVAILABLE" {
		t.Errorf("with a token: %q", code)
	}
	if _, err := s.Post("", `{ __typename }`, nil); err != nil {
		t.Error(err)
	}
	p.down.Store(false)
	eventually(t, func() error {
		if c := identityCheck(s); !c.OK {
			return errors.New(c.Detail)
		}
		return nil
	})
}

// TestDemoTokens_HostOtherThanLoopback: with demo tokens, requests with a Host other than loopback are refused.
func TestDemoTokens_HostOtherThanLoopback(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo")
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "localhost:1234": 200, "127.0.0.1": 200, "[::1]:8080": 200,
		"evil.example": 421, "localhost.evil.example": 421, "192.0.2.1": 421, "0.0.0.0": 421,
	} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
			s.Root+"/graphql?query={__typename}", nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("host %q: status %d, want %d", host, res.StatusCode, want)
		}
	}
}
