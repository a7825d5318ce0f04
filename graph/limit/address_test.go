package limit

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tt := range map[string]struct {
		peer    string
		headers []string
		want    string
	}{
		"no proxy": {"192.0.2.1:1", nil, "192.0.2.1"},
		"header from an untrusted peer -> ignored": {"192.0.2.1:1", []string{"X-Forwarded-For: 198.51.100.7"},
			"192.0.2.1"},
		"proxy":           {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7"}, "198.51.100.7"},
		"proxy over IPv6": {"[fd00::1]:1", []string{"X-Forwarded-For: 2001:db8::7"}, "2001:db8::7"},
		"proxy, IPv4 mapped to IPv6": {"[::ffff:10.0.0.1]:1", []string{"X-Forwarded-For: ::ffff:198.51.100.7"},
			"198.51.100.7"},
		"port": {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7:4711"},
			"198.51.100.7"},
		"port, IPv6": {"10.0.0.1:1", []string{"X-Forwarded-For: [2001:db8::7]:4711"},
			"2001:db8::7"},
		"several proxies": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: 198.51.100.7, 10.0.0.3 ,10.0.0.2"}, "198.51.100.7"},
		"entry of the client -> ignored": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: 203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"header of the client -> ignored": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.7"}, "198.51.100.7"},
		"entry of the client with a proxy's address -> ignored": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: 10.0.0.9, 198.51.100.7"}, "198.51.100.7"},
		"invalid address -> unknown": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: 198.51.100.7, nonsense"}, "unknown"},
		"invalid address before a proxy -> unknown": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: 198.51.100.7, nonsense, 10.0.0.2"}, "unknown"},
		"invalid entry of the client -> ignored": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: nonsense, 198.51.100.7"}, "198.51.100.7"},
		"proxy without a header -> the proxy": {"10.0.0.1:1", nil, "10.0.0.1"},
		"empty header -> unknown": {"10.0.0.1:1", []string{"X-Forwarded-For:"},
			"unknown"},
		"address with a zone -> unknown": {"10.0.0.1:1",
			[]string{"X-Forwarded-For: fe80::1%eth0"}, "unknown"},
		"Forwarded": {"10.0.0.1:1",
			[]string{`Forwarded: for=203.0.113.9, For="[2001:db8::7]:4711";proto=https;by=10.0.0.1`}, "2001:db8::7"},
		"Forwarded without for -> unknown": {"10.0.0.1:1",
			[]string{`Forwarded: for=203.0.113.9, proto=https`}, "unknown"},
		"Forwarded, obfuscated -> unknown": {"10.0.0.1:1", []string{`Forwarded: for=_hidden`},
			"unknown"},
		"both headers, same address": {"10.0.0.1:1",
			[]string{"Forwarded: for=198.51.100.7", "X-Forwarded-For: 203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"both headers, Forwarded of the client -> unknown": {"10.0.0.1:1",
			[]string{"Forwarded: for=203.0.113.9", "X-Forwarded-For: 198.51.100.7"}, "unknown"},
		"both headers, X-Forwarded-For of the client -> unknown": {"10.0.0.1:1",
			[]string{"Forwarded: for=198.51.100.7", "X-Forwarded-For: 203.0.113.9"}, "unknown"},
		"invalid peer address -> zero Addr": {"@", []string{"X-Forwarded-For: 198.51.100.7"}, "invalid IP"},
		"only proxies -> the leftmost":      {"10.0.0.1:1", []string{"X-Forwarded-For: 10.0.0.2"}, "10.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tt.peer
			for _, h := range tt.headers {
				key, value, _ := strings.Cut(h, ":")
				r.Header.Add(key, strings.TrimSpace(value))
			}
			got, known := clientAddress(r, proxies)
			if got := got.String(); known && got != tt.want || known == (tt.want == Unknown) {
				t.Errorf("got %s, known: %t; want %s", got, known, tt.want)
			}
			if key := ClientKey(r, proxies); !known && key != Unknown {
				t.Errorf("key %q, want %q", key, Unknown)
			}
		})
	}
}

func TestAddressKey(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "127.0.0.1": "", "::1": "",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2:ffff::": "2001:db8:1:2::",
		"2001:db8:1:3::": "2001:db8:1:3::",
	} {
		if got := AddressKey(netip.MustParseAddr(address)); got != want {
			t.Errorf("AddressKey(%s) = %q, want %q", address, got, want)
		}
	}
	if got := AddressKey(netip.Addr{}); got != "" {
		t.Errorf("AddressKey of the zero Addr = %q, want none", got)
	}
}
