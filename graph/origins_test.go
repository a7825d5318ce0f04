package graph

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"byline/graph/playground"
	"byline/internal/testkit"
	"byline/store"
)

const app, stranger = "https://app.example", "https://elsewhere.example"

// fromPage returns the cross-site request that a browser sends for a page of origin.
func fromPage(origin, method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Origin", origin)
	return r
}

func TestOrigins(t *testing.T) {
	testkit.Heavy(t)
	for name, tt := range map[string]struct {
		origins []string
		origin  string
		allowed bool
	}{
		"no origins":                {nil, app, false},
		"the listed origin":         {[]string{app}, app, true},
		"one of several listed":     {[]string{"http://localhost:3000", app}, app, true},
		"another host":              {[]string{app}, stranger, false},
		"another scheme":            {[]string{app}, "http://app.example", false},
		"another port":              {[]string{app}, "https://app.example:8443", false},
		"the listed host as prefix": {[]string{app}, "https://app.example.elsewhere.example", false},
		"a subdomain":               {[]string{app}, "https://x.app.example", false},
		"null origin":               {[]string{app}, "null", false},
		"null origin, no origins":   {nil, "null", false},
		"the listed host as suffix": {[]string{app}, "https://notapp.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, server := liveBlog(t, Options{Origins: tt.origins})
			h := server.Config.Handler

			preflight := fromPage(tt.origin, http.MethodOptions, "/graphql", "")
			preflight.Header.Set("Access-Control-Request-Method", "POST")
			preflight.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
			if a := send(t, h, preflight); (a.header.Get("Access-Control-Allow-Origin") == tt.origin) != tt.allowed ||
				(a.header.Get("Access-Control-Allow-Headers") != "") != tt.allowed {
				t.Errorf("preflight: %d %v", a.status, a.header)
			}
			wrote := send(t, h, fromPage(tt.origin, http.MethodPost, "/graphql", `{"query":"{__typename}"}`))
			if tt.allowed && wrote.status != http.StatusOK ||
				!tt.allowed && (wrote.status != http.StatusForbidden || wrote.code() != "FORBIDDEN") {
				t.Errorf("POST: %d %s", wrote.status, wrote.body)
			}
			read := send(t, h, fromPage(tt.origin, http.MethodGet, "/graphql?query={__typename}", ""))
			if read.status != http.StatusOK {
				t.Errorf("GET: %d %s", read.status, read.body)
			}
			for _, a := range []testResponse{wrote, read} {
				if got := a.header.Get("Access-Control-Allow-Origin"); (got == tt.origin) != tt.allowed ||
					got != "" && !tt.allowed {
					t.Errorf("Access-Control-Allow-Origin %q", got)
				}
				if a.header.Get("Access-Control-Allow-Credentials") != "" {
					t.Error("allows credentials")
				}
				if vary := strings.Join(a.header.Values("Vary"), ", "); len(tt.origins) > 0 &&
					!strings.Contains(vary, "Origin") {
					t.Errorf("Vary: %s", vary)
				}
			}
			if vary := strings.Join(read.header.Values("Vary"), ", "); !strings.Contains(vary, "Authorization") {
				t.Errorf("GET: Vary: %s", vary)
			}
			conn, res, err := websocket.Dial(t.Context(), server.URL+"/graphql", &websocket.DialOptions{
				Subprotocols: []string{modern}, HTTPHeader: http.Header{"Origin": {tt.origin}}})
			if conn != nil {
				defer conn.CloseNow()
			}
			if (err == nil) != tt.allowed || !tt.allowed && (res == nil || res.StatusCode != http.StatusForbidden) {
				t.Errorf("WebSocket: %v %v", res, err)
			}
		})
	}
}

func TestLoopbackOrigins_OnlyLoopbackIsAdmitted(t *testing.T) {
	testkit.Heavy(t)
	for origin, admitted := range map[string]bool{
		"http://localhost:5173":               true,
		"https://localhost:5173":              true,
		"http://localhost":                    true,
		"http://127.0.0.1:5173":               true,
		"http://127.8.9.10:1":                 true,
		"http://[::1]:5173":                   true,
		"null":                                false,
		"file://":                             false,
		"http://localhost.evil.example:5173":  false,
		"http://app.localhost:5173":           false,
		"http://evil-localhost":               false,
		"http://127.0.0.1.evil.example":       false,
		"http://0.0.0.0:5173":                 false,
		"http://192.168.0.7:5173":             false,
		"http://[::]:5173":                    false,
		"http://[fe80::1]:5173":               false,
		"http://localhost:5173/":              false,
		"http://localhost:5173@evil.example":  false,
		"http://u@localhost:5173":             false,
		"chrome-extension://localhost":        false,
		"ws://localhost:5173":                 false,
		"http://localhost:5173, https://evil": false,
	} {
		t.Run(origin, func(t *testing.T) {
			_, server := liveBlog(t, Options{Development: true})
			h := server.Config.Handler

			preflight := fromPage(origin, http.MethodOptions, "/graphql", "")
			preflight.Header.Set("Access-Control-Request-Method", "POST")
			preflight.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
			if a := send(t, h, preflight); (a.header.Get("Access-Control-Allow-Origin") == origin) != admitted ||
				(a.header.Get("Access-Control-Allow-Headers") != "") != admitted {
				t.Errorf("preflight: %d %v", a.status, a.header)
			}
			wrote := send(t, h, fromPage(origin, http.MethodPost, "/graphql", `{"query":"{__typename}"}`))
			if (wrote.status == http.StatusOK) != admitted || !admitted && wrote.code() != "FORBIDDEN" {
				t.Errorf("POST: %d %s", wrote.status, wrote.body)
			}
			read := send(t, h, fromPage(origin, http.MethodGet, "/graphql?query={__typename}", ""))
			for _, a := range []testResponse{wrote, read} {
				if (a.header.Get("Access-Control-Allow-Origin") == origin) != admitted ||
					a.header.Get("Access-Control-Allow-Credentials") != "" ||
					strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "X-Request-Id") != admitted {
					t.Errorf("%v", a.header)
				}
				if !strings.Contains(strings.Join(a.header.Values("Vary"), ", "), "Origin") {
					t.Errorf("Vary: %s", a.header.Values("Vary"))
				}
			}
			conn, res, err := websocket.Dial(t.Context(), server.URL+"/graphql", &websocket.DialOptions{
				Subprotocols: []string{modern}, HTTPHeader: http.Header{"Origin": {origin}}})
			if conn != nil {
				defer conn.CloseNow()
			}
			if (err == nil) != admitted {
				t.Errorf("WebSocket: %v %v", res, err)
			}
		})
	}
}

func TestRefusedOrigin_IsLoggedOnceWithFlag(t *testing.T) {
	var log strings.Builder
	h := newTestHandler(t, Options{Logger: textLogger(&log), Origins: []string{app}, Development: true})
	const line = `level=WARN msg="origin refused" origin=` + stranger + ` admit-with="--cors-origins=` + app + "," +
		stranger + `"`
	upgrade := fromPage(stranger, http.MethodGet, "/graphql", "")
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		upgrade.Header.Set(name, value)
	}
	preflight := fromPage(stranger, http.MethodOptions, "/graphql", "")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	for name, r := range map[string]*http.Request{
		"POST":      fromPage(stranger, http.MethodPost, "/graphql", `{"query":"{__typename}"}`),
		"GET":       fromPage(stranger, http.MethodGet, "/graphql?query={__typename}", ""),
		"preflight": preflight,
		"WebSocket": upgrade,
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			h := newTestHandler(t, Options{Logger: textLogger(&log), Origins: []string{app}, Development: true})
			for range 3 {
				send(t, h, r.Clone(t.Context()))
			}
			if n := strings.Count(log.String(), line); n != 1 || strings.Count(log.String(), "origin refused") != 1 {
				t.Errorf("%d lines %s: %s", n, line, log.String())
			}
		})
	}
	t.Run("admitted and own origins are not logged", func(t *testing.T) {
		log.Reset()
		own := fromPage("http://example.com", http.MethodPost, "/graphql", `{"query":"{__typename}"}`)
		own.Header.Set("Sec-Fetch-Site", "same-origin")
		for _, r := range []*http.Request{own, fromPage(app, http.MethodPost, "/graphql", `{"query":"{__typename}"}`),
			fromPage("http://localhost:5173", http.MethodPost, "/graphql", `{"query":"{__typename}"}`)} {
			if a := send(t, h, r); a.status != http.StatusOK {
				t.Error(a.body)
			}
		}
		if strings.Contains(log.String(), "origin refused") {
			t.Error(log.String())
		}
	})
	t.Run("an origin that no flag admits is logged without a flag", func(t *testing.T) {
		log.Reset()
		send(t, h, fromPage("null", http.MethodPost, "/graphql", `{"query":"{__typename}"}`))
		if !strings.Contains(log.String(), `msg="origin refused" origin=null`+"\n") {
			t.Error(log.String())
		}
	})
	t.Run("many and long origins are bounded", func(t *testing.T) {
		log.Reset()
		h := newTestHandler(t, Options{Logger: textLogger(&log)})
		for i := range 2 * maxRefused {
			origin := fmt.Sprintf("https://%d.example\" level=ERROR \x1b[31m%s", i, strings.Repeat("x", 60_000))
			send(t, h, fromPage(origin, http.MethodGet, "/graphql?query={__typename}", ""))
		}
		if n := strings.Count(log.String(), `msg="origin refused"`); n != maxRefused ||
			len(log.String()) > maxRefused*2*maxOrigin || strings.ContainsRune(log.String(), 0x1b) {
			t.Errorf("%d lines, %d bytes", n, log.Len())
		}
	})
}

func TestOrigins_InvalidAreRefusedAtStart(t *testing.T) {
	for _, origin := range []string{"", "*", "null", "app.example", "https://", "https://app.example/",
		"https://app.example/x", "https://*.example", "https://app.example?x",
		"https://App.example", "https://app.example:443", "http://app.example:80", "ws://app.example",
		"https://u@app.example", "https://[::1]:3000", "https://app.example#x"} {
		if _, err := NewHandler(Options{Store: &store.Store{}, Origins: []string{origin}}); err == nil ||
			!strings.Contains(err.Error(), "is not an origin") {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	h := smallBlog(t, Options{Development: true})
	for _, target := range []string{"/", "/graphql", "/graphql?query={__typename}", "/graphql?query={",
		playground.Prefix + "page.js", playground.Prefix + "playground.js", "/elsewhere"} {
		header := get(t, h, target).Result().Header
		wants := map[string]string{"X-Content-Type-Options": "nosniff"}
		page := !strings.HasPrefix(target, "/graphql")
		if page {
			maps.Copy(wants,
				map[string]string{"Content-Security-Policy": "default-src 'none'",
					"Cross-Origin-Resource-Policy": "same-origin",
					"Cross-Origin-Opener-Policy":   "same-origin", "Referrer-Policy": "no-referrer",
					"X-Frame-Options": "DENY"})
		}
		for name, want := range wants {
			if got := header.Values(name); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%s: %s: %q", target, name, got)
			}
		}
		if policy := header.Get("Content-Security-Policy"); page &&
			!strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "script-src 'unsafe") {
			t.Errorf("%s: %s", target, policy)
		}
	}
}
