package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"byline/graph/auth"
	"byline/internal/account"
)

// authFlags configure how bearer tokens are verified.
type authFlags struct {
	AuthIssuer   string `name:"auth-issuer" env:"BYLINE_AUTH_ISSUER" placeholder:"URL" help:"OpenID Connect issuer of the bearer tokens. Without one, demo tokens, on loopback only."`
	AuthAudience string `name:"auth-audience" env:"BYLINE_AUTH_AUDIENCE" placeholder:"NAME" help:"Audience that the tokens must have."`

	AuthModeratorRole string `name:"auth-moderator-role" env:"BYLINE_AUTH_MODERATOR_ROLE" placeholder:"ROLE" help:"Role that may delete posts, comments and users of others. Without one, there are no moderators."`
	AuthRoleClaim     string `name:"auth-role-claim" default:"roles" env:"BYLINE_AUTH_ROLE_CLAIM" help:"Claim with the roles; a nested one by its path with dots."`
}

// checkAuth checks authFlags.
func (c Config) checkAuth() error {
	switch {
	case (c.AuthIssuer == "") != (c.AuthAudience == ""):
		return errors.New("--auth-issuer and --auth-audience are needed together")
	case c.AuthIssuer == "" && c.AuthModeratorRole != "":
		return errors.New(
			"--auth-moderator-role needs --auth-issuer: without, the tokens of moderators are demo-moderator:<name>")
	}
	if u, err := url.Parse(c.AuthIssuer); err == nil && c.AuthIssuer != "" && u.Scheme != "https" &&
		!(u.Scheme == "http" && account.Loopback(u.Host)) {
		return errors.New(
			"--auth-issuer must be an https address: an attacker who can change the provider's responses can sign in " +
				"as any user")
	}
	return nil
}

// newProvider returns the verifier of the identity provider's tokens; nil without an issuer. It
// makes no request.
func (c authFlags) newProvider(log *slog.Logger) (*auth.OIDC, error) {
	if c.AuthIssuer == "" {
		return nil, nil
	}
	provider, err := auth.NewOIDC(auth.OIDCOptions{Issuer: c.AuthIssuer, Audience: c.AuthAudience,
		ModeratorRole: c.AuthModeratorRole, RoleClaim: c.AuthRoleClaim, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--auth-issuer: %w", err)
	}
	return provider, nil
}

// checkProvider is OK while keys of the provider are known: most tokens can be verified with them,
// and routing requests to another instance would not help.
func checkProvider(known bool, err error) check {
	c := check{Name: checkIdentity, OK: known}
	if err == nil {
		return c
	}
	c.Detail = "the identity provider's keys: " + err.Error()
	var e *auth.KeysError
	if errors.As(err, &e) {
		c.Detail = "the identity provider's keys: " + e.Cause
	}
	if known {
		c.Detail += "; tokens signed with known keys are still accepted"
	}
	return c
}
