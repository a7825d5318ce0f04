package emulator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"byline/store/emulator/internal/apierror"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// WellKnownKey is the public key of every Azure Cosmos DB emulator.
const WellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// authenticator verifies the Authorization header.
type authenticator struct {
	key   []byte
	token string    // contains the key; see verifyEmulatorToken
	macs  sync.Pool // of *mac
}

type mac struct {
	hash hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

func newAuthenticator(key string) (*authenticator, error) {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil, err
	}
	a := &authenticator{key: raw, token: "e30.e30." + base64.RawURLEncoding.EncodeToString(raw)}
	a.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, raw)} }
	return a, nil
}

// Credential returns a credential for clients in the same process: a token that needs no signature
// per request. It is as secret as the key.
func (e *Engine) Credential() azcore.TokenCredential { return tokenCredential(e.auth.token) }

type tokenCredential string

// GetToken implements azcore.TokenCredential.
func (t tokenCredential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	const lifetime = 100 * 365 * 24 * time.Hour
	return azcore.AccessToken{Token: string(t), ExpiresOn: time.Now().Add(lifetime)}, nil
}

// authenticate verifies the Authorization header of a request. Unlike in the service, an Entra ID token has the rights
// of the key. See verify for resourceType and link.
func (e *Engine) authenticate(q *request, resourceType, link string) error {
	ok := e.auth.verify(q.method, resourceType, link, q.header)
	// SDKs sign operations on a container either way
	if !ok && resourceType == "colls" && len(q.segments) == itemSegments {
		ok = e.auth.verify(q.method, "partitionkey", link, q.header)
	}
	if !ok {
		return apierror.Unauthorized(q.get("Authorization"))
	}
	return nil
}

// verify checks the signature of a request. link is the decoded path of the resource, or of the parent for a feed.
//
// See "Access control in the Azure Cosmos DB SQL API". The age of x-ms-date is not checked: the
// engine may use a fake clock.
func (a *authenticator) verify(method, resourceType, link string, h http.Header) bool {
	token := headerValue(h, "Authorization")
	if strings.Contains(token, "%") {
		decoded, err := url.QueryUnescape(token)
		if err != nil {
			return false
		}
		token = decoded
	}
	kind, rest, ok := strings.Cut(token, "&")
	if !ok {
		return false
	}
	version, signature, ok := strings.Cut(rest, "&")
	if !ok || version != "ver=1.0" {
		return false
	}
	signature, ok = strings.CutPrefix(signature, "sig=")
	if !ok {
		return false
	}
	switch kind {
	case "type=master":
		return a.verifyMaster(method, resourceType, link, headerValue(h, "X-Ms-Date"), signature)
	case "type=aad":
		return hmac.Equal([]byte(signature), []byte(a.token)) || a.verifyEmulatorToken(signature)
	}
	return false
}

func (a *authenticator) verifyMaster(method, resourceType, link, date, signature string) bool {
	var given [sha256.Size]byte
	if base64.StdEncoding.DecodedLen(len(signature)) > len(given)+2 {
		return false
	}
	raw, err := base64.StdEncoding.AppendDecode(given[:0], []byte(signature))
	if err != nil {
		return false
	}
	m := a.macs.Get().(*mac)
	defer a.macs.Put(m)
	t := append(m.text[:0], strings.ToLower(method)...)
	t = append(append(t, '\n'), resourceType...)
	t = append(append(t, '\n'), link...)
	t = append(append(t, '\n'), strings.ToLower(date)...)
	t = append(t, "\n\n"...)
	m.text = t
	m.hash.Reset()
	m.hash.Write(t)
	return hmac.Equal(m.hash.Sum(m.sum[:0]), raw)
}

// verifyEmulatorToken accepts the tokens of SDK test suites for emulators: a JWT whose signature is
// the key itself.
func (a *authenticator) verifyEmulatorToken(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[2], "="))
	if err != nil {
		return false
	}
	if hmac.Equal(raw, a.key) {
		return true
	}
	inner, err := base64.StdEncoding.DecodeString(string(raw))
	return err == nil && hmac.Equal(inner, a.key)
}
