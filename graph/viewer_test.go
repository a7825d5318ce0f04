package graph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/graph/auth"
	"byline/internal/testkit"
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
		reason string
	}{
		"no header":              {nil, "", 200, ""},
		"an empty header":        {[]string{""}, "", 200, ""},
		"a valid token":          {[]string{"Bearer good"}, "", 200, ""},
		"the scheme in any case": {[]string{"bEaReR good"}, "", 200, ""},
		"several spaces":         {[]string{"Bearer   good"}, "", 200, ""},
		"a tab":                  {[]string{"Bearer\tgood"}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"an invalid token":       {[]string{"Bearer bad"}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"another scheme":         {[]string{"Basic good"}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"no scheme":              {[]string{"good"}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"no token":               {[]string{"Bearer "}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"two headers":            {[]string{"Bearer good", "Bearer good"}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"two headers, one empty": {[]string{"", "Bearer good"}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"a token of MaxToken":    {[]string{"Bearer " + strings.Repeat("a", auth.MaxToken)}, "UNAUTHENTICATED", 401, "INVALID_TOKEN"},
		"a token over MaxToken": {[]string{"Bearer " + strings.Repeat("a", auth.MaxToken+1)}, "UNAUTHENTICATED",
			401, "TOO_LONG"},
		"the verifier is unavailable": {[]string{"Bearer outage"}, "UNAVAILABLE", 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/graphql", strings.NewReader(`{"query":"{__typename}"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", mediaResponse)
			r.Header["Authorization"] = tt.header
			a := send(t, newTestHandler(t, Options{Verifier: verifier}), r)
			if a.code() != tt.code || a.extension("reason") != tt.reason || a.status != tt.status || strings.Contains(a.body, "secret") {
				t.Errorf("status %d: %s", a.status, a.body)
			}
			if tt.code != "" && a.Data != nil {
				t.Errorf("has data: %s", a.body)
			}
		})
	}
}

// Apollo's documented link sends visitors' requests with an empty header: they are anonymous over every transport.
func TestAuthorizationHeader_EmptyIsAnonymous(t *testing.T) {
	_, server := liveBlog(t, Options{})
	empty := http.Header{"Authorization": {""}}
	for name, payload := range map[string]string{
		"WebSocket, no payload": "", "WebSocket": `,"payload":{"Authorization":""}`,
		"WebSocket, a space": `,"payload":{"authorization":" "}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, server, modern, empty)
			p.send(`{"type":"connection_init"%s}`, payload)
			p.expect(`{"type":"connection_ack"}`)
			p.subscribe("subscribe", "1", "{ viewer { username } }")
			p.expect(`{"type":"next","id":"1","payload":{"data":{"viewer":null}}}`)
		})
	}
	for _, accept := range []string{mediaJSON, "text/event-stream"} {
		t.Run(accept, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				server.URL+"/graphql?query="+url.QueryEscape("{viewer{username}}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", accept)
			r.Header["Authorization"] = empty["Authorization"]
			response, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `{"viewer":null}`) {
				t.Errorf("%s: %s %v", response.Status, body, err)
			}
		})
	}
}

// rejections returns the lines about rejected tokens.
func rejections(log *logBuffer) (lines []string) {
	for line := range strings.Lines(log.text()) {
		if strings.Contains(line, `msg="bearer token rejected"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestRejectedTokens_AreLoggedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, metrics := &logBuffer{}, prometheus.NewRegistry()
		verifier := verifierFunc(func(token string) (auth.Viewer, error) {
			switch token {
			case "good":
				return auth.Viewer{Issuer: "i", Subject: "s"}, nil
			case "outage":
				return auth.Viewer{}, &blog.Error{Code: blog.Unavailable, Err: errors.New("down")}
			case "unknown":
				return auth.Viewer{}, errors.New("a verifier without reasons")
			}
			return auth.Viewer{}, &auth.InvalidToken{Reason: auth.Reason(token), Err: errors.New("not " + token)}
		})
		h := newTestHandler(t, Options{Verifier: verifier, Logger: textLogger(log), Metrics: metrics})
		count := func(reason auth.Reason) (n float64) {
			families, err := metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.Metric {
					if f.GetName() == "byline_rejected_tokens_total" && m.Label[0].GetValue() == string(reason) {
						n += m.Counter.GetValue()
					}
				}
			}
			return n
		}
		for range 3 {
			for _, token := range []string{"audience", "issuer", "expired", "good", "outage", "unknown"} {
				post(t, h, token, "{__typename}", nil)
			}
		}
		lines := rejections(log)
		if len(lines) != 3 || !strings.Contains(lines[0], `level=INFO`) ||
			!strings.Contains(lines[0], `reason=audience error="not audience" requestId=`) {
			t.Errorf("want one line each for audience, issuer and malformed: %s", lines)
		}
		for reason, want := range map[auth.Reason]float64{auth.WrongAudience: 3, auth.WrongIssuer: 3, auth.Expired: 3,
			auth.Malformed: 3, auth.UnknownKey: 0} {
			if got := count(reason); got != want {
				t.Errorf("%s: counted %v, want %v", reason, got, want)
			}
		}

		testkit.Advance(time.Minute)
		post(t, h, "audience", "{__typename}", nil)
		if lines = rejections(log)[3:]; len(lines) != 1 || !strings.Contains(lines[0], "suppressed=2") {
			t.Errorf("a minute later: %s", lines)
		}
		post(t, h, strings.Repeat("a", auth.MaxToken+1), "{__typename}", nil)
		if lines = rejections(log)[4:]; len(lines) != 1 || !strings.Contains(lines[0], "reason=malformed") ||
			len(lines[0]) > 500 {
			t.Errorf("a token over MaxToken: %s", lines)
		}
	})
}

func TestRejectedTokens_OverWebSocket(t *testing.T) {
	log := &logBuffer{}
	_, server := liveBlog(t, Options{Logger: textLogger(log)})
	w := dial(t, server, modern, nil)
	w.send(`{"type":"connection_init","payload":{"Authorization":"Bearer nobody"}}`)
	if closed := w.closed(); closed.Code != closeForbidden {
		t.Error(closed)
	}
	if lines := rejections(log); len(lines) != 1 || !strings.Contains(lines[0], "not a demo token") {
		t.Error(lines)
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
			variables := map[string]any{"i": map[string]any{"username": "ada", "title": "t", "content": "c", "id": "a",
				"postId": "a", "contentType": "image/png", "size": 1}}
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
			if a := post(t, h, "demo:ada", query, variables); a.code() == "UNAUTHENTICATED" ||
				a.code() == "GRAPHQL_VALIDATION_FAILED" {
				t.Errorf("ada: %s", a.body)
			}
		})
	}
}

// WebSockets and event streams end when their token expires.
func TestStreams_EndWhenTokenExpires(t *testing.T) {
	_, server := liveBlog(t, Options{Verifier: verifierFunc(func(string) (auth.Viewer, error) {
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
	if event := stream.next(); !strings.HasPrefix(event, `next {"errors":[{"message":"`+messageExpired+`"`) ||
		!strings.Contains(event, `"UNAUTHENTICATED"`) {
		t.Errorf("status %d, event %q", stream.StatusCode, event)
	}
	stream.expect(t, "complete ", "")
}

// A client repeats an operation that fails with UNAUTHENTICATED, so a mutation must not end with it after it has begun.
func TestEventStream_TokenExpiresDuringQuery(t *testing.T) {
	_, server := liveBlog(t, Options{Verifier: verifierFunc(func(string) (auth.Viewer, error) {
		return auth.Viewer{Issuer: "i", Subject: "s", Expires: time.Now()}, nil
	})})
	openEvents(t, server, http.MethodPost, mediaEvents, "good", "{ userByUsername(username: \"grace\") { username } }").
		expect(t, `next {"data":{"userByUsername":{"username":"grace"}}}`, "complete ", "")
}
