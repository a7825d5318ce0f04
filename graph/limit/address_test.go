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
		"nobody in between":                    {"192.0.2.1:1", nil, "192.0.2.1"},
		"a stranger's word":                    {"192.0.2.1:1", []string{"X-Forwarded-For: 198.51.100.7"}, "192.0.2.1"},
		"a proxy":                              {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7"}, "198.51.100.7"},
		"a proxy over IPv6":                    {"[fd00::1]:1", []string{"X-Forwarded-For: 2001:db8::7"}, "2001:db8::7"},
		"a proxy, mapped into IPv6":            {"[::ffff:10.0.0.1]:1", []string{"X-Forwarded-For: ::ffff:198.51.100.7"}, "198.51.100.7"},
		"a port":                               {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7:4711"}, "198.51.100.7"},
		"a port over IPv6":                     {"10.0.0.1:1", []string{"X-Forwarded-For: [2001:db8::7]:4711"}, "2001:db8::7"},
		"several proxies":                      {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7, 10.0.0.3 ,10.0.0.2"}, "198.51.100.7"},
		"what the client wrote before":         {"10.0.0.1:1", []string{"X-Forwarded-For: 203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"what the client wrote, in its own":    {"10.0.0.1:1", []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.7"}, "198.51.100.7"},
		"a proxy's address as the client's":    {"10.0.0.1:1", []string{"X-Forwarded-For: 10.0.0.9, 198.51.100.7"}, "198.51.100.7"},
		"nonsense":                             {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7, nonsense"}, "unknown"},
		"nonsense, before a proxy":             {"10.0.0.1:1", []string{"X-Forwarded-For: 198.51.100.7, nonsense, 10.0.0.2"}, "unknown"},
		"nonsense, written by the client":      {"10.0.0.1:1", []string{"X-Forwarded-For: nonsense, 198.51.100.7"}, "198.51.100.7"},
		"a proxy that says nothing":            {"10.0.0.1:1", nil, "10.0.0.1"},
		"an empty header":                      {"10.0.0.1:1", []string{"X-Forwarded-For:"}, "unknown"},
		"an address with a zone":               {"10.0.0.1:1", []string{"X-Forwarded-For: fe80::1%eth0"}, "unknown"},
		"Forwarded":                            {"10.0.0.1:1", []string{`Forwarded: for=203.0.113.9, For="[2001:db8::7]:4711";proto=https;by=10.0.0.1`}, "2001:db8::7"},
		"Forwarded, without for":               {"10.0.0.1:1", []string{`Forwarded: for=203.0.113.9, proto=https`}, "unknown"},
		"Forwarded, obfuscated":                {"10.0.0.1:1", []string{`Forwarded: for=_hidden`}, "unknown"},
		"both, which agree":                    {"10.0.0.1:1", []string{"Forwarded: for=198.51.100.7", "X-Forwarded-For: 203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"both, of which one is the client's":   {"10.0.0.1:1", []string{"Forwarded: for=203.0.113.9", "X-Forwarded-For: 198.51.100.7"}, "unknown"},
		"both, of which the other is":          {"10.0.0.1:1", []string{"Forwarded: for=198.51.100.7", "X-Forwarded-For: 203.0.113.9"}, "unknown"},
		"a peer that is no address":            {"@", []string{"X-Forwarded-For: 198.51.100.7"}, "invalid IP"},
		"proxies all the way, from the inside": {"10.0.0.1:1", []string{"X-Forwarded-For: 10.0.0.2"}, "10.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tt.peer
			for _, h := range tt.headers {
				key, value, _ := strings.Cut(h, ":")
				r.Header.Add(key, strings.TrimSpace(value))
			}
			got, known := clientAddress(r, proxies)
			if have := got.String(); known && have != tt.want || known == (tt.want == Unknown) {
				t.Errorf("%s, known %t, want %s", have, known, tt.want)
			}
			if key := ClientKey(r, proxies); !known && key != Unknown {
				t.Errorf("counts as %q", key)
			}
		})
	}
}

func TestAddressKey(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "127.0.0.1": "", "::1": "",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:2:ffff::": "2001:db8:1:2::", "2001:db8:1:3::": "2001:db8:1:3::",
	} {
		if got := AddressKey(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s counts as %q, want %q", address, got, want)
		}
	}
	if got := AddressKey(netip.Addr{}); got != "" {
		t.Errorf("no address counts as %q", got)
	}
}
