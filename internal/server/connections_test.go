package server

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// TestConnections_PerAddress: one address gets at most its share of the connections.
func TestConnections_PerAddress(t *testing.T) {
	l := &boundedListener{all: 20, each: 2, by: map[string]int{}}
	key := func(s string) string { return l.key(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s))) }
	for n := range 3 {
		if ok := l.add(key("192.0.2.1:1")); ok != (n < 2) {
			t.Errorf("connection %d accepted: %t", n, ok)
		}
		if ok := l.add(key("[2001:db8::" + fmt.Sprint(n+1) + "]:1")); ok != (n < 2) {
			t.Errorf("connection %d of a network accepted: %t", n, ok)
		}
	}
	l.trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.128/25")}
	for n := range 16 {
		if !l.add(key([]string{"127.0.0.1:1", "192.0.2.200:1"}[n%2])) {
			t.Errorf("loopback or a proxy is refused connection %d", n)
		}
	}
	if l.add(key("192.0.2.9:1")) {
		t.Error("accepts more than the total")
	}
	l.remove(key("192.0.2.1:1"))
	if !l.add(key("192.0.2.1:1")) {
		t.Error("refused after one is closed")
	}
}

func TestConnections_PerNetwork(t *testing.T) {
	l := &boundedListener{all: 20, each: 2, by: map[string]int{}}
	key := func(n int) string {
		return l.key(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(fmt.Sprintf("[2001:db8:1:%x::1]:1", n))))
	}
	accepted := 0
	for n := range 20 {
		if l.add(key(n)) {
			accepted++
		}
	}
	if accepted != 10 {
		t.Errorf("%d of 20 connections accepted, want 10", accepted)
	}
	l.remove(key(0))
	if !l.add(key(30)) {
		t.Error("refused after one is closed")
	}
}
