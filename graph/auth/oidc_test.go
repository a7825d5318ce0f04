package auth

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"byline/internal/oidctest"
	"byline/internal/testmain"
	"byline/internal/waittest"
	"byline/store/blog"
)

func TestOIDC(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	v.o.Clock = func() time.Time { return now }
	for name, tt := range map[string]struct {
		claims    map[string]any
		good      bool
		moderator bool
	}{
		"a good token":                       {nil, true, false},
		"one of several audiences":           {map[string]any{"aud": []string{"other", "byline"}}, true, false},
		"another audience":                   {map[string]any{"aud": "other"}, false, false},
		"without an audience":                {map[string]any{"aud": nil}, false, false},
		"another issuer":                     {map[string]any{"iss": "https://elsewhere.example"}, false, false},
		"the issuer with a slash":            {map[string]any{"iss": p.URL + "/"}, false, false},
		"expired within the skew of clocks":  {map[string]any{"exp": at(-ClockSkew + time.Second)}, true, false},
		"expired before that":                {map[string]any{"exp": at(-ClockSkew - time.Second)}, false, false},
		"without expiry":                     {map[string]any{"exp": nil}, false, false},
		"not yet valid, within the skew":     {map[string]any{"nbf": at(ClockSkew - time.Second)}, true, false},
		"not yet valid":                      {map[string]any{"nbf": at(ClockSkew + 2*time.Second)}, false, false},
		"not before something":               {map[string]any{"nbf": "tomorrow"}, false, false},
		"without a subject":                  {map[string]any{"sub": nil}, false, false},
		"a subject that is no text":          {map[string]any{"sub": 1}, false, false},
		"a subject by a name like it":        {map[string]any{"\u017fub": "mallory"}, false, false},
		"an issuer by a name like it":        {map[string]any{"iss": "https://elsewhere.example", "i\u017fs": p.URL}, false, false},
		"another claim of any name":          {map[string]any{"SUBJECT": "mallory"}, true, false},
		"an expiry by a name like it":        {map[string]any{"EXP": at(time.Hour), "exp": nil}, false, false},
		"a moderator":                        {map[string]any{"roles": []string{"writer", "moderator"}}, true, true},
		"a moderator, with one role":         {map[string]any{"roles": "moderator"}, true, true},
		"a role that only contains it":       {map[string]any{"roles": "moderators moderator"}, true, false},
		"a role in another claim":            {map[string]any{"groups": []string{"moderator"}}, true, false},
		"roles that are no texts":            {map[string]any{"roles": []any{1, nil, map[string]any{"moderator": true}}}, true, false},
		"an object in the place of the role": {map[string]any{"roles": map[string]any{"moderator": true}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			viewer, err := v.Verify(t.Context(), p.Token(t, tt.claims))
			if (err == nil) != tt.good {
				t.Fatalf("%+v, %v", viewer, err)
			}
			if tt.good && (viewer.Issuer != p.URL || viewer.Subject != "ada" || viewer.Moderator != tt.moderator || viewer.Expires.IsZero()) {
				t.Errorf("%+v", viewer)
			}
			if !tt.good && blog.CodeOf(err) == blog.Unavailable {
				t.Errorf("taken for an outage: %v", err)
			}
		})
	}
	if discovery, keys := p.Discovery.Load(), p.Asked.Load(); discovery != 1 || keys != 1 {
		t.Errorf("discovered %d times, keys asked for %d times", discovery, keys)
	}
}

func TestRoleClaim(t *testing.T) {
	claims := map[string]any{
		"roles":                        "top",
		"realm_access":                 map[string]any{"roles": []any{"nested"}},
		"https://byline.example/roles": []any{"named"},
		"a.b":                          "dotted",
		"a":                            map[string]any{"b": "path"},
	}
	for name, role := range map[string]string{
		"roles": "top", "realm_access.roles": "nested", "https://byline.example/roles": "named", "a.b": "dotted",
	} {
		v, err := NewOIDC(OIDCOptions{Issuer: "https://id.example", Audience: "byline", RoleClaim: name, ModeratorRole: role})
		if err != nil {
			t.Fatal(err)
		}
		if !v.moderates(claims) {
			t.Errorf("%s does not lead to %s", name, role)
		}
		v.o.ModeratorRole = ""
		if v.moderates(claims) || v.moderates(map[string]any{name: ""}) {
			t.Error("a moderator without a role for it")
		}
	}
	for _, name := range []string{"", ".", "roles.x", "realm_access", "realm_access.", "none.roles"} {
		v := &OIDC{o: OIDCOptions{RoleClaim: name, ModeratorRole: "nested"}}
		if v.moderates(claims) {
			t.Errorf("%q leads to a role", name)
		}
	}
}

func TestOIDCOptions(t *testing.T) {
	for _, o := range []OIDCOptions{
		{}, {Issuer: "https://id.example"}, {Audience: "byline"}, {Issuer: "id.example", Audience: "byline"},
		{Issuer: "https://user:password@id.example", Audience: "byline"}, {Issuer: "https://id.example?tenant=1", Audience: "byline"},
	} {
		if _, err := NewOIDC(o); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A key that the provider rotates is picked up without a restart, and at once.
func TestKeyRotation(t *testing.T) {
	for name, next := range map[string]string{"under a new name": "k2", "under the same name": "k1", "without a name": ""} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.New(t)
			v := verifierOf(t, p)
			old := p.Token(t, nil)
			if _, err := v.Verify(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			p.Rotate(t, next)
			if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
				t.Errorf("a token of the new key: %v", err)
			}
			if _, err := v.Verify(t.Context(), old); err == nil || blog.CodeOf(err) == blog.Unavailable {
				t.Errorf("a token of the old key: %v", err)
			}
		})
	}
}

// A key that the provider withdraws is not good for long, though no new one is seen.
func TestRunForgetsKeysThatAreWithdrawn(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Fatal(err)
	}
	old := p.Token(t, nil)
	p.Rotate(t, "k2")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- v.Run(ctx) }()
	waittest.For(t, func() bool { return p.Asked.Load() >= 2 })
	waittest.For(t, func() bool { keys, _ := v.keys.current(); return len(keys) == 1 && keys[0].KeyID == "k2" })
	if _, err := v.Verify(t.Context(), old); err == nil {
		t.Error("the old key is still good")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Anybody can make tokens of keys that nobody knows: they must not become as many
// requests to the provider.
func TestUnknownKeysDoNotFloodTheProvider(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	now := time.Now()
	v.keys.clock = func() time.Time { return now }
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Fatal(err)
	}
	stranger := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "mine"}, nil)
	forged := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "k1"}, nil)
	for range 100 {
		for _, token := range []string{stranger, forged} {
			if _, err := v.Verify(t.Context(), token); err == nil || blog.CodeOf(err) == blog.Unavailable {
				t.Fatal(err)
			}
		}
	}
	if n := p.Asked.Load(); n != unknownKeyLookUps {
		t.Errorf("the provider was asked %d times", n)
	}
	now = now.Add(2 * unknownKeyInterval)
	for range 10 {
		_, _ = v.Verify(t.Context(), stranger)
	}
	if n := p.Asked.Load(); n != unknownKeyLookUps+2 {
		t.Errorf("two intervals later the provider had been asked %d times", n)
	}
}

func TestProviderDown(t *testing.T) {
	t.Run("from the start -> unavailable, and found once it is back", func(t *testing.T) {
		p := oidctest.New(t)
		p.Down.Store(true)
		v := verifierOf(t, p)
		if known, err := v.Ready(); known || err == nil {
			t.Errorf("ready before anybody has looked: %t, %v", known, err)
		}
		good := p.Token(t, nil)
		for range 2 * unknownKeyLookUps {
			if _, err := v.Verify(t.Context(), good); blog.CodeOf(err) != blog.Unavailable {
				t.Fatalf("%v", err)
			}
		}
		if known, err := v.Ready(); known || err == nil {
			t.Errorf("ready: %t, %v", known, err)
		}
		p.Down.Store(false)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = v.Run(ctx) })
		defer running.Wait()
		defer stop()
		waittest.For(t, func() bool { _, err := v.Ready(); return err == nil })
		if _, err := v.Verify(t.Context(), good); err != nil {
			t.Error(err)
		}
	})
	t.Run("with keys at hand -> known keys work, unknown ones are unavailable", func(t *testing.T) {
		p := oidctest.New(t)
		v := verifierOf(t, p)
		good := p.Token(t, nil)
		if _, err := v.Verify(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		if known, err := v.Ready(); !known || err != nil {
			t.Errorf("not ready: %t, %v", known, err)
		}
		p.Down.Store(true)
		unknown := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "k2"}, nil)
		forged := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "k1"}, nil)
		for range 2 * unknownKeyLookUps {
			if _, err := v.Verify(t.Context(), unknown); blog.CodeOf(err) != blog.Unavailable {
				t.Errorf("unknown: %v", err)
			}
			if _, err := v.Verify(t.Context(), good); err != nil {
				t.Errorf("known: %v", err)
			}
			if _, err := v.Verify(t.Context(), forged); err == nil || blog.CodeOf(err) == blog.Unavailable {
				t.Errorf("forged: %v", err)
			}
		}
		if known, err := v.Ready(); !known || err == nil {
			t.Errorf("says nothing of the outage: %t, %v", known, err)
		}
		expired := p.Token(t, map[string]any{"exp": 1})
		if _, err := v.Verify(t.Context(), expired); err == nil || blog.CodeOf(err) == blog.Unavailable {
			t.Errorf("%v", err)
		}
	})
}

// What the provider says of itself is no reason to ask anybody else over an address
// that others can listen to or answer at.
func TestProviderAddresses(t *testing.T) {
	for name, tt := range map[string]struct {
		discovery string // %s is the provider
		redirect  string
	}{
		"keys over plain HTTP":     {`{"issuer":"%s","jwks_uri":"http://id.example/keys"}`, ""},
		"keys in a file":           {`{"issuer":"%s","jwks_uri":"file:///etc/passwd"}`, ""},
		"no keys":                  {`{"issuer":"%s"}`, ""},
		"another issuer":           {`{"issuer":"https://id.example","jwks_uri":"%s/keys"}`, ""},
		"no discovery document":    {`hello`, ""},
		"redirected to plain HTTP": {"", "http://id.example/"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *httptest.Server
			s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.redirect != "" {
					http.Redirect(w, r, tt.redirect, http.StatusFound)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(strings.ReplaceAll(tt.discovery, "%s", s.URL)))
			}))
			defer s.Close()
			v, err := NewOIDC(OIDCOptions{Issuer: s.URL, Audience: "byline"})
			if err != nil {
				t.Fatal(err)
			}
			v.keys.client.Transport = s.Client().Transport
			if err := v.keys.lookUp(t.Context()); err == nil || strings.Contains(err.Error(), "no such host") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Of a provider's keys those for signatures by asymmetric algorithms count, by the
// algorithm that they are for.
func TestKeysAreForOneAlgorithm(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	shared := []byte(strings.Repeat("k", 32))
	p := oidctest.New(t)
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "r", Algorithm: "RS256"},
		{Key: shared, KeyID: "s"},
	}}
	for name, tt := range map[string]struct {
		token string
		good  bool
	}{
		"its own":                 {p.Signed(t, jose.RS256, rsaKey, map[jose.HeaderKey]any{"kid": "r"}, nil), true},
		"another of the same key": {p.Signed(t, jose.PS256, rsaKey, map[jose.HeaderKey]any{"kid": "r"}, nil), false},
		"without a name":          {p.Signed(t, jose.RS256, rsaKey, nil, nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			signed, err := jose.ParseSigned(tt.token, asymmetric)
			if err != nil {
				t.Fatal(err)
			}
			if payload, _ := verifyWith(set.Keys, signed); (payload != nil) != tt.good {
				t.Errorf("%s", payload)
			}
		})
	}
	if _, err := jose.ParseSigned(p.Signed(t, jose.HS256, shared, map[jose.HeaderKey]any{"kid": "s"}, nil), asymmetric); err == nil {
		t.Error("a shared key")
	}
}

// verifierOf returns a verifier that accepts the provider's tokens.
func verifierOf(t testing.TB, p *oidctest.Provider) *OIDC {
	t.Helper()
	v, err := NewOIDC(OIDCOptions{Issuer: p.URL, Audience: "byline", ModeratorRole: "moderator"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMain(m *testing.M) { testmain.Run(m) }
