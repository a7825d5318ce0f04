package graph

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"byline/store"
)

const app, stranger = "https://app.example", "https://elsewhere.example"

// fromPage is a request that a page of an origin makes a browser send.
func fromPage(origin, method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Origin", origin)
	return r
}

func TestOrigins(t *testing.T) {
	for name, tt := range map[string]struct {
		origins []string
		origin  string
		allowed bool
	}{
		"none is named":                       {nil, app, false},
		"the one that is named":               {[]string{app}, app, true},
		"one of several":                      {[]string{"http://localhost:3000", app}, app, true},
		"another":                             {[]string{app}, stranger, false},
		"another scheme":                      {[]string{app}, "http://app.example", false},
		"another port":                        {[]string{app}, "https://app.example:8443", false},
		"a longer name":                       {[]string{app}, "https://app.example.elsewhere.example", false},
		"a name below":                        {[]string{app}, "https://x.app.example", false},
		"a page of no origin":                 {[]string{app}, "null", false},
		"a page of no origin, none is named":  {nil, "null", false},
		"one whose name has the other inside": {[]string{app}, "https://notapp.example", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, server := live(t, Options{Origins: tt.origins})
			h := server.Config.Handler

			preflight := fromPage(tt.origin, http.MethodOptions, "/graphql", "")
			preflight.Header.Set("Access-Control-Request-Method", "POST")
			preflight.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
			if a := send(t, h, preflight); (a.header.Get("Access-Control-Allow-Origin") == tt.origin) != tt.allowed ||
				(a.header.Get("Access-Control-Allow-Headers") != "") != tt.allowed {
				t.Errorf("preflight: %d %v", a.status, a.header)
			}
			wrote := send(t, h, fromPage(tt.origin, http.MethodPost, "/graphql", `{"query":"{__typename}"}`))
			if tt.allowed && wrote.status != http.StatusOK || !tt.allowed && (wrote.status != http.StatusForbidden || wrote.code() != "FORBIDDEN") {
				t.Errorf("POST: %d %s", wrote.status, wrote.body)
			}
			read := send(t, h, fromPage(tt.origin, http.MethodGet, "/graphql?query={__typename}", ""))
			if read.status != http.StatusOK {
				t.Errorf("GET: %d %s", read.status, read.body)
			}
			for _, a := range []answer{wrote, read} {
				if got := a.header.Get("Access-Control-Allow-Origin"); (got == tt.origin) != tt.allowed || got != "" && !tt.allowed {
					t.Errorf("readable by %q", got)
				}
				if a.header.Get("Access-Control-Allow-Credentials") != "" {
					t.Error("with cookies")
				}
				if vary := strings.Join(a.header.Values("Vary"), ", "); !strings.Contains(vary, "Authorization") || len(tt.origins) > 0 && !strings.Contains(vary, "Origin") {
					t.Errorf("Vary: %s", vary)
				}
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

func TestOriginsThatAreNone(t *testing.T) {
	for _, origin := range []string{"", "*", "null", "app.example", "https://", "https://app.example/", "https://app.example/x", "https://*.example", "https://app.example?x",
		"https://App.example", "https://app.example:443", "http://app.example:80", "ws://app.example", "https://u@app.example", "https://[::1]:3000", "https://app.example#x"} {
		if _, err := NewHandler(Options{Store: &store.Store{}, Origins: []string{origin}}); err == nil || !strings.Contains(err.Error(), "is not an origin") {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	h := smallBlog(t, Options{Development: true})
	for _, target := range []string{"/", "/graphql", "/graphql?query={__typename}", "/graphql?query={", startScript, playgroundPath + "/playground.js", "/elsewhere"} {
		header := get(t, h, target).Result().Header
		wants := map[string]string{
			"Content-Security-Policy":      "default-src 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
			"X-Content-Type-Options":       "nosniff",
		}
		if !strings.HasPrefix(target, "/graphql") { // it may be a page
			maps.Copy(wants, map[string]string{"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"})
		}
		for name, want := range wants {
			if got := header.Values(name); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%s: %s: %q", target, name, got)
			}
		}
		if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "script-src 'unsafe") {
			t.Errorf("%s: %s", target, policy)
		}
	}
}
