package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"byline/graph"
	"byline/internal/account"
)

// listenFlags configure the listener, TLS, proxies, origins and client limits.
type listenFlags struct {
	Listen      string   `name:"listen" default:"localhost:8080" env:"BYLINE_LISTEN" help:"Address to listen on."`
	TLSCert     string   `name:"tls-cert" env:"BYLINE_TLS_CERT" placeholder:"FILE" help:"Certificate chain, PEM. A renewed file is used without a restart. Without one, plain HTTP, on loopback or behind a proxy only."`
	TLSKey      string   `name:"tls-key" env:"BYLINE_TLS_KEY" placeholder:"FILE" help:"Private key of the certificate, PEM."`
	BehindProxy networks `name:"behind-proxy" env:"BYLINE_BEHIND_PROXY" placeholder:"CIDR" help:"Networks of the proxies that terminate TLS and send the client's address in X-Forwarded-For or Forwarded."`
	CORSOrigins []string `name:"cors-origins" env:"BYLINE_CORS_ORIGINS" placeholder:"ORIGIN" help:"Origins whose pages may use this server, WebSockets included. The server's own origin is always allowed and, with demo tokens, those of this machine."`

	RequestsPerViewer  *int `name:"requests-per-viewer" env:"BYLINE_REQUESTS_PER_VIEWER" placeholder:"N" help:"Requests a second of a viewer; 0 for no limit. Default: 50, and no limit with demo tokens."`
	RequestsPerAddress *int `name:"requests-per-address" env:"BYLINE_REQUESTS_PER_ADDRESS" placeholder:"N" help:"Requests a second of an address other than loopback; 0 for no limit. Default: 200, and no limit with demo tokens."`
	MaxConnections     int  `name:"max-connections" default:"20000" env:"BYLINE_MAX_CONNECTIONS" help:"Concurrent connections."`

	Drain *time.Duration `name:"drain" env:"BYLINE_DRAIN" placeholder:"DURATION" help:"How long to keep serving after SIGTERM, while /readyz responds 503, so that load balancers send no more requests. Default: 5s, and 0s on loopback."`
}

// drain is the default of --drain beyond loopback: long enough for several probes of a load balancer.
const drain = 5 * time.Second

// Defaults without demo tokens, in requests a second.
const (
	requestsPerViewer  = 50
	requestsPerAddress = 200
)

// networks is a list of networks in CIDR notation, or single addresses, separated by commas.
type networks []netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *networks) UnmarshalText(value []byte) error {
	for _, text := range strings.FieldsFunc(string(value), func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		*n = append(*n, p.Masked())
	}
	return nil
}

// checkAddress checks --listen.
func (c listenFlags) checkAddress() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	return nil
}

// checkListen checks the other flags.
func (c listenFlags) checkListen() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key are needed together")
	case c.TLSCert == "" && c.BehindProxy == nil && !account.Loopback(c.Listen):
		return errors.New("plain HTTP would expose tokens on the network: without --tls-cert and --tls-key, " +
			"--listen must be on loopback, or --behind-proxy name the proxies that terminate TLS")
	case c.MaxConnections < 1:
		return errors.New("--max-connections must be at least 1")
	case c.Drain != nil && *c.Drain < 0:
		return errors.New("--drain cannot be negative")
	}
	for _, rate := range []*int{c.RequestsPerViewer, c.RequestsPerAddress} {
		if rate != nil && *rate < 0 {
			return errors.New("--requests-per-viewer and --requests-per-address cannot be negative")
		}
	}
	return nil
}

// setLimits sets the origins, trusted proxies and request rates of the handler. With demo tokens, which are for
// this machine only, request rates are not limited by default.
func (c listenFlags) setLimits(o *graph.Options, demoTokens bool) {
	o.Origins, o.TrustedProxies = c.CORSOrigins, c.BehindProxy
	if !demoTokens {
		o.RequestsPerViewer, o.RequestsPerAddress = requestsPerViewer, requestsPerAddress
	}
	if c.RequestsPerViewer != nil {
		o.RequestsPerViewer = *c.RequestsPerViewer
	}
	if c.RequestsPerAddress != nil {
		o.RequestsPerAddress = *c.RequestsPerAddress
	}
}

// drainTime returns how long the server keeps serving after it is told to stop.
func (c listenFlags) drainTime() time.Duration {
	switch {
	case c.Drain != nil:
		return *c.Drain
	case account.Loopback(c.Listen):
		return 0
	}
	return drain
}

// scheme is http or https.
func (c listenFlags) scheme() string {
	if c.TLSCert != "" {
		return "https"
	}
	return "http"
}

// strictTransport adds Strict-Transport-Security where TLS is served beyond loopback.
func (c listenFlags) strictTransport(next http.Handler) http.Handler {
	if c.TLSCert == "" || account.Loopback(c.Listen) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		next.ServeHTTP(w, r)
	})
}

// accept serves a listener with a limit of connections, and with TLS if there is a certificate.
func (c listenFlags) accept(server *http.Server, l net.Listener) error {
	l = &boundedListener{Listener: l, all: c.MaxConnections, each: max(c.MaxConnections/10, 1), by: map[string]int{},
		plain: server.TLSConfig == nil, trusted: c.BehindProxy}
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}
