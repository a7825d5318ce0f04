package graph

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/graph/limit"
	"byline/internal/testkit"
)

// sendFrom sends a query with a token, which may be "", from an address.
func sendFrom(t testing.TB, h http.Handler, address, token, accept string) testResponse {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"{ __typename }"}`))
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return send(t, h, r)
}

// checkThrottled checks that a response is THROTTLED and has a retry time, and returns that time.
func checkThrottled(t testing.TB, a testResponse, status int) time.Duration {
	t.Helper()
	if a.code() != "THROTTLED" || a.status != status || a.Data != nil {
		t.Fatalf("status %d, %s", a.status, a.body)
	}
	ms, _ := a.Errors[0].Extensions["retryAfterMs"].(float64)
	header, err := strconv.Atoi(a.header.Get("Retry-After"))
	if ms <= 0 || err != nil || float64(header)*1000 < ms || float64(header-1)*1000 >= ms {
		t.Errorf("retryAfterMs %v, Retry-After %q", ms, a.header.Get("Retry-After"))
	}
	return time.Duration(ms) * time.Millisecond
}

func TestRequestRates(t *testing.T) {
	const v4, v6, proxy = "192.0.2.1:1", "[2001:db8::1]:1", "10.0.0.1:1"
	for name, tt := range map[string]struct {
		options        Options
		address, token string
		others         [][2]string // addresses and tokens that have limits of their own
		same           [][2]string // addresses and tokens that share the limit
	}{
		"of a viewer": {Options{RequestsPerViewer: 2}, v4, "demo:ada",
			[][2]string{{v4, "demo:grace"}, {v4, ""}}, [][2]string{{v6, "demo:ada"}}},
		"of an address": {Options{RequestsPerAddress: 2}, v4, "",
			[][2]string{{"192.0.2.2:1", ""}, {v6, "demo:ada"}, {"127.0.0.1:1", ""}},
			[][2]string{{"192.0.2.1:2", "demo:ada"}}},
		"of an IPv6 network": {Options{RequestsPerAddress: 2}, v6, "",
			[][2]string{{v4, ""}, {"[2001:db8:0:1::]:1", ""}}, [][2]string{{"[2001:db8::ffff]:1", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestHandler(t, tt.options)
				for n := range 2 * limit.BurstSeconds {
					if a := sendFrom(t, h, tt.address, tt.token, mediaResponse); a.status != http.StatusOK {
						t.Fatalf("request %d: %s", n, a.body)
					}
				}
				wait := checkThrottled(t, sendFrom(t, h, tt.address, tt.token, mediaResponse),
					http.StatusTooManyRequests)
				checkThrottled(t, sendFrom(t, h, tt.address, tt.token, mediaJSON), http.StatusOK)
				checkThrottled(t, sendFrom(t, h, tt.address, tt.token, mediaEvents), http.StatusTooManyRequests)
				for _, client := range tt.same {
					checkThrottled(t, sendFrom(t, h, client[0], client[1], mediaResponse), http.StatusTooManyRequests)
				}
				for _, client := range tt.others {
					for n := range 3 {
						if a := sendFrom(t, h, client[0], client[1], mediaResponse); a.status != http.StatusOK {
							t.Errorf("%s is refused request %d: %s", client, n, a.body)
						}
					}
				}
				testkit.Advance(wait)
				if a := sendFrom(t, h, tt.address, tt.token, mediaResponse); a.status != http.StatusOK {
					t.Errorf("after the retry time: %s", a.body)
				}
			})
		})
	}
	t.Run("of a proxy's clients", func(t *testing.T) {
		h := newTestHandler(t,
			Options{RequestsPerAddress: 1, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
		do := func(client string) testResponse {
			r := httptest.NewRequest(http.MethodGet, "/graphql?query={__typename}", nil)
			r.RemoteAddr = proxy
			r.Header.Set("X-Forwarded-For", client)
			return send(t, h, r)
		}
		for n := range limit.BurstSeconds { // the addresses that the client adds itself are ignored
			if a := do(fmt.Sprintf("203.0.113.%d, 198.51.100.7", n)); a.code() != "" {
				t.Fatal(a.body)
			}
		}
		checkThrottled(t, do("198.51.100.7"), http.StatusOK)
		if a := do("198.51.100.8"); a.code() != "" {
			t.Errorf("another client: %s", a.body)
		}
	})
	t.Run("of clients of a proxy on this machine that sends no address", func(t *testing.T) {
		h := newTestHandler(t,
			Options{RequestsPerAddress: 1, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		admitted := 0
		for n := range 3 * limit.BurstSeconds {
			r := httptest.NewRequest(http.MethodGet, "/graphql?query={__typename}", nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.7, not-an-address-%d", n))
			if a := send(t, h, r); a.code() == "" {
				admitted++
			}
		}
		if admitted > limit.BurstSeconds+1 { // one more while it runs
			t.Errorf("%d of %d requests are admitted", admitted, 3*limit.BurstSeconds)
		}
	})
	t.Run("of the /64 networks of one /48", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newTestHandler(t, Options{RequestsPerAddress: 1})
			admitted := 0
			for n := range 3 * limit.PerNetwork * limit.BurstSeconds {
				if a := sendFrom(t, h, fmt.Sprintf("[2001:db8:1:%x::1]:1", n), "",
					mediaResponse); a.status == http.StatusOK {
					admitted++
				}
			}
			if want := limit.PerNetwork * limit.BurstSeconds; admitted != want {
				t.Errorf("%d are admitted, want %d", admitted, want)
			}
			checkThrottled(t, sendFrom(t, h, "[2001:db8:1:ffff::1]:1", "", mediaResponse), http.StatusTooManyRequests)
			for _, other := range []string{"[2001:db8:2::1]:1", "192.0.2.1:1"} {
				if a := sendFrom(t, h, other, "", mediaResponse); a.status != http.StatusOK {
					t.Errorf("%s: %s", other, a.body)
				}
			}
		})
	})
	t.Run("of clients of a proxy on this machine that add a Forwarded header", func(t *testing.T) {
		h := newTestHandler(t,
			Options{RequestsPerAddress: 1, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		do := func(forwarded string) testResponse {
			r := httptest.NewRequest(http.MethodGet, "/graphql?query={__typename}", nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("X-Forwarded-For", "198.51.100.7")
			if forwarded != "" {
				r.Header.Set("Forwarded", forwarded)
			}
			return send(t, h, r)
		}
		for n := range limit.BurstSeconds {
			if a := do(fmt.Sprintf("for=203.0.113.%d", n)); a.code() != "" {
				t.Fatal(a.body)
			}
		}
		checkThrottled(t, do("for=203.0.113.99"), http.StatusOK)
		if a := do(""); a.code() != "" {
			t.Errorf("a client without the header: %s", a.body)
		}
	})
}

// Each operation over WebSocket counts as a request.
func TestRequestRates_WebSocketOperations(t *testing.T) {
	_, server := liveBlog(t, Options{RequestsPerViewer: 1})
	ada := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:ada"}}).init()
	refused := ""
	for n := 0; refused == ""; n++ {
		ada.subscribe("subscribe", fmt.Sprint(n), `{ __typename }`)
		got := ada.receive()
		switch {
		case strings.Contains(got, `"type":"error"`):
			refused = got
		case n > 100*limit.BurstSeconds:
			t.Fatal("never refused")
		default:
			ada.receive() // complete
		}
	}
	if !strings.Contains(refused, "THROTTLED") || !strings.Contains(refused, `"retryAfterMs":`) {
		t.Error(refused)
	}
	began := time.Now()
	for n := range 3 {
		ada.subscribe("subscribe", fmt.Sprint("at once ", n), `{ __typename }`)
	}
	for range 3 {
		if got := ada.receive(); !strings.Contains(got, "THROTTLED") {
			t.Error(got)
		}
	}
	if took := time.Since(began); took < 5*refusedPause/2 {
		t.Errorf("three operations over the limit were refused within %v, without a pause", took)
	}
	grace := dial(t, server, modern, http.Header{"Authorization": {"Bearer demo:grace"}}).init()
	grace.subscribe("subscribe", "1", `{ __typename }`)
	grace.expect(`{"type":"next","id":"1","payload":{"data":{"__typename":"Query"}}}`)
}

func TestRequestRates_Upgrades(t *testing.T) {
	h := newTestHandler(t, Options{RequestsPerAddress: 1})
	for range limit.BurstSeconds {
		sendFrom(t, h, "192.0.2.1:1", "", "")
	}
	r := httptest.NewRequest(http.MethodGet, "/graphql", nil)
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Connection", "Upgrade")
	checkThrottled(t, send(t, h, r), http.StatusTooManyRequests)
}
