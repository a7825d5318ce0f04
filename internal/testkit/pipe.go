package testkit

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// PipeListener is a net.Listener whose connections are net.Pipes: a write waits for its reader.
type PipeListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

// ListenPipe returns an open listener.
func ListenPipe() *PipeListener {
	l := &PipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Accept implements net.Listener.
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *PipeListener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *PipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Dial opens a connection to the listener; it is a DialContext of http.Transport, and ignores the address.
func (l *PipeListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.accepted <- addressed{server, l.Addr()}:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addressed is a connection from loopback.
type addressed struct {
	net.Conn
	addr net.Addr
}

func (a addressed) LocalAddr() net.Addr  { return a.addr }
func (a addressed) RemoteAddr() net.Addr { return a.addr }

// PipeServer starts a server of h on a Listener, which its Client dials, and closes it when the test
// ends. configure is called before the start and may be nil; a server with EnableHTTP2 speaks TLS.
func PipeServer(t testing.TB, h http.Handler, configure func(*httptest.Server)) *httptest.Server {
	t.Helper()
	l := ListenPipe()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	if configure != nil {
		configure(s)
	}
	if s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	s.Client().Transport.(*http.Transport).DialContext = l.Dial
	return s
}
