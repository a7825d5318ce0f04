package graph

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"byline/graph/auth"
	"byline/store"
	"byline/store/blog"
)

// verifierFunc adapts a function to auth.Verifier.
type verifierFunc func(token string) (auth.Viewer, error)

func (f verifierFunc) Verify(_ context.Context, token string) (auth.Viewer, error) { return f(token) }

func TestAuthorizationHeader(t *testing.T) {
	verifier := verifierFunc(func(token string) (auth.Viewer, error) {
		switch token {
		case "good":
			return auth.Viewer{Issuer: "i", Subject: "s"}, nil
		case "outage":
			return auth.Viewer{}, &blog.Error{Code: blog.Unavailable, Err: errors.New("secret.example is down")}
		default:
			return auth.Viewer{}, errors.New("secret reason")
		}
	})
	for name, tt := range map[string]struct {
		header []string
		code   string
		status int // as application/graphql-response+json
	}{
		"no header":                   {nil, "", 200},
		"a valid token":               {[]string{"Bearer good"}, "", 200},
		"the scheme in any case":      {[]string{"bEaReR good"}, "", 200},
		"an invalid token":            {[]string{"Bearer bad"}, "UNAUTHENTICATED", 401},
		"another scheme":              {[]string{"Basic good"}, "UNAUTHENTICATED", 401},
		"no scheme":                   {[]string{"good"}, "UNAUTHENTICATED", 401},
		"no token":                    {[]string{"Bearer "}, "UNAUTHENTICATED", 401},
		"an empty header":             {[]string{""}, "UNAUTHENTICATED", 401},
		"two headers":                 {[]string{"Bearer good", "Bearer good"}, "UNAUTHENTICATED", 401},
		"a token over MaxToken":       {[]string{"Bearer " + strings.Repeat("a", auth.MaxToken+1)}, "UNAUTHENTICATED", 401},
		"the verifier is unavailable": {[]string{"Bearer outage"}, "UNAVAILABLE", 503},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/graphql", strings.NewReader(`{"query":"{__typename}"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", mediaResponse)
			r.Header["Authorization"] = tt.header
			a := send(t, newTestHandler(t, Options{Verifier: verifier}), r)
			if a.code() != tt.code || a.status != tt.status || strings.Contains(a.body, "secret") {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			if tt.code != "" && a.Data != nil {
				t.Errorf("has data: %s", a.body)
			}
		})
	}
}

func TestVerifier_MissingRefusesAllTokens(t *testing.T) {
	h, err := NewHandler(Options{Store: &store.Store{}})
	if err != nil {
		t.Fatal(err)
	}
	if a := post(t, h, "demo:ada", "{__typename}", nil); a.code() != "UNAUTHENTICATED" {
		t.Error(a.body)
	}
}

// The store panics when it is used, so UNAUTHENTICATED shows that it was not used.
func TestMutations_AnonymousIsUnauthenticated(t *testing.T) {
	h := newTestHandler(t, Options{})
	for _, f := range readSchema(t).Mutation.Fields {
		t.Run(f.Name, func(t *testing.T) {
			input := f.Arguments.ForName("input").Type.Name()
			query := fmt.Sprintf("mutation($i: %s!) { %s(input: $i) { __typename } }", input, f.Name)
			variables := map[string]any{"i": map[string]any{"username": "ada", "title": "t", "content": "c", "id": "a", "postId": "a"}}
			for name := range variables["i"].(map[string]any) {
				if readSchema(t).Types[input].Fields.ForName(name) == nil {
					delete(variables["i"].(map[string]any), name)
				}
			}
			if a := post(t, h, "", query, variables); a.code() != "UNAUTHENTICATED" || a.Data != nil {
				t.Errorf("anonymous: %s", a.body)
			}
			if a := post(t, h, "nope", query, variables); a.code() != "UNAUTHENTICATED" || a.Data != nil {
				t.Errorf("invalid token: %s", a.body)
			}
			if a := post(t, h, "demo:ada", query, variables); a.code() == "UNAUTHENTICATED" || a.code() == "GRAPHQL_VALIDATION_FAILED" {
				t.Errorf("ada: %s", a.body)
			}
		})
	}
}

// WebSockets and event streams end when their token expires.
func TestStreams_EndWhenTokenExpires(t *testing.T) {
	_, server := live(t, Options{Verifier: verifierFunc(func(string) (auth.Viewer, error) {
		return auth.Viewer{Issuer: "i", Subject: "s", Expires: time.Now().Add(300 * time.Millisecond)}, nil
	})})
	w := dial(t, server, modern, nil)
	w.send(`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`)
	w.send(`{"id":"1","type":"subscribe","payload":{"query":"subscription { postPublished { id } }"}}`)
	if closed := w.closed(); closed.Code != closeForbidden || closed.Reason != messageExpired {
		t.Errorf("closed with %d %s", closed.Code, closed.Reason)
	}
	stream := openEvents(t, server, http.MethodPost, mediaEvents, "good", `subscription { postPublished { id } }`)
	late := time.AfterFunc(time.Minute, func() {
		t.Error("the event stream does not end")
		stream.Body.Close()
	})
	defer late.Stop()
	if event := stream.next(); event != "" || stream.StatusCode != http.StatusOK {
		t.Errorf("status %d, event %q", stream.StatusCode, event)
	}
}
