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
	"byline/internal/longtest"
	"byline/internal/oidctest"
	"byline/internal/secrettest"
)

// Tokens that are not good, each to publish a post as mallory, who could with a good one.
func TestAttacksByTokens(t *testing.T) {
	longtest.Heavy(t)
	f := newFortress(t)
	p := f.provider
	key, name := p.SigningKey()
	public := &key.PublicKey
	stranger := oidctest.NewKey(t)
	good := strings.Split(f.mallory, ".")
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
	joined := func(parts ...string) string { return secrettest.Secret(strings.Join(parts, ".")) }
	headed := func(h claims) string { return joined(part(h), good[1], good[2]) }

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
	// What a token says of where its key is would be asked here.
	var visits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		visits.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &stranger.PublicKey, KeyID: "x"}}})
	}))
	defer elsewhere.Close()
	other := oidctest.New(t)

	attacks := map[string]attack{}
	for name, token := range map[string]string{
		"no token":                          "",
		"alg none":                          joined(part(claims{"alg": "none", "kid": name}), good[1], ""),
		"alg none, with a signature":        headed(claims{"alg": "none", "kid": name}),
		"alg None":                          joined(part(claims{"alg": "None"}), good[1], ""),
		"alg NONE":                          joined(part(claims{"alg": "NONE"}), good[1], ""),
		"alg of nothing":                    joined(part(claims{"alg": ""}), good[1], ""),
		"no alg":                            joined(part(claims{"kid": name}), good[1], good[2]),
		"alg that is a list":                headed(claims{"alg": []string{"ES256", "none"}, "kid": name}),
		"HS256 with the public key, PEM":    p.Signed(t, jose.HS256, asPEM, kid, mallory),
		"HS256 with the public key, DER":    p.Signed(t, jose.HS256, der, kid, mallory),
		"HS256 with the public key, JWK":    p.Signed(t, jose.HS256, asJWK, kid, mallory),
		"HS256 with the public key, point":  p.Signed(t, jose.HS256, point, kid, mallory),
		"HS512 with the public key, PEM":    p.Signed(t, jose.HS512, asPEM, kid, mallory),
		"HS256 with a guessed secret":       p.Signed(t, jose.HS256, []byte(strings.Repeat("secret", 6)), kid, mallory),
		"another algorithm":                 p.Signed(t, jose.RS256, rsaKey, kid, mallory),
		"another key":                       p.Signed(t, jose.ES256, stranger, header{"kid": "x"}, mallory),
		"another key, under the same name":  p.Signed(t, jose.ES256, stranger, kid, mallory),
		"another key, without a name":       p.Signed(t, jose.ES256, stranger, nil, mallory),
		"a key in the token":                p.Signed(t, jose.ES256, stranger, header{"kid": name, "jwk": jose.JSONWebKey{Key: &stranger.PublicKey}}, mallory),
		"the address of a key":              p.Signed(t, jose.ES256, stranger, header{"kid": "x", "jku": elsewhere.URL}, mallory),
		"the address of a certificate":      p.Signed(t, jose.ES256, stranger, header{"kid": "x", "x5u": elsewhere.URL}, mallory),
		"a key's name that is a path":       p.Signed(t, jose.ES256, stranger, header{"kid": "../../../../dev/null"}, mallory),
		"a key's name that is SQL":          p.Signed(t, jose.ES256, stranger, header{"kid": "x' UNION SELECT 'k"}, mallory),
		"a header that must be understood":  joined(part(claims{"alg": "ES256", "kid": name, "crit": []string{"b64"}, "b64": false}), good[1], good[2]),
		"another issuer":                    of(claims{"iss": "https://evil.example"}),
		"another issuer, below this one":    of(claims{"iss": p.URL + "/evil"}),
		"no issuer":                         of(claims{"iss": nil}),
		"another provider":                  other.Token(t, mallory),
		"another provider, in its name":     other.Token(t, claims{"sub": "mallory", "iss": p.URL}),
		"another audience":                  of(claims{"aud": "another"}),
		"an audience that contains it":      of(claims{"aud": "byline.evil.example"}),
		"no audience":                       of(claims{"aud": nil}),
		"an empty list of audiences":        of(claims{"aud": []string{}}),
		"expired":                           of(claims{"exp": at(-2 * auth.ClockSkew)}),
		"expired long ago":                  of(claims{"exp": 0}),
		"an expiry that is a text":          of(claims{"exp": "9999999999"}),
		"no expiry":                         of(claims{"exp": nil}),
		"not yet valid":                     of(claims{"nbf": at(2*auth.ClockSkew + time.Second)}),
		"no subject":                        p.Token(t, claims{"sub": nil}),
		"an empty subject":                  p.Token(t, claims{"sub": ""}),
		"a subject that is a list":          p.Token(t, claims{"sub": []string{"mallory"}}),
		"a token to sign somebody out":      p.Signed(t, jose.ES256, key, header{"kid": name, "typ": "logout+jwt"}, mallory),
		"claims of another":                 joined(good[0], part(claims{"iss": p.URL, "aud": "byline", "sub": "ada", "exp": at(time.Hour)}), good[2]),
		"no signature":                      joined(good[0], good[1], ""),
		"a signature of zeros":              joined(good[0], good[1], base64.RawURLEncoding.EncodeToString(make([]byte, 64))),
		"half a signature":                  joined(good[0], good[1], good[2][:len(good[2])/2]),
		"two parts":                         joined(good[0], good[1]),
		"four parts":                        f.mallory + ".x",
		"five parts, as if encrypted":       strings.Join([]string{good[0], good[1], good[2], good[1], good[2]}, "."),
		"a signature for many":              `{"payload":"` + good[1] + `","signatures":[{"protected":"` + good[0] + `","signature":"` + good[2] + `"}]}`,
		"padding":                           f.mallory + "==",
		"a demo token":                      "demo:mallory",
		"no JWT":                            "mallory",
		"prototype-like":                    "__proto__",
		"SQL":                               "' OR 1=1 --",
		"a token of 9 KB":                   joined(good[0], good[1], strings.Repeat("A", 9<<10)),
		"a token with 9 KB of claims":       p.Token(t, claims{"sub": "mallory", "x": strings.Repeat("a", 9<<10)}),
		"a token of half a megabyte":        strings.Repeat("A", 1<<19),
		"deep JSON in the claims":           joined(good[0], base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 5000))), good[2]),
		"a header that is no JSON":          joined(base64.RawURLEncoding.EncodeToString([]byte("\xff\x00")), good[1], good[2]),
		"two claims of one name":            joined(good[0], base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"mallory","sub":"ada"}`)), good[2]),
		"a good token, and another behind":  f.mallory + ", Bearer " + f.mallory,
		"a good token, and a space between": f.mallory[:20] + " " + f.mallory[20:],
	} {
		attacks[name] = attack{token: token, query: `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`, code: "UNAUTHENTICATED"}
	}
	for name, scheme := range map[string]string{"Basic": "Basic ", "no scheme": "", "two spaces": "Bearer  ", "a tab": "Bearer\t"} {
		attacks["a good token with "+name] = attack{header: map[string]string{"Authorization": scheme + f.mallory},
			query: `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`, code: "UNAUTHENTICATED"}
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
		t.Errorf("an address in a token was asked %d times", n)
	}
	if a := f.send(attack{token: f.mallory, query: `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`}); a.code() != "" {
		t.Errorf("with a good token: %s", a.body)
	}
}
