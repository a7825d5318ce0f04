package limit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Unknown is the key of requests whose client address cannot be determined from a trusted proxy's
// headers. They are all limited together.
const Unknown = "unknown"

// ClientKey returns the key by which a request's client address is limited: see AddressKey. It is
// Unknown if a trusted proxy sent an invalid address, or if its headers disagree. Clients can cause
// both, so the request must not count as the proxy's own, which may be on loopback.
func ClientKey(r *http.Request, proxies []netip.Prefix) string {
	if a, known := clientAddress(r, proxies); known {
		return AddressKey(a)
	}
	return Unknown
}

// clientAddress returns the address of a request's client, the zero Addr if the peer has none.
// X-Forwarded-For and Forwarded (RFC 7239) are read from right to left, as long as the hops
// are trusted proxies: entries further left may be the client's own. If a request has both
// headers, the client may have sent one of them: unless they agree, the address is not known.
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

// hops splits the values of a list header.
func hops(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return strings.Split(strings.Join(values, ","), ",")
}

// forwarded returns the for= parameter of each hop in Forwarded headers, "" if it is missing.
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

// AddressKey returns the key by which an address is limited: an IPv6 address by its /64 network,
// which usually belongs to one customer. It returns "" for a loopback address, from which all clients
// may come, and for the zero Addr.
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

// Network returns the /48 network of the key of an IPv6 address, "" for other keys. A site may have
// all of a /48, which has 65,536 networks of /64.
func Network(key string) string {
	a, err := netip.ParseAddr(key)
	if err != nil || a.Is4() {
		return ""
	}
	p, _ := a.Prefix(48)
	return p.String()
}
