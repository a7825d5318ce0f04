package graph

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientKey returns what limits count a request's address as: see AddressKey. A proxy's
// counts even on this machine if the request is the proxy's because its headers do not
// agree, for clients can see to that.
func clientKey(r *http.Request, proxies []netip.Prefix) string {
	a, agreed := clientAddress(r, proxies)
	if key := AddressKey(a); key != "" || agreed {
		return key
	}
	return a.String()
}

// clientAddress returns the address a request comes from, the zero Addr if that is not
// known. A peer that is one of the proxies is believed what it adds to the right of
// X-Forwarded-For or Forwarded (RFC 7239), and so on to the left while what is there
// are proxies; what clients may have written further left is never read. If both
// headers are there, one of them may be the client's own: unless they agree, the
// request is the proxy's.
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

// forwarded returns what Forwarded headers have as for=, "" where they have none.
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

// AddressKey returns what limits count an address as: of IPv6 the network of one customer,
// who has all of its addresses. This machine's own have no key, for behind them may be
// everybody; nor has an address that is not known.
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
