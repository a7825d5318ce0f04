// Package oidctest is an OpenID Connect provider for tests. It is safe for concurrent use.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"byline/internal/testkit"
)

// Provider is an OpenID Connect provider with one key, which it can rotate. While Down is
// set it fails all requests.
type Provider struct {
	*httptest.Server
	Down      atomic.Bool
	Discovery atomic.Int64 // requests for the discovery document
	Asked     atomic.Int64 // requests for the keys

	mu   sync.Mutex
	key  *ecdsa.PrivateKey // guarded by mu
	name string            // guarded by mu; the key's
}

// NewKey returns a key that no provider has.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// New starts a provider that stops when the test ends.
func New(t testing.TB) *Provider {
	p := &Provider{}
	p.Rotate(t, "k1")
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case p.Down.Load():
			http.Error(w, "secret trouble", http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "openid-configuration"):
			p.Discovery.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}})
		default:
			p.Asked.Add(1)
			p.mu.Lock()
			defer p.mu.Unlock()
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{
				map[string]any{"kty": "quantum", "kid": "k0", "alg": "Q1"}, // an unknown kind of key
				jose.JSONWebKey{Key: &p.key.PublicKey, KeyID: p.name, Algorithm: "ES256", Use: "sig"},
			}})
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// Rotate replaces the provider's key.
func (p *Provider) Rotate(t testing.TB, name string) {
	key := NewKey(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.name = key, name
}

// SigningKey returns the provider's key and its name.
func (p *Provider) SigningKey() (key *ecdsa.PrivateKey, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key, p.name
}

// Token returns a token that is signed with the provider's key. claims override the default ones; a nil value
// removes one.
func (p *Provider) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	key, name := p.SigningKey()
	return p.Signed(t, jose.ES256, key, map[jose.HeaderKey]any{"kid": name}, claims)
}

// Signed returns a token with the claims of Token, signed with key.
func (p *Provider) Signed(
	t testing.TB, alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, claims map[string]any,
) string {
	t.Helper()
	all := map[string]any{"iss": p.URL, "aud": "byline", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	o := &jose.SignerOptions{}
	for name, value := range header {
		o.WithHeader(name, value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
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
	return testkit.Secret(token)
}
