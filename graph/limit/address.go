package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientKey returns what limits count a request's address as: see AddressKey. If the headers
// of a proxy disagree, the request counts as the proxy's, even on loopback: clients can make
// them disagree.
func ClientKey(r *http.Request, proxies []netip.Prefix) string {
	a, agreed := clientAddress(r, proxies)
	if key := AddressKey(a); key != "" || agreed {
		return key
	}
	return a.String()
}

// clientAddress returns the address a request comes from, the zero Addr if it is unknown.
// X-Forwarded-For and Forwarded (RFC 7239) are read from right to left, for as long as the
// hops are trusted proxies: further left are entries that a client may have written. If a
// request has both headers, one may be the client's own: unless they agree, the request is
// the proxy's.
func clientAddress(r *http.Request, proxies []netip.Prefix) (_ netip.Addr, agreed bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, true
	}
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	walk := func(hops []string) netip.Addr {
		at := peer.Addr().Unmap()
		for _, hop := range slices.Backward(hops) {
			if !trusted(at) {
				break
			}
			before, ok := parseHop(hop)
			if !ok {
				break
			}
			at = before
		}
		return at
	}
	byCustom, byStandard := hops(r.Header.Values("X-Forwarded-For")), forwarded(r.Header.Values("Forwarded"))
	switch a := walk(byCustom); {
	case len(byStandard) == 0:
		return a, true
	case len(byCustom) == 0 || walk(byStandard) == a:
		return walk(byStandard), true
	}
	return walk(nil), false
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
