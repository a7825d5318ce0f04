package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Unknown is what limits count requests as whose client a trusted proxy does not tell: all of them
// together.
const Unknown = "unknown"

// ClientKey returns what limits count a request's address as: see AddressKey. It is Unknown if
// what a trusted proxy has sent is no address, or if its headers disagree: clients can bring about
// either, so that the request must not count as the proxy's, which may be on loopback.
func ClientKey(r *http.Request, proxies []netip.Prefix) string {
	if a, known := clientAddress(r, proxies); known {
		return AddressKey(a)
	}
	return Unknown
}

// clientAddress returns the address a request comes from, the zero Addr if its peer has none.
// X-Forwarded-For and Forwarded (RFC 7239) are read from right to left, for as long as the
// hops are trusted proxies: further left are entries that a client may have written. If a
// request has both headers, one may be the client's own: unless they agree, the client is not
// known.
func clientAddress(r *http.Request, proxies []netip.Prefix) (_ netip.Addr, known bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, true
	}
	if len(proxies) == 0 {
		return peer.Addr().Unmap(), true
	}
	walk := func(hops []string) (netip.Addr, bool) {
		at := peer.Addr().Unmap()
		for _, hop := range slices.Backward(hops) {
			if !slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(at) }) {
				break
			}
			before, ok := parseHop(hop)
			if !ok {
				return netip.Addr{}, false
			}
			at = before
		}
		return at, true
	}
	custom, standard := hops(r.Header.Values("X-Forwarded-For")), forwarded(r.Header.Values("Forwarded"))
	if len(custom) == 0 {
		return walk(standard)
	}
	a, known := walk(custom)
	if len(standard) > 0 {
		b, also := walk(standard)
		known = known && also && a == b
	}
	return a, known
}

// hops splits a header that is a list.
func hops(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return strings.Split(strings.Join(values, ","), ",")
}

// forwarded returns the for= parameters of Forwarded headers, "" where it is missing.
func forwarded(values []string) []string {
	all := hops(values)
	for i, hop := range all {
		all[i] = ""
		for pair := range strings.SplitSeq(hop, ";") {
			if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(name, "for") {
				all[i] = strings.Trim(value, `"`)
			}
		}
	}
	return all
}

// parseHop parses an address, with or without a port and brackets.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if with, err := netip.ParseAddrPort(s); err == nil {
		return with.Addr().Unmap(), true
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap(), err == nil && a.Zone() == ""
}

// AddressKey returns what limits count an address as: an IPv6 address as its /64 network,
// which one customer has all of. It returns "" for loopback, which may stand for every
// client, and for an unknown address.
func AddressKey(a netip.Addr) string {
	if !a.IsValid() || a.IsLoopback() {
		return ""
	}
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr().String()
	}
	return a.String()
}

// Network returns the /48 network of the key of an IPv6 address, "" of another key. A site has up
// to 65,536 networks of /64 in one.
func Network(key string) string {
	a, err := netip.ParseAddr(key)
	if err != nil || a.Is4() {
		return ""
	}
	p, _ := a.Prefix(48)
	return p.String()
}
