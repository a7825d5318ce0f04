package server

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"byline/graph/limit"
)

// boundedListener limits the open connections: to all in total, to each per address, loopback and trusted proxies
// excepted, and to half of all per IPv6 /48 network. It closes a connection over a limit, over plain HTTP after a
// response 503.
type boundedListener struct {
	net.Listener
	all, each int
	plain     bool
	trusted   []netip.Prefix

	mu   sync.Mutex
	open int            // guarded by mu
	by   map[string]int // guarded by mu; by address or network
}

const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 21\r\nConnection: close\r\n\r\n" +
	"too many connections\n"

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

// key returns the key that counts the connections of an address; "" if only the total is limited.
func (l *boundedListener) key(a net.Addr) string {
	peer, err := netip.ParseAddrPort(a.String())
	address := peer.Addr().Unmap()
	if err != nil || slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return ""
	}
	return limit.AddressKey(address)
}

// add counts a connection. It returns false, and does not count it, if a limit is reached.
func (l *boundedListener) add(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	network := limit.Network(key)
	if l.open >= l.all || key != "" && l.by[key] >= l.each || network != "" && l.by[network] >= l.all/2 {
		return false
	}
	l.open++
	for _, k := range []string{key, network} {
		if k != "" {
			l.by[k]++
		}
	}
	return true
}

func (l *boundedListener) remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	for _, k := range []string{key, limit.Network(key)} {
		if k == "" {
			continue
		}
		if l.by[k]--; l.by[k] == 0 {
			delete(l.by, k)
		}
	}
}

// countedConn calls closed when it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
