package graph

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"byline/graph/auth"
	"byline/internal/oidctest"
	"byline/internal/testkit"
)

// Each invalid token tries to publish a post as mallory. A valid token succeeds.
func TestAttacks_InvalidTokens(t *testing.T) {
	testkit.Heavy(t)
	f := newAttackTest(t)
	p := f.provider
	key, name := p.SigningKey()
	public := &key.PublicKey
	stranger := oidctest.NewKey(t)
	valid := strings.Split(f.mallory, ".")
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	type header = map[jose.HeaderKey]any
	type claims = map[string]any
	kid := header{"kid": name}
	mallory := claims{"sub": "mallory"}
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	of := func(more claims) string { more["sub"] = "mallory"; return p.Token(t, more) }
	joined := func(parts ...string) string { return testkit.Secret(strings.Join(parts, ".")) }
	headed := func(h claims) string { return joined(part(h), valid[1], valid[2]) }

	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	asJWK, err := json.Marshal(jose.JSONWebKey{Key: public, KeyID: name, Algorithm: "ES256", Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	point, err := public.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	// A verifier that follows jku or x5u would fetch its key here.
	var visits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visits.Add(1)
		_ = json.NewEncoder(w).Encode(
			jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &stranger.PublicKey, KeyID: "x"}}})
	}))
	defer elsewhere.Close()
	other := oidctest.New(t)

	attacks := map[string]attack{}
	for name, token := range map[string]string{
		"no token":                         "",
		"alg none":                         joined(part(claims{"alg": "none", "kid": name}), valid[1], ""),
		"alg none, with a signature":       headed(claims{"alg": "none", "kid": name}),
		"alg None":                         joined(part(claims{"alg": "None"}), valid[1], ""),
		"alg NONE":                         joined(part(claims{"alg": "NONE"}), valid[1], ""),
		"empty alg":                        joined(part(claims{"alg": ""}), valid[1], ""),
		"no alg":                           joined(part(claims{"kid": name}), valid[1], valid[2]),
		"alg that is a list":               headed(claims{"alg": []string{"ES256", "none"}, "kid": name}),
		"HS256 with the public key, PEM":   p.Signed(t, jose.HS256, asPEM, kid, mallory),
		"HS256 with the public key, DER":   p.Signed(t, jose.HS256, der, kid, mallory),
		"HS256 with the public key, JWK":   p.Signed(t, jose.HS256, asJWK, kid, mallory),
		"HS256 with the public key, point": p.Signed(t, jose.HS256, point, kid, mallory),
		"HS512 with the public key, PEM":   p.Signed(t, jose.HS512, asPEM, kid, mallory),
		"HS256 with a guessed secret": p.Signed(t, jose.HS256, []byte(strings.Repeat("secret", 6)), kid,
			mallory),
		"another algorithm":     p.Signed(t, jose.RS256, rsaKey, kid, mallory),
		"another key":           p.Signed(t, jose.ES256, stranger, header{"kid": "x"}, mallory),
		"another key, same kid": p.Signed(t, jose.ES256, stranger, kid, mallory),
		"another key, no kid":   p.Signed(t, jose.ES256, stranger, nil, mallory),
		"a key in the token (jwk)": p.Signed(t, jose.ES256, stranger,
			header{"kid": name, "jwk": jose.JSONWebKey{Key: &stranger.PublicKey}}, mallory),
		"the address of a key (jku)": p.Signed(t, jose.ES256, stranger,
			header{"kid": "x", "jku": elsewhere.URL}, mallory),
		"the address of a certificate (x5u)": p.Signed(t, jose.ES256, stranger,
			header{"kid": "x", "x5u": elsewhere.URL}, mallory),
		"kid that is a path": p.Signed(t, jose.ES256, stranger, header{"kid": "../../../../dev/null"},
			mallory),
		"kid that is SQL": p.Signed(t, jose.ES256, stranger, header{"kid": "x' UNION SELECT 'k"},
			mallory),
		"unknown critical header (crit)": joined(
			part(claims{"alg": "ES256", "kid": name, "crit": []string{"b64"}, "b64": false}), valid[1], valid[2]),
		"another issuer":                  of(claims{"iss": "https://evil.example"}),
		"another issuer, below this URL":  of(claims{"iss": p.URL + "/evil"}),
		"no issuer":                       of(claims{"iss": nil}),
		"another provider":                other.Token(t, mallory),
		"another provider, same issuer":   other.Token(t, claims{"sub": "mallory", "iss": p.URL}),
		"another audience":                of(claims{"aud": "another"}),
		"an audience with ours as prefix": of(claims{"aud": "byline.evil.example"}),
		"no audience":                     of(claims{"aud": nil}),
		"an empty list of audiences":      of(claims{"aud": []string{}}),
		"expired":                         of(claims{"exp": at(-2 * auth.ClockSkew)}),
		"expired long ago":                of(claims{"exp": 0}),
		"exp that is a string":            of(claims{"exp": "9999999999"}),
		"no expiry":                       of(claims{"exp": nil}),
		"not yet valid":                   of(claims{"nbf": at(2*auth.ClockSkew + time.Second)}),
		"no subject":                      p.Token(t, claims{"sub": nil}),
		"an empty subject":                p.Token(t, claims{"sub": ""}),
		"a subject that is a list":        p.Token(t, claims{"sub": []string{"mallory"}}),
		"a logout token": p.Signed(t, jose.ES256, key, header{"kid": name, "typ": "logout+jwt"},
			mallory),
		"claims of another user": joined(valid[0],
			part(claims{"iss": p.URL, "aud": "byline", "sub": "ada", "exp": at(time.Hour)}), valid[2]),
		"no signature": joined(valid[0], valid[1], ""),
		"a signature of zeros": joined(valid[0], valid[1],
			base64.RawURLEncoding.EncodeToString(make([]byte, 64))),
		"half a signature": joined(valid[0], valid[1], valid[2][:len(valid[2])/2]),
		"two parts":        joined(valid[0], valid[1]),
		"four parts":       f.mallory + ".x",
		"five parts, as if encrypted": strings.Join([]string{valid[0], valid[1], valid[2], valid[1], valid[2]},
			"."),
		"JWS JSON serialization": `{"payload":"` + valid[1] + `","signatures":[{"protected":"` + valid[0] +
			`","signature":"` + valid[2] + `"}]}`,
		"padding":                     f.mallory + "==",
		"a demo token":                "demo:mallory",
		"not a JWT":                   "mallory",
		"prototype-like":              "__proto__",
		"SQL":                         "' OR 1=1 --",
		"a token of 9 KB":             joined(valid[0], valid[1], strings.Repeat("A", 9<<10)),
		"a token with 9 KB of claims": p.Token(t, claims{"sub": "mallory", "x": strings.Repeat("a", 9<<10)}),
		"a token of half a megabyte":  strings.Repeat("A", 1<<19),
		"deep JSON in the claims": joined(valid[0],
			base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 5000))), valid[2]),
		"a header that is not JSON": joined(base64.RawURLEncoding.EncodeToString([]byte("\xff\x00")), valid[1],
			valid[2]),
		"a duplicate claim": joined(valid[0],
			base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"mallory","sub":"ada"}`)), valid[2]),
		"two valid tokens":                f.mallory + ", Bearer " + f.mallory,
		"a valid token, split by a space": f.mallory[:20] + " " + f.mallory[20:],
	} {
		attacks[name] = attack{token: token,
			query: `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`,
			code:  "UNAUTHENTICATED"}
	}
	for name, scheme := range map[string]string{"Basic": "Basic ", "no scheme": "",
		"a tab": "Bearer\t"} {
		attacks["a valid token with "+name] = attack{header: map[string]string{"Authorization": scheme + f.mallory},
			query: `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`,
			code:  "UNAUTHENTICATED"}
	}
	posts := func() string {
		t.Helper()
		return f.send(attack{token: f.mallory, query: `{ viewer { posts { edges { cursor } } } }`}).body
	}
	f.run(t, attacks)
	if got := posts(); got != `{"data":{"viewer":{"posts":{"edges":[]}}}}`+"\n" {
		t.Errorf("mallory has posts: %s", got)
	}
	if n := visits.Load(); n > 0 {
		t.Errorf("got %d requests to an address in a token, want 0", n)
	}
	if a := f.send(attack{token: f.mallory,
		query: `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`}); a.code() != "" {
		t.Errorf("with a valid token: %s", a.body)
	}
}
