package server

import (
	"errors"
	"net"
	"net/http"

	"byline/internal/account"
)

// Without an identity provider, demo tokens are accepted: with them a client can sign in as any user. So they are
// accepted only if the listener, the data and the requests are all local to this machine.

// demoTokens reports whether demo tokens are accepted.
func (c Config) demoTokens() bool {
	return c.AuthIssuer == "" && account.Loopback(c.Listen) && c.Local()
}

var errDemoTokens = errors.New(
	"demo tokens would let any client in: without --auth-issuer and --auth-audience, both --listen and " +
		"--cosmos-endpoint must be on loopback")

// checkDemoTokens refuses flags with which remote clients could use demo tokens.
func (c Config) checkDemoTokens() error {
	switch {
	case c.AuthIssuer != "":
		return nil
	case !c.demoTokens():
		return errDemoTokens
	case c.BehindProxy != nil:
		return errors.New("demo tokens would let any client in: --behind-proxy needs --auth-issuer and --auth-audience")
	}
	return nil
}

// checkListener is checkDemoTokens for the address to which the host name of --listen was resolved.
func (c Config) checkListener(at net.Addr) error {
	if c.demoTokens() && !account.Loopback(at.String()) {
		return errDemoTokens
	}
	return nil
}

// hosts refuses requests with a Host other than loopback if demo tokens are accepted: they come from
// a page that rebinds its DNS name to loopback, or through a proxy that remote clients can reach.
func (c Config) hosts(next http.Handler) http.Handler {
	if !c.demoTokens() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !account.Loopback(r.Host) {
			http.Error(w, "with demo tokens, only requests for localhost are served", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
