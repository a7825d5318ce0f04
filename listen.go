package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"byline/graph"
)

// listenConfig says who may reach the server, how, and how much they may ask for.
type listenConfig struct {
	Listen      string         `default:"localhost:8080" env:"BYLINE_LISTEN" help:"Address to listen on."`
	TLSCert     string         `name:"tls-cert" env:"BYLINE_TLS_CERT" placeholder:"FILE" help:"Certificate chain, as PEM. A renewed one is picked up. Without one, plain HTTP: on loopback, or behind a proxy."`
	TLSKey      string         `name:"tls-key" env:"BYLINE_TLS_KEY" placeholder:"FILE" help:"The certificate's key, as PEM."`
	BehindProxy []addressRange `env:"BYLINE_BEHIND_PROXY" placeholder:"CIDR" help:"Networks of the proxies in front of this server, which speak TLS with clients and say where these are in X-Forwarded-For or Forwarded."`
	CORSOrigins []string       `name:"cors-origins" env:"BYLINE_CORS_ORIGINS" placeholder:"ORIGIN" help:"Origins whose pages may use this server, WebSockets included. Without, none but its own and, with demo tokens, those of this machine."`

	RequestsPerViewer  *int `env:"BYLINE_REQUESTS_PER_VIEWER" placeholder:"N" help:"Requests a second of somebody who is signed in; 0 for no limit. Default: 50, and no limit with demo tokens."`
	RequestsPerAddress *int `env:"BYLINE_REQUESTS_PER_ADDRESS" placeholder:"N" help:"Requests a second of an address, but loopback; 0 for no limit. Default: 200, and no limit with demo tokens."`
	MaxConnections     int  `default:"20000" env:"BYLINE_MAX_CONNECTIONS" help:"Connections at a time."`
}

// Requests a second where strangers can reach the server.
const (
	requestsPerViewer  = 50
	requestsPerAddress = 200
)

// addressRange is a range of addresses, or one.
type addressRange netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *addressRange) UnmarshalText(text []byte) error {
	p, err := netip.ParsePrefix(string(text))
	if a, aerr := netip.ParseAddr(string(text)); aerr == nil {
		p, err = a.Prefix(a.BitLen())
	}
	if err != nil {
		return fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
	}
	*n = addressRange(p.Masked())
	return nil
}

// checkListen finds what is wrong before anything is opened.
func (c listenConfig) checkListen() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key are needed together")
	case c.TLSCert == "" && c.BehindProxy == nil && !loopback(c.Listen):
		return errors.New("plain HTTP would let anybody on the way read tokens: without --tls-cert and --tls-key, " +
			"--listen must be on loopback, or --behind-proxy name the proxies that speak TLS with clients")
	case c.MaxConnections < 1:
		return errors.New("--max-connections must be at least 1")
	}
	for _, rate := range []*int{c.RequestsPerViewer, c.RequestsPerAddress} {
		if rate != nil && *rate < 0 {
			return errors.New("--requests-per-viewer and --requests-per-address cannot be negative")
		}
	}
	return nil
}

// limit sets what the edge is to know of it.
func (c listenConfig) limit(o *graph.Options, strangers bool) {
	o.Origins, o.LoopbackOrigins, o.ShedLoad = c.CORSOrigins, !strangers, true
	o.TrustedProxies = c.proxies()
	if strangers {
		o.RequestsPerViewer, o.RequestsPerAddress = requestsPerViewer, requestsPerAddress
	}
	if c.RequestsPerViewer != nil {
		o.RequestsPerViewer = *c.RequestsPerViewer
	}
	if c.RequestsPerAddress != nil {
		o.RequestsPerAddress = *c.RequestsPerAddress
	}
}

func (c listenConfig) proxies() (all []netip.Prefix) {
	for _, n := range c.BehindProxy {
		all = append(all, netip.Prefix(n))
	}
	return all
}

// scheme is http or https.
func (c listenConfig) scheme() string {
	if c.TLSCert != "" {
		return "https"
	}
	return "http"
}

// strict has browsers use TLS from then on, where others than this machine's can come.
func (c listenConfig) strict(next http.Handler) http.Handler {
	if c.TLSCert == "" || loopback(c.Listen) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		next.ServeHTTP(w, r)
	})
}

// serve is server.Serve, with TLS if there is a certificate.
func (c listenConfig) serve(server *http.Server, l net.Listener) error {
	l = &boundedListener{Listener: l, all: c.MaxConnections, each: max(c.MaxConnections/10, 1), by: map[string]int{},
		plain: server.TLSConfig == nil, trusted: c.proxies()}
	if server.TLSConfig != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// tls returns what TLS needs, nil for plain HTTP.
func (c listenConfig) tls(log *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	k := &keyPair{cert: c.TLSCert, key: c.TLSKey, log: log}
	if _, err := k.current(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: k.current}, nil
}

// keyPair is a certificate and its key, which may be replaced while they are in use.
type keyPair struct {
	cert, key string // files
	log       *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate // guarded by mu
	of     [2]time.Time     // guarded by mu; when the files that were last tried had changed
}

// current returns what is in the files. Where that is no good, it is what was in them
// before: certificate and key are not replaced at the same moment.
func (k *keyPair) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of, err := k.changed()
	if err == nil && k.loaded != nil && of == k.of {
		return k.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(k.cert, k.key); err == nil {
			if k.loaded != nil {
				k.log.Info("certificate renewed", logExpires, pair.Leaf.NotAfter)
			}
			k.loaded, k.of = &pair, of
			return k.loaded, nil
		}
	}
	if k.loaded == nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	if of != k.of {
		k.log.Warn("certificate not renewed", logError, err, logExpires, k.loaded.Leaf.NotAfter)
		k.of = of
	}
	return k.loaded, nil
}

// changed returns when the files changed.
func (k *keyPair) changed() (of [2]time.Time, err error) {
	for i, name := range []string{k.cert, k.key} {
		info, err := os.Stat(name)
		if err != nil {
			return [2]time.Time{}, err
		}
		of[i] = info.ModTime()
	}
	return of, nil
}

// boundedListener accepts so many connections at a time, a tenth of them from one
// address that is neither loopback nor a proxy's. One more is closed; over plain HTTP
// it is told why.
type boundedListener struct {
	net.Listener
	all, each int
	plain     bool
	trusted   []netip.Prefix

	mu   sync.Mutex
	open int            // guarded by mu
	by   map[string]int // guarded by mu; by address
}

const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n"

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := l.key(c.RemoteAddr())
		if l.add(key) {
			return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.remove(key) })}, nil
		}
		if l.plain { // it fits into the socket's buffer
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(c, tooManyConnections)
		}
		_ = c.Close()
	}
}

// key is what a connection counts as; "" if it does not count by itself.
func (l *boundedListener) key(a net.Addr) string {
	peer, err := netip.ParseAddrPort(a.String())
	address := peer.Addr().Unmap()
	if err != nil || slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return ""
	}
	return graph.AddressKey(address)
}

// add reports whether there may be one more.
func (l *boundedListener) add(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.all || key != "" && l.by[key] >= l.each {
		return false
	}
	l.open++
	l.by[key]++
	return true
}

func (l *boundedListener) remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.by[key]--; l.by[key] == 0 {
		delete(l.by, key)
	}
}

// countedConn tells when it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
