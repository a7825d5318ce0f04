package graph

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"byline/graph/auth"
	"byline/internal/oidctest"
	"byline/internal/testkit"
	"byline/store"
)

// testResponse is a GraphQL response as clients read it.
type testResponse struct {
	Data   json.RawMessage `json:"data"`
	Errors []struct {
		Message    string         `json:"message"`
		Path       []any          `json:"path"`
		Extensions map[string]any `json:"extensions"`
	} `json:"errors"`

	status int
	header http.Header
	body   string
}

// code is the code of the first error, "" without one.
func (a testResponse) code() string { return a.extension("code") }

// field is the field of the first error, "" if it names none.
func (a testResponse) field() string { return a.extension("field") }

func (a testResponse) extension(name string) string {
	if len(a.Errors) == 0 {
		return ""
	}
	s, _ := a.Errors[0].Extensions[name].(string)
	return s
}

// post sends an operation as a front end does; token may be "".
func post(t testing.TB, h http.Handler, token, query string, variables map[string]any) testResponse {
	t.Helper()
	return send(t, h, newPost(t, token, query, variables))
}

// newPost returns a request by POST. token may be "".
func newPost(t testing.TB, token, query string, variables map[string]any) *http.Request {
	t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func send(t testing.TB, h http.Handler, r *http.Request) testResponse {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	testkit.LookForSecrets(w.Body.Bytes())
	a := testResponse{status: w.Code, header: w.Result().Header, body: w.Body.String()}
	if strings.Contains(w.Header().Get("Content-Type"), "json") {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("response %q: %v", w.Body, err)
		}
	}
	return a
}

// readResponse reads a response and closes it.
func readResponse(t testing.TB, res *http.Response) testResponse {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	testkit.LookForSecrets(body)
	a := testResponse{status: res.StatusCode, header: res.Header, body: string(body)}
	if strings.Contains(res.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(body, &a); err != nil {
			t.Fatalf("response %q: %v", body, err)
		}
	}
	return a
}

// newTestHandler returns a handler with defaults for tests. The default store panics when it is used, so a test that
// expects another error shows that the store was not used.
func newTestHandler(t testing.TB, o Options) http.Handler {
	t.Helper()
	if o.Store == nil {
		o.Store = &store.Store{}
	}
	if o.Verifier == nil {
		o.Verifier = auth.DemoVerifier()
	}
	if o.Logger == nil {
		o.Logger = testkit.Logger()
	}
	if o.Capacity.Runnable == nil {
		o.Capacity.Runnable = func() int { return 0 } // however busy the machine is
	}
	h, err := NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.MultiWriter(w, testkit.LogWriter),
		&slog.HandlerOptions{Level: slog.LevelDebug}))
}

// verifierOf returns a verifier that accepts the provider's tokens.
func verifierOf(t testing.TB, p *oidctest.Provider) *auth.OIDC {
	t.Helper()
	v, err := auth.NewOIDC(auth.OIDCOptions{Issuer: p.URL, Audience: "byline", ModeratorRole: "moderator"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
