package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"byline/graph/auth"
	"byline/internal/account"
)

// authFlags say whose tokens sign in.
type authFlags struct {
	AuthIssuer   string `env:"BYLINE_AUTH_ISSUER" placeholder:"URL" help:"OpenID Connect issuer of the bearer tokens. Without one, demo tokens, on loopback only."`
	AuthAudience string `env:"BYLINE_AUTH_AUDIENCE" placeholder:"NAME" help:"The audience that the tokens must be for."`

	AuthModeratorRole string `env:"BYLINE_AUTH_MODERATOR_ROLE" placeholder:"ROLE" help:"The role of those who may delete what others wrote. Without one, nobody may."`
	AuthRoleClaim     string `default:"roles" env:"BYLINE_AUTH_ROLE_CLAIM" help:"The claim of the tokens with the roles; one inside others, by their names joined by dots."`
}

var errDemoTokens = errors.New("demo tokens would let anybody in: without --auth-issuer and --auth-audience, both --listen and --cosmos-endpoint must be on loopback")

// checkAuth checks authFlags.
func (c Config) checkAuth() error {
	switch {
	case (c.AuthIssuer == "") != (c.AuthAudience == ""):
		return errors.New("--auth-issuer and --auth-audience are needed together")
	case c.AuthIssuer == "" && c.AuthModeratorRole != "":
		return errors.New("--auth-moderator-role needs --auth-issuer: without, the tokens of moderators are demo-moderator:<name>")
	case c.AuthIssuer == "" && !c.demoTokens():
		return errDemoTokens
	}
	if u, err := url.Parse(c.AuthIssuer); err == nil && c.AuthIssuer != "" && u.Scheme != "https" && !(u.Scheme == "http" && account.Loopback(u.Host)) {
		return errors.New("--auth-issuer must be an https address: who can change the provider's answers can sign in as anybody")
	}
	return nil
}

// newProvider returns the verifier of the identity provider's tokens; nil without an issuer. It
// makes no request.
func (c authFlags) newProvider() (*auth.OIDC, error) {
	if c.AuthIssuer == "" {
		return nil, nil
	}
	provider, err := auth.NewOIDC(auth.OIDCOptions{Issuer: c.AuthIssuer, Audience: c.AuthAudience, ModeratorRole: c.AuthModeratorRole, RoleClaim: c.AuthRoleClaim})
	if err != nil {
		return nil, fmt.Errorf("--auth-issuer: %w", err)
	}
	return provider, nil
}

// hosts refuses, with demo tokens, requests for other hosts than this machine: those of a page
// that rebinds its DNS name to loopback, or of a proxy that lets others in.
func (c Config) hosts(next http.Handler) http.Handler {
	if !c.demoTokens() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !account.Loopback(r.Host) {
			http.Error(w, "with demo tokens, only requests for localhost are answered", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkProvider is OK while keys of the provider are known: most tokens can be verified without
// new ones, and other instances are no better off.
func checkProvider(known bool, err error) check {
	c := check{Name: "identity", OK: known}
	if err != nil {
		c.Detail = "the identity provider does not answer"
		if known {
			c.Detail += "; the keys that are known go on working"
		}
	}
	return c
}
