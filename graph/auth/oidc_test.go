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
	"byline/internal/testkit"
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
		reason    Reason // "": valid
		moderator bool
	}{
		"valid token": {nil, "", false},
		"one of several audiences -> valid": {map[string]any{"aud": []string{"other", "byline"}}, "",
			false},
		"wrong audience":   {map[string]any{"aud": "other"}, WrongAudience, false},
		"missing audience": {map[string]any{"aud": nil}, WrongAudience, false},
		"wrong issuer": {map[string]any{"iss": "https://elsewhere.example"},
			WrongIssuer, false},
		"issuer with a trailing slash": {map[string]any{"iss": p.URL + "/"}, WrongIssuer, false},
		"expired within the clock skew -> valid": {map[string]any{"exp": at(-ClockSkew + time.Second)}, "",
			false},
		"expired beyond the clock skew": {map[string]any{"exp": at(-ClockSkew - time.Second)},
			Expired, false},
		"missing expiry": {map[string]any{"exp": nil}, BadClaims, false},
		"not yet valid within the clock skew -> valid": {map[string]any{"nbf": at(ClockSkew - time.Second)}, "",
			false},
		"not yet valid beyond the clock skew": {map[string]any{"nbf": at(ClockSkew + 2*time.Second)},
			NotYetValid, false},
		"nbf is not a number":          {map[string]any{"nbf": "tomorrow"}, BadClaims, false},
		"missing subject":              {map[string]any{"sub": nil}, BadClaims, false},
		"subject is not a string":      {map[string]any{"sub": 1}, BadClaims, false},
		"claim that case-folds to sub": {map[string]any{"\u017fub": "mallory"}, BadClaims, false},
		"claim that case-folds to iss": {map[string]any{"iss": "https://elsewhere.example",
			"i\u017fs": p.URL}, BadClaims, false},
		"unrelated claim -> valid": {map[string]any{"SUBJECT": "mallory"}, "", false},
		"claim that case-folds to exp": {map[string]any{"EXP": at(time.Hour), "exp": nil},
			BadClaims, false},
		"list with the moderator role -> moderator": {map[string]any{"roles": []string{"writer", "moderator"}},
			"", true},
		"string with the moderator role -> moderator": {map[string]any{"roles": "moderator"}, "", true},
		"string that contains the role -> not a moderator": {map[string]any{"roles": "moderators moderator"}, "",
			false},
		"role in another claim -> not a moderator": {map[string]any{"groups": []string{"moderator"}}, "", false},
		"roles are not strings -> not a moderator": {map[string]any{"roles": []any{1, nil,
			map[string]any{"moderator": true}}}, "", false},
		"roles are an object -> not a moderator": {map[string]any{"roles": map[string]any{"moderator": true}}, "",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			viewer, err := v.Verify(t.Context(), p.Token(t, tt.claims))
			if (err == nil) != (tt.reason == "") {
				t.Fatalf("Verify = %+v, %v; want the reason %q", viewer, err, tt.reason)
			}
			if err == nil &&
				(viewer.Issuer != p.URL || viewer.Subject != "ada" || viewer.Moderator != tt.moderator ||
					viewer.Expires.IsZero()) {
				t.Errorf("viewer %+v, want ada of %s, moderator: %t, with an expiry", viewer, p.URL, tt.moderator)
			}
			if err != nil &&
				(blog.CodeOf(err) == blog.Unavailable || ReasonOf(err) != tt.reason ||
					strings.Contains(err.Error(), "ada")) {
				t.Errorf("%v: reason %q, want %q, no outage, and no subject", err, ReasonOf(err), tt.reason)
			}
		})
	}
	if discovery, keys := p.Discovery.Load(), p.Asked.Load(); discovery != 1 || keys != 1 {
		t.Errorf("%d discovery requests and %d key requests, want 1 each", discovery, keys)
	}
}

// The types of RFC 7519 and 9068, with and without "application/", in any case.
func TestOIDC_TypesOfTokens(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	key, name := p.SigningKey()
	for typ, accepted := range map[string]bool{
		"JWT": true, "jwt": true, "at+jwt": true, "AT+JWT": true, "application/jwt": true, "Application/JWT": true,
		"application/at+jwt": true, "logout+jwt": false, "application/logout+jwt": false, "text/jwt": false,
	} {
		token := p.Signed(t, jose.ES256, key, map[jose.HeaderKey]any{"kid": name, "typ": typ}, nil)
		if _, err := v.Verify(t.Context(), token); (err == nil) != accepted {
			t.Errorf("typ %q: %v, want accepted %t", typ, err, accepted)
		}
	}
}

func TestOIDC_ReasonsOfSignatures(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	key, name := p.SigningKey()
	parts := strings.Split(p.Token(t, nil), ".")
	for name, tt := range map[string]struct {
		token string
		want  Reason
		text  string
	}{
		"opaque":                      {"opaque", Malformed, "malformed jwt"},
		"three parts that are no JWS": {"a.b.c", Malformed, "malformed jwt"},
		"symmetric algorithm": {p.Signed(t, jose.HS256, []byte(strings.Repeat("k", 32)), nil, nil), Malformed,
			"HS256"},
		"another type": {p.Signed(t, jose.ES256, key,
			map[jose.HeaderKey]any{"kid": name, "typ": "logout+jwt"}, nil), Malformed, "logout+jwt"},
		"unknown key id": {p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "mine"},
			nil), UnknownKey, `"mine"`},
		"another key, known id": {p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": name},
			nil), BadSignature, ""},
		"another key, no id": {p.Signed(t, jose.ES256, oidctest.NewKey(t), nil, nil), BadSignature, ""},
		"changed claims": {testkit.Secret(parts[0] + "." +
			strings.Split(p.Token(t, map[string]any{"sub": "eve"}), ".")[1] + "." + parts[2]), BadSignature, ""},
	} {
		_, err := v.Verify(t.Context(), tt.token)
		if err == nil || ReasonOf(err) != tt.want || !strings.Contains(err.Error(), tt.text) ||
			testkit.FindSecret([]byte(err.Error())) != "" {
			t.Errorf("%s: %v: reason %q, want %q, and %s in the text", name, err, ReasonOf(err), tt.want, tt.text)
		}
	}
}

// The text of the reason has what was expected and what was received.
func TestOIDC_TextOfReason(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	for text, claims := range map[string]map[string]any{
		`expected "` + p.URL + `" got "` + p.URL + `/"`: {"iss": p.URL + "/"},
		`expected audience "byline" got ["graph"]`:      {"aud": "graph"},
		`2100-01-01 00:00:00 +0000 UTC`:                 {"nbf": time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix()},
	} {
		if _, err := v.Verify(t.Context(), p.Token(t, claims)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v lacks %s", err, text)
		}
	}
}

// A client that goes away while the keys are fetched has sent no invalid token.
func TestOIDC_CanceledIsNoReason(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Fatal(err)
	}
	p.Down.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kid := range []string{"k1", "mine"} {
		token := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": kid}, nil)
		if _, err := v.Verify(ctx, token); blog.CodeOf(err) != blog.Unavailable {
			t.Errorf("kid %s: %v, want unavailable", kid, err)
		}
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
		v, err := NewOIDC(OIDCOptions{Issuer: "https://id.example", Audience: "byline", RoleClaim: name,
			ModeratorRole: role})
		if err != nil {
			t.Fatal(err)
		}
		if !v.moderates(claims) {
			t.Errorf("claim %q: the role %q was not found", name, role)
		}
		v.o.ModeratorRole = ""
		if v.moderates(claims) || v.moderates(map[string]any{name: ""}) {
			t.Errorf("claim %q: a moderator without a moderator role", name)
		}
	}
	for _, name := range []string{"", ".", "roles.x", "realm_access", "realm_access.", "none.roles"} {
		v := &OIDC{o: OIDCOptions{RoleClaim: name, ModeratorRole: "nested"}}
		if v.moderates(claims) {
			t.Errorf("claim %q: found a role, want none", name)
		}
	}
}

func TestOIDCOptions(t *testing.T) {
	for _, o := range []OIDCOptions{
		{}, {Issuer: "https://id.example"}, {Audience: "byline"}, {Issuer: "id.example", Audience: "byline"},
		{Issuer: "https://user:password@id.example", Audience: "byline"},
		{Issuer: "https://id.example?tenant=1", Audience: "byline"},
	} {
		if _, err := NewOIDC(o); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("NewOIDC(%+v): %v, want an error without the password", o, err)
		}
	}
}

func TestOIDCOptions_EntraIssuers(t *testing.T) {
	for issuer, valid := range map[string]bool{
		"https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0": true,
		"https://login.microsoftonline.com/common/v2.0":                               false,
		"https://login.microsoftonline.com/Organizations":                             false,
		"https://Login.MicrosoftOnline.com/consumers/v2.0":                            false,
		"https://login.microsoftonline.us/common/v2.0":                                false,
		"https://login.microsoftonline.com/commons/v2.0":                              true,
		"https://login.microsoftonline.com":                                           true,
		"https://id.example/common/v2.0":                                              true,
	} {
		_, err := NewOIDC(OIDCOptions{Issuer: issuer, Audience: "byline"})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "tenant") {
			t.Errorf("%s: %v, want valid: %t", issuer, err, valid)
		}
	}
}

// A rotated key is accepted at once, without a restart.
func TestOIDC_KeyRotation(t *testing.T) {
	for name, next := range map[string]string{"new key id": "k2", "same key id": "k1", "no key id": ""} {
		t.Run(name, func(t *testing.T) {
			p := oidctest.New(t)
			v := verifierOf(t, p)
			old := p.Token(t, nil)
			if _, err := v.Verify(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			p.Rotate(t, next)
			if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
				t.Errorf("token of the new key: %v", err)
			}
			if _, err := v.Verify(t.Context(), old); err == nil || blog.CodeOf(err) == blog.Unavailable {
				t.Errorf("token of the old key: %v, want invalid", err)
			}
		})
	}
}

// A withdrawn key becomes invalid even if no token of a new key arrives.
func TestOIDC_RunDropsWithdrawnKeys(t *testing.T) {
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
	testkit.WaitFor(t, func() bool { return p.Asked.Load() >= 2 })
	testkit.WaitFor(t, func() bool { keys, _ := v.keys.current(); return len(keys) == 1 && keys[0].KeyID == "k2" })
	if _, err := v.Verify(t.Context(), old); err == nil {
		t.Error("a token of the withdrawn key is still valid")
	}
	stop()
	if err := testkit.Receive(t, done); err != nil {
		t.Error(err)
	}
}

// Anyone can send tokens with unknown keys: the requests to the provider must be limited.
func TestOIDC_UnknownKeysAreRateLimited(t *testing.T) {
	p := oidctest.New(t)
	v := verifierOf(t, p)
	now := time.Now()
	v.keys.clock = func() time.Time { return now }
	if _, err := v.Verify(t.Context(), p.Token(t, nil)); err != nil {
		t.Fatal(err)
	}
	unknown := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "mine"}, nil)
	forged := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "k1"}, nil)
	for range 100 {
		for _, token := range []string{unknown, forged} {
			if _, err := v.Verify(t.Context(), token); err == nil || blog.CodeOf(err) == blog.Unavailable {
				t.Fatalf("got %v, want an invalid token", err)
			}
		}
	}
	if n := p.Asked.Load(); n != unknownKeyLookUps {
		t.Errorf("%d key requests, want %d", n, unknownKeyLookUps)
	}
	now = now.Add(2 * unknownKeyInterval)
	for range 10 {
		_, _ = v.Verify(t.Context(), unknown)
	}
	if n := p.Asked.Load(); n != unknownKeyLookUps+2 {
		t.Errorf("%d key requests two intervals later, want %d", n, unknownKeyLookUps+2)
	}
}

func TestOIDC_ProviderDown(t *testing.T) {
	t.Run("down at the start -> unavailable until it is back", func(t *testing.T) {
		p := oidctest.New(t)
		p.Down.Store(true)
		v := verifierOf(t, p)
		if known, err := v.Ready(); known || err == nil {
			t.Errorf("before the first fetch: keys known %t, error %v; want false and an error", known, err)
		}
		valid := p.Token(t, nil)
		for range 2 * unknownKeyLookUps {
			if _, err := v.Verify(t.Context(), valid); blog.CodeOf(err) != blog.Unavailable {
				t.Fatalf("got %v, want unavailable", err)
			}
		}
		if known, err := v.Ready(); known || err == nil {
			t.Errorf("after failed fetches: keys known %t, error %v; want false and an error", known, err)
		}
		p.Down.Store(false)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = v.Run(ctx) })
		defer running.Wait()
		defer stop()
		testkit.WaitFor(t, func() bool { _, err := v.Ready(); return err == nil })
		if _, err := v.Verify(t.Context(), valid); err != nil {
			t.Error(err)
		}
	})
	t.Run("down with cached keys -> known keys work, unknown ones are unavailable", func(t *testing.T) {
		p := oidctest.New(t)
		v := verifierOf(t, p)
		valid := p.Token(t, nil)
		if _, err := v.Verify(t.Context(), valid); err != nil {
			t.Fatal(err)
		}
		if known, err := v.Ready(); !known || err != nil {
			t.Errorf("before the outage: keys known %t, error %v; want true and none", known, err)
		}
		p.Down.Store(true)
		unknown := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "k2"}, nil)
		forged := p.Signed(t, jose.ES256, oidctest.NewKey(t), map[jose.HeaderKey]any{"kid": "k1"}, nil)
		for range 2 * unknownKeyLookUps {
			if _, err := v.Verify(t.Context(), unknown); blog.CodeOf(err) != blog.Unavailable {
				t.Errorf("unknown key: %v, want unavailable", err)
			}
			if _, err := v.Verify(t.Context(), valid); err != nil {
				t.Errorf("known key: %v", err)
			}
			if _, err := v.Verify(t.Context(), forged); err == nil || blog.CodeOf(err) == blog.Unavailable {
				t.Errorf("forged signature: %v, want invalid", err)
			}
		}
		if known, err := v.Ready(); !known || err == nil {
			t.Errorf("during the outage: keys known %t, error %v; want true and an error", known, err)
		}
		expired := p.Token(t, map[string]any{"exp": 1})
		if _, err := v.Verify(t.Context(), expired); err == nil || blog.CodeOf(err) == blog.Unavailable {
			t.Errorf("expired token: %v, want invalid", err)
		}
	})
}

// A provider's metadata cannot make the verifier fetch keys from an unsafe address or with another issuer.
func TestOIDC_UnsafeProviderAddresses(t *testing.T) {
	for name, tt := range map[string]struct {
		discovery string // %s is the provider's URL
		redirect  string
	}{
		"keys over HTTP":                 {`{"issuer":"%s","jwks_uri":"http://id.example/keys"}`, ""},
		"keys in a file":                 {`{"issuer":"%s","jwks_uri":"file:///etc/passwd"}`, ""},
		"no keys URL":                    {`{"issuer":"%s"}`, ""},
		"wrong issuer":                   {`{"issuer":"https://id.example","jwks_uri":"%s/keys"}`, ""},
		"discovery document is not JSON": {`hello`, ""},
		"redirect to HTTP":               {"", "http://id.example/"},
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
				t.Errorf("got %v, want a refusal before any look-up", err)
			}
		})
	}
}

// A key verifies only signatures of its own algorithm, and only asymmetric algorithms are accepted.
func TestVerifyWith_Algorithms(t *testing.T) {
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
		valid bool
	}{
		"algorithm of the key -> valid": {p.Signed(t, jose.RS256, rsaKey,
			map[jose.HeaderKey]any{"kid": "r"}, nil), true},
		"other algorithm of the same key -> invalid": {p.Signed(t, jose.PS256, rsaKey,
			map[jose.HeaderKey]any{"kid": "r"}, nil), false},
		"no key id -> valid": {p.Signed(t, jose.RS256, rsaKey, nil, nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			signed, err := jose.ParseSignedCompact(tt.token, asymmetric)
			if err != nil {
				t.Fatal(err)
			}
			if payload, _ := verifyWith(set.Keys, signed); (payload != nil) != tt.valid {
				t.Errorf("payload %q, want valid: %t", payload, tt.valid)
			}
		})
	}
	if _, err := jose.ParseSignedCompact(p.Signed(t, jose.HS256, shared, map[jose.HeaderKey]any{"kid": "s"}, nil),
		asymmetric); err == nil {
		t.Error("a symmetric signature was accepted")
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

func TestMain(m *testing.M) { testkit.Main(m) }
