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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"byline/internal/secrettest"
)

// provider is an OpenID Connect provider that can be made to fail, and to rotate its
// key.
type provider struct {
	*httptest.Server
	down      atomic.Bool
	discovery atomic.Int64 // requests for the discovery document
	asked     atomic.Int64 // requests for the keys

	mu   sync.Mutex
	key  *ecdsa.PrivateKey // guarded by mu
	name string            // guarded by mu; the key's
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newProvider(t testing.TB) *provider {
	p := &provider{}
	p.rotate(t, "k1")
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case p.down.Load():
			http.Error(w, "secret trouble", http.StatusBadGateway)
		case strings.HasSuffix(r.URL.Path, "openid-configuration"):
			p.discovery.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}})
		default:
			p.asked.Add(1)
			p.mu.Lock()
			defer p.mu.Unlock()
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{
				map[string]any{"kty": "quantum", "kid": "k0", "alg": "Q1"}, // what nobody here knows
				jose.JSONWebKey{Key: &p.key.PublicKey, KeyID: p.name, Algorithm: "ES256", Use: "sig"},
			}})
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// rotate replaces the provider's key.
func (p *provider) rotate(t testing.TB, name string) {
	key := newKey(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.name = key, name
}

// verifier returns one that accepts the provider's tokens.
func (p *provider) verifier(t testing.TB) *OIDC {
	t.Helper()
	v, err := NewOIDC(OIDCOptions{Issuer: p.URL, Audience: "byline", ModeratorRole: "moderator"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// token is signed by the provider's key. claims go over the default ones; a nil value
// leaves one out.
func (p *provider) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	p.mu.Lock()
	key, name := p.key, p.name
	p.mu.Unlock()
	return p.signed(t, jose.ES256, key, map[jose.HeaderKey]any{"kid": name}, claims)
}

// signed is a token like the provider's.
func (p *provider) signed(t testing.TB, alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, claims map[string]any) string {
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
	return secrettest.Secret(token)
}
