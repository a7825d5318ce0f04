package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"byline/graph"
	"byline/internal/account"
)

var errDemoTokens = errors.New("demo tokens would let anybody in: without --auth-issuer and --auth-audience, both --listen and --cosmos-endpoint must be on loopback")

// provider returns who can tell whom a bearer token belongs to; nil where demo tokens
// are good.
func (c Config) provider() (*graph.OIDC, error) {
	switch {
	case (c.AuthIssuer == "") != (c.AuthAudience == ""):
		return nil, errors.New("--auth-issuer and --auth-audience are needed together")
	case c.AuthIssuer == "" && c.AuthModeratorRole != "":
		return nil, errors.New("--auth-moderator-role needs --auth-issuer: without, the tokens of moderators are demo-moderator:<name>")
	case c.AuthIssuer == "" && !c.demoTokens():
		return nil, errDemoTokens
	case c.AuthIssuer == "":
		return nil, nil
	}
	if u, err := url.Parse(c.AuthIssuer); err == nil && u.Scheme != "https" && !(u.Scheme == "http" && account.Loopback(u.Host)) {
		return nil, errors.New("--auth-issuer must be an https address: who can change the provider's answers can sign in as anybody")
	}
	provider, err := graph.NewOIDC(graph.OIDCOptions{Issuer: c.AuthIssuer, Audience: c.AuthAudience, ModeratorRole: c.AuthModeratorRole, RoleClaim: c.AuthRoleClaim})
	if err != nil {
		return nil, fmt.Errorf("--auth-issuer: %w", err)
	}
	return provider, nil
}

// demoTokens reports whether anybody may sign in as anybody: only where nobody
// but this machine's user can reach the server and the data.
func (c Config) demoTokens() bool {
	return c.AuthIssuer == "" && account.Loopback(c.Listen) && c.Local()
}

// hosts refuses, where demo tokens are good, requests for hosts that are not this
// machine: a page of elsewhere whose name leads here all of a sudden, or a proxy that
// lets others in.
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

// checkProvider is well while keys of the provider are known: without new ones most
// requests are answered, and elsewhere it is the same.
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
