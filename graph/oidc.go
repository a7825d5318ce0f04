package graph

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"byline/store"
)

// OIDCVerifier accepts tokens that an OpenID Connect provider signed for an
// audience, with an asymmetric algorithm. The provider is looked up when the first
// token comes, and again after a failure; while it cannot be reached, tokens are
// answered with Unavailable.
func OIDCVerifier(issuer, audience string) Verifier {
	return &oidcVerifier{issuer: issuer, audience: audience, client: &http.Client{Timeout: providerTimeout}, retry: providerRetry}
}

const (
	providerTimeout = 10 * time.Second
	providerRetry   = 2 * time.Second // between attempts at reaching a provider that is down
)

// asymmetric are the algorithms whose verification needs no secret.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512,
	oidc.ES256, oidc.ES384, oidc.ES512,
	oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.EdDSA,
}

type oidcVerifier struct {
	issuer, audience string
	client           *http.Client
	retry            time.Duration

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // guarded by mu; nil until the provider was found
	looking  chan struct{}         // guarded by mu; closed when the look-up under way is over
	failed   error                 // guarded by mu; why the last look-up failed
	failedAt time.Time             // guarded by mu
}

func (v *oidcVerifier) Verify(ctx context.Context, token string) (Viewer, error) {
	verifier, err := v.discovered(ctx)
	if err != nil {
		return Viewer{}, providerDown(err)
	}
	var outage error
	claims, err := verifier.Verify(context.WithValue(ctx, outageKey{}, &outage), token)
	switch {
	case outage != nil:
		return Viewer{}, providerDown(outage)
	case err != nil:
		return Viewer{}, err
	case claims.Subject == "":
		return Viewer{}, errors.New("the token has no subject")
	}
	return Viewer{Issuer: claims.Issuer, Subject: claims.Subject}, nil
}

func providerDown(err error) error {
	return &store.Error{Code: store.Unavailable, Op: "verify token", Err: err}
}

// discovered returns the verifier of the provider. Callers that come while the
// provider is being looked up wait for that one look-up; callers that come shortly
// after one failed share its error.
func (v *oidcVerifier) discovered(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	v.mu.Lock()
	for v.verifier == nil && v.looking != nil {
		looking := v.looking
		v.mu.Unlock()
		select {
		case <-looking:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		v.mu.Lock()
	}
	if v.verifier != nil || (v.failed != nil && time.Since(v.failedAt) < v.retry) {
		defer v.mu.Unlock()
		return v.verifier, v.failed
	}
	looking := make(chan struct{})
	v.looking = looking
	v.mu.Unlock()

	// Others wait for this look-up, so it outlives the request that happened to be first.
	verifier, err := v.discover(oidc.ClientContext(context.WithoutCancel(ctx), v.client))

	v.mu.Lock()
	defer v.mu.Unlock()
	v.verifier, v.failed, v.failedAt, v.looking = verifier, err, time.Now(), nil
	close(looking)
	return verifier, err
}

func (v *oidcVerifier) discover(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	provider, err := oidc.NewProvider(ctx, v.issuer)
	if err != nil {
		return nil, err
	}
	var metadata struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, err
	}
	// The key set keeps the context for its client alone.
	return oidc.NewVerifier(v.issuer, keySet{oidc.NewRemoteKeySet(ctx, metadata.KeysURL)},
		&oidc.Config{ClientID: v.audience, SupportedSigningAlgs: asymmetric}), nil
}

// outageKey is the context key of a *error where keySet leaves the reason why it
// could not get the provider's keys. The verifier in between flattens errors to text.
type outageKey struct{}

type keySet struct{ remote *oidc.RemoteKeySet }

func (k keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, jwt)
	// A signature that does not match is an error of its own; keys that could not be
	// fetched wrap the reason.
	if reason := errors.Unwrap(err); reason != nil {
		if outage, ok := ctx.Value(outageKey{}).(*error); ok {
			*outage = reason
		}
	}
	return payload, err
}
