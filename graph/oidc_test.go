package graph

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"byline/store"
)

// provider is an OpenID Connect provider that can be made to fail.
type provider struct {
	*httptest.Server
	down      atomic.Bool
	discovery atomic.Int64 // requests for the discovery document
	key       *ecdsa.PrivateKey
}

func newProvider(t *testing.T) *provider {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case p.down.Load():
			http.Error(w, "secret trouble", http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "openid-configuration"):
			p.discovery.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256"}})
		default:
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k1", Algorithm: "ES256"}}})
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// token signs claims over the default ones; a nil value leaves one out.
func (p *provider) token(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": p.URL, "aud": "byline", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestOIDCVerifier(t *testing.T) {
	p := newProvider(t)
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	v := OIDCVerifier(p.URL, "byline")
	es256 := func(claims map[string]any) string { return p.token(t, jose.ES256, p.key, claims) }
	for name, tt := range map[string]struct {
		token string
		good  bool
	}{
		"a good token":             {es256(nil), true},
		"one of several audiences": {es256(map[string]any{"aud": []string{"other", "byline"}}), true},
		"another audience":         {es256(map[string]any{"aud": "other"}), false},
		"another issuer":           {es256(map[string]any{"iss": "https://elsewhere.example"}), false},
		"expired":                  {es256(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), false},
		"without expiry":           {es256(map[string]any{"exp": nil}), false},
		"not yet valid":            {es256(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), false},
		"without a subject":        {es256(map[string]any{"sub": nil}), false},
		"another key":              {p.token(t, jose.ES256, stranger, nil), false},
		"signed with a shared key": {p.token(t, jose.HS256, []byte(strings.Repeat("k", 32)), nil), false},
		"not signed":               {"eyJhbGciOiJub25lIn0.e30.", false},
		"no token at all":          {"demo:ada", false},
	} {
		t.Run(name, func(t *testing.T) {
			viewer, err := v.Verify(t.Context(), tt.token)
			if (err == nil) != tt.good {
				t.Fatalf("%+v, %v", viewer, err)
			}
			if tt.good && viewer != (Viewer{Issuer: p.URL, Subject: "ada"}) {
				t.Errorf("%+v", viewer)
			}
			if !tt.good && store.CodeOf(err) == store.Unavailable {
				t.Errorf("taken for an outage: %v", err)
			}
		})
	}
	if n := p.discovery.Load(); n != 1 {
		t.Errorf("the provider was looked up %d times", n)
	}
}

func TestOIDCProviderDown(t *testing.T) {
	t.Run("from the start -> unavailable, and found once it is back", func(t *testing.T) {
		p := newProvider(t)
		p.down.Store(true)
		v := &oidcVerifier{issuer: p.URL, audience: "byline", client: http.DefaultClient, retry: time.Hour}
		good := p.token(t, jose.ES256, p.key, nil)
		for range 2 {
			if _, err := v.Verify(t.Context(), good); store.CodeOf(err) != store.Unavailable {
				t.Fatalf("%v", err)
			}
		}
		p.down.Store(false)
		if _, err := v.Verify(t.Context(), good); store.CodeOf(err) != store.Unavailable {
			t.Errorf("asked again too soon: %v", err)
		}
		v.retry = 0
		if _, err := v.Verify(t.Context(), good); err != nil {
			t.Error(err)
		}
	})
	t.Run("when keys are needed -> unavailable, and good once it is back", func(t *testing.T) {
		p := newProvider(t)
		v := &oidcVerifier{issuer: p.URL, audience: "byline", client: http.DefaultClient}
		if _, err := v.discovered(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.down.Store(true)
		good := p.token(t, jose.ES256, p.key, nil)
		if _, err := v.Verify(t.Context(), good); store.CodeOf(err) != store.Unavailable {
			t.Fatalf("%v", err)
		}
		p.down.Store(false)
		// The key set frees its failed request a moment after it has answered it, and
		// who comes in between shares that answer.
		_, err := v.Verify(t.Context(), good)
		for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
			_, err = v.Verify(t.Context(), good)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("with keys at hand -> no matter", func(t *testing.T) {
		p := newProvider(t)
		v := OIDCVerifier(p.URL, "byline")
		good := p.token(t, jose.ES256, p.key, nil)
		if _, err := v.Verify(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		p.down.Store(true)
		if _, err := v.Verify(t.Context(), good); err != nil {
			t.Error(err)
		}
		expired := p.token(t, jose.ES256, p.key, map[string]any{"exp": 1})
		if _, err := v.Verify(t.Context(), expired); err == nil || store.CodeOf(err) == store.Unavailable {
			t.Errorf("%v", err)
		}
	})
}
