package transport

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestOrigins_OtherPaths: a page of an admitted origin can read the response to a request at a wrong path, after a
// preflight that succeeds.
func TestOrigins_OtherPaths(t *testing.T) {
	const app, stranger = "https://app.example", "https://elsewhere.example"
	for name, tt := range map[string]struct {
		origins  *origins
		origin   string
		readable bool
	}{
		"named":              {&origins{named: []string{app}}, app, true},
		"another":            {&origins{named: []string{app}}, stranger, false},
		"no origins":         {&origins{}, app, false},
		"loopback":           {&origins{loopback: true}, "http://localhost:5173", true},
		"loopback, another":  {&origins{loopback: true}, stranger, false},
		"the server's own":   {&origins{loopback: true}, "", false},
		"loopback, not this": {&origins{named: []string{app}}, "http://localhost:5173", false},
	} {
		t.Run(name, func(t *testing.T) {
			pages := tt.origins.sharePages(http.NotFoundHandler())
			for _, method := range []string{http.MethodOptions, http.MethodPost, http.MethodGet} {
				r := httptest.NewRequest(method, "/wrong", nil)
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
				want := http.StatusNotFound
				if method == http.MethodOptions {
					r.Header.Set("Access-Control-Request-Method", "POST")
					r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
					if tt.readable {
						want = http.StatusNoContent
					}
				}
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, r)
				if got := w.Header().Get("Access-Control-Allow-Origin"); (got != "") != tt.readable {
					t.Errorf("%s: Access-Control-Allow-Origin %q", method, got)
				}
				if (tt.readable || method != http.MethodOptions) && w.Code != want {
					t.Errorf("%s: %d, want %d", method, w.Code, want)
				}
			}
		})
	}
}
