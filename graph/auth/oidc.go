package auth

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// OIDCOptions say which tokens are valid. Issuer and Audience are required.
type OIDCOptions struct {
	Issuer   string // exactly as in the iss claim; the discovery document is below this URL
	Audience string // must be in the aud claim

	// ModeratorRole is the role of moderators. Default: there are none.
	ModeratorRole string

	// RoleClaim is the claim that holds the roles: its name or, if it is nested, the names
	// on its path, joined by dots. Its value is a string or a list of strings. Default: "roles".
	RoleClaim string

	// Logger gets a line when Run cannot fetch the provider's keys, and when it can again. Default: discards.
	Logger *slog.Logger

	// Clock returns the time. Default: time.Now.
	Clock func() time.Time
}

// OIDC accepts the tokens that an OpenID Connect provider has signed for an audience.
// It is safe for concurrent use.
type OIDC struct {
	o        OIDCOptions
	keys     *providerKeys
	verifier *oidc.IDTokenVerifier
}

var _ Verifier = (*OIDC)(nil)

const (
	ClockSkew       = time.Minute     // between the provider's clock and this one
	providerTimeout = 5 * time.Second // of one request
	providerRefresh = time.Minute     // between fetches of the provider's keys
	providerRetry   = time.Second     // at least, between fetches from a provider that is down
)

// asymmetric are the algorithms whose verification needs no secret.
var asymmetric = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512,
	jose.ES256, jose.ES384, jose.ES512,
	jose.PS256, jose.PS384, jose.PS512,
	jose.EdDSA,
}

// NewOIDC returns a verifier of the issuer's tokens. It does no I/O: the provider's keys are
// fetched by Run, or for the first token.
func NewOIDC(o OIDCOptions) (*OIDC, error) {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Host == "" || issuer.User != nil || issuer.RawQuery != "" || issuer.Fragment != "" {
		return nil, errors.New("the issuer is not the address of an OpenID Connect provider")
	}
	if isMultiTenant(issuer) {
		return nil, errors.New(
			"common, organizations and consumers issue no tokens: the issuer is that of a tenant, " +
				"https://login.microsoftonline.com/<tenant id>/v2.0")
	}
	if o.Audience == "" {
		return nil, errors.New("the audience is missing")
	}
	if o.RoleClaim == "" {
		o.RoleClaim = "roles"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	keys := &providerKeys{issuer: issuer, text: o.Issuer, clock: o.Clock,
		client: &http.Client{Timeout: providerTimeout}}
	keys.client.CheckRedirect = keys.checkRedirect
	algorithms := make([]string, len(asymmetric))
	for i, a := range asymmetric {
		algorithms[i] = string(a)
	}
	return &OIDC{o: o, keys: keys, verifier: oidc.NewVerifier(o.Issuer, keys, &oidc.Config{
		ClientID: o.Audience, SupportedSigningAlgs: algorithms, SkipExpiryCheck: true, // done here, with a leeway
	})}, nil
}

// isMultiTenant reports whether an issuer is an authority of Entra ID for several tenants. Their tokens, and their
// discovery documents, have the issuer of a tenant, or a placeholder for it.
func isMultiTenant(issuer *url.URL) bool {
	host, tenant := strings.ToLower(issuer.Hostname()), strings.Split(strings.ToLower(issuer.Path)+"/", "/")[1]
	return (host == "login.microsoftonline.com" || host == "login.microsoftonline.us") &&
		slices.Contains([]string{"common", "organizations", "consumers"}, tenant)
}

// Run keeps the provider's keys up to date until ctx ends: keys that it no longer publishes
// become invalid. While the provider is down, the cached keys stay valid. It logs outages.
func (v *OIDC) Run(ctx context.Context) error {
	outages := outageLog{log: v.o.Logger}
	for fetched := (time.Time{}); ; {
		if _, err := v.keys.current(); err != nil || time.Since(fetched) >= providerRefresh {
			fetched = time.Now()
			_ = v.keys.lookUp(ctx) // current returns the error
		}
		if keys, err := v.keys.current(); ctx.Err() == nil {
			outages.observe(keys != nil, err)
		}
		select {
		case <-time.After(providerRetry + rand.N(providerRetry)):
		case <-ctx.Done():
			return nil
		}
	}
}

// Ready returns why the last fetch of the provider's keys failed (a KeysError), nil if it succeeded. known
// reports whether keys are cached, with which tokens are still verified.
func (v *OIDC) Ready() (known bool, err error) {
	keys, err := v.keys.current()
	if keys == nil && err == nil {
		err = errNotFetched
	}
	return keys != nil, err
}

// Verify implements Verifier.
func (v *OIDC) Verify(ctx context.Context, token string) (Viewer, error) {
	var unsigned error
	verified, err := v.verifier.Verify(context.WithValue(ctx, signatureErrorKey{}, &unsigned), token)
	if unsigned != nil {
		return Viewer{}, unsigned
	}
	if err != nil {
		return Viewer{}, invalidClaims(err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return Viewer{}, invalidClaims(err)
	}
	for name := range claims {
		for _, exact := range []string{"iss", "sub", "aud", "exp"} {
			if name != exact && strings.EqualFold(name, exact) { // the verifier may have read it instead
				return Viewer{}, invalid(BadClaims, "the token has a claim %q, which is not %s", name, exact)
			}
		}
	}
	now := v.o.Clock()
	expires := verified.Expiry.Add(ClockSkew)
	_, hasExpiry := claims["exp"].(float64)
	notBefore, hasNotBefore := claims["nbf"].(float64)
	switch {
	case !hasExpiry || claims["nbf"] != nil && !hasNotBefore:
		return Viewer{}, invalid(BadClaims, "exp is missing, or exp or nbf is not a number")
	case !now.Before(expires):
		return Viewer{}, invalid(Expired, "the token expired at %s", verified.Expiry.UTC())
	case notBefore > float64(now.Add(ClockSkew).Unix()):
		from := time.Unix(int64(notBefore), 0).UTC()
		return Viewer{}, invalid(NotYetValid, "the token is valid from %s on, and it is %s", from, now.UTC())
	case verified.Subject == "":
		return Viewer{}, invalid(BadClaims, "the token has no subject")
	}
	// The issuer as configured: some providers have two spellings of theirs.
	return Viewer{Issuer: v.o.Issuer, Subject: verified.Subject, Moderator: v.moderates(claims), Expires: expires}, nil
}

// moderates reports whether the claims have the moderator role.
func (v *OIDC) moderates(claims map[string]any) bool {
	if v.o.ModeratorRole == "" {
		return false
	}
	switch roles := claimAt(claims, v.o.RoleClaim).(type) {
	case string:
		return roles == v.o.ModeratorRole
	case []any:
		return slices.Contains(roles, any(v.o.ModeratorRole))
	}
	return false
}

// claimAt returns the claim with a name, or else the nested claim whose path is the name, split at
// dots; nil if it is missing. A name that is a URL has dots, too, so the whole name takes precedence.
func claimAt(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	var at any = claims
	for step := range strings.SplitSeq(name, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[step]
	}
	return at
}

// signatureErrorKey is the context key of a *error in which providerKeys returns its error: the
// verifier in between converts errors to text.
type signatureErrorKey struct{}
