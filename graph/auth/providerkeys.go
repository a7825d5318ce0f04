package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"byline/graph/refusal"
	"byline/store/blog"
)

// providerKeys caches the public keys of an OpenID Connect provider. It fetches them again for a
// token that none of them has signed, at a limited rate: anyone can make such tokens.
type providerKeys struct {
	issuer *url.URL
	text   string // the issuer as configured
	client *http.Client
	clock  func() time.Time

	mu       sync.Mutex
	keys     []jose.JSONWebKey // guarded by mu; nil until the first successful fetch
	keysURL  string            // guarded by mu; "": to be discovered
	failed   error             // guarded by mu; error of the last fetch
	fetching chan struct{}     // guarded by mu; closed when the fetch in progress ends; nil: none is
	spent    int               // guarded by mu; fetches for unknown keys that count against the limit
	counted  time.Time         // guarded by mu; when spent was last updated
}

var _ oidc.KeySet = (*providerKeys)(nil)

// The rate limit of fetches for unknown keys: a burst, and one more after each interval.
const (
	unknownKeyLookUps  = 5
	unknownKeyInterval = 10 * time.Second
)

const maxProviderResponse = 1 << 20 // bytes

var errNotFetched = errors.New("they have not been fetched yet")

// VerifySignature implements oidc.KeySet. It also returns its error by signatureErrorKey: an
// InvalidToken, or a blog.Error if the provider cannot be reached.
func (k *providerKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.verifySignature(ctx, token)
	if unsigned, ok := ctx.Value(signatureErrorKey{}).(*error); ok {
		*unsigned = err
	}
	return payload, err
}

func (k *providerKeys) verifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, asymmetric)
	if err != nil {
		return nil, &InvalidToken{Reason: Malformed, Err: err}
	}
	if len(signed.Signatures) != 1 {
		return nil, invalid(Malformed, "not one signature")
	}
	header := signed.Signatures[0].Header
	kind, _ := header.ExtraHeaders[jose.HeaderType].(string)
	switch strings.TrimPrefix(strings.ToLower(kind), "application/") { // RFC 7519, section 5.1
	case "", "jwt", "at+jwt":
	default: // such as logout+jwt
		return nil, invalid(Malformed, "not an access token: typ is %q", kind)
	}
	keys, _ := k.current()
	payload, known := verifyWith(keys, signed)
	if payload != nil {
		return payload, nil
	}
	// The key may be new, even if its id is known.
	keys, err = k.refetch(ctx)
	payload, stillKnown := verifyWith(keys, signed)
	switch {
	case payload != nil:
		return payload, nil
	case err != nil && (!known || ctx.Err() != nil):
		return nil, &blog.Error{Code: blog.Unavailable, Op: "verify token", Err: err}
	case !known && !stillKnown && header.KeyID != "":
		return nil, invalid(UnknownKey, "the provider has no key with the id %q for %s", header.KeyID, header.Algorithm)
	}
	return nil, invalid(BadSignature, "the signature is not by a key of the provider")
}

// verifyWith returns the payload if one of the keys has signed it. known reports whether one of
// the keys has the key id of the token.
func verifyWith(keys []jose.JSONWebKey, signed *jose.JSONWebSignature) (payload []byte, known bool) {
	header := signed.Signatures[0].Header
	for _, key := range keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		known = known || header.KeyID != ""
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// refetch fetches the keys for a token that none of the cached ones has signed, unless the rate
// limit is exceeded. It may return cached keys with an error of the provider.
func (k *providerKeys) refetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	due := k.fetching != nil || k.spend()
	k.mu.Unlock()
	if due {
		if err := k.lookUp(ctx); err != nil && ctx.Err() != nil {
			return nil, err
		}
	}
	return k.current()
}

// spend reports whether the rate limit allows another fetch for an unknown key. k.mu is held.
func (k *providerKeys) spend() bool {
	now := k.clock()
	earned := int(now.Sub(k.counted) / unknownKeyInterval)
	if earned >= k.spent {
		k.spent, k.counted = 0, now
	} else if earned > 0 {
		k.spent -= earned
		k.counted = k.counted.Add(time.Duration(earned) * unknownKeyInterval)
	}
	if k.spent >= unknownKeyLookUps {
		return false
	}
	k.spent++
	return true
}

// lookUp fetches the keys from the provider. Concurrent callers share the fetch.
func (k *providerKeys) lookUp(ctx context.Context) error {
	k.mu.Lock()
	if k.fetching == nil {
		k.fetching = make(chan struct{})
		keysURL := k.keysURL
		// Other requests wait for the fetch, so it outlives this one.
		go k.fetch(context.WithoutCancel(ctx), keysURL, k.fetching)
	}
	fetching := k.fetching
	k.mu.Unlock()
	select {
	case <-fetching:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := k.current()
	return err
}

// fetch fetches the keys once. It ends within two providerTimeouts.
func (k *providerKeys) fetch(ctx context.Context, keysURL string, done chan struct{}) {
	var keys []jose.JSONWebKey
	var err error
	if keysURL == "" {
		keysURL, err = k.discover(ctx)
	}
	if err == nil {
		keys, err = k.signatureKeys(ctx, keysURL)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(done)
	k.fetching, k.failed = nil, err
	if err != nil {
		k.keysURL = "" // the provider may have moved them
		return
	}
	k.keysURL, k.keys = keysURL, keys
}

// discover returns the URL of the provider's keys (OpenID Connect Discovery 1.0, section 4).
func (k *providerKeys) discover(ctx context.Context) (string, error) {
	at := strings.TrimSuffix(k.text, "/") + "/.well-known/openid-configuration"
	var metadata struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if err := k.get(ctx, at, &metadata); err != nil {
		return "", err
	}
	if metadata.Issuer != k.text {
		return "", &KeysError{URL: at,
			Cause: fmt.Sprintf("the discovery document has the issuer %q, not %q",
				refusal.Truncate(metadata.Issuer, refusal.MaxMessage), k.text)}
	}
	keysURL, err := url.Parse(metadata.KeysURL)
	if err != nil || !k.safe(keysURL) {
		return "", &KeysError{URL: at, Cause: "the jwks_uri in the discovery document is not an https address"}
	}
	return metadata.KeysURL, nil
}

// safe reports whether a URL is at least as secure as the issuer's.
func (k *providerKeys) safe(at *url.URL) bool {
	return at.Host != "" && (at.Scheme == "https" || at.Scheme == k.issuer.Scheme)
}

var errUnsafeRedirect = errors.New("it redirects to an address that is not safe, or too often")

func (k *providerKeys) checkRedirect(r *http.Request, via []*http.Request) error {
	if !k.safe(r.URL) || len(via) >= 5 {
		return errUnsafeRedirect
	}
	return nil
}

// signatureKeys fetches the signature keys. Keys of other kinds are skipped.
func (k *providerKeys) signatureKeys(ctx context.Context, at string) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, at, &set); err != nil {
		return nil, err
	}
	keys := []jose.JSONWebKey{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// Unknown kinds of keys are skipped (RFC 7517, section 5).
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() && !strings.EqualFold(key.Use, "enc") {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, &KeysError{URL: at, Cause: "there are no public keys for signatures"}
	}
	return keys, nil
}

// get fetches a JSON document.
func (k *providerKeys) get(ctx context.Context, at string, document any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return &KeysError{URL: at, Cause: "the address is not valid", Err: err}
	}
	response, err := k.client.Do(r)
	if err != nil {
		var u *url.Error // repeats the address
		if errors.As(err, &u) {
			err = u.Err
		}
		return &KeysError{URL: at, Cause: connectionCause(err), Err: err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return &KeysError{URL: at,
			Cause: strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode)))}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProviderResponse))
	if err != nil {
		return &KeysError{URL: at, Cause: connectionCause(err), Err: err}
	}
	if err := json.Unmarshal(body, document); err != nil {
		return &KeysError{URL: at, Cause: "the response is not the expected JSON", Err: err}
	}
	return nil
}

// current returns the cached keys, nil before the first successful fetch, and the error of the
// last fetch.
func (k *providerKeys) current() ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys, k.failed
}
