package graph

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
)

// events is an event stream as a client reads it.
type events struct {
	*http.Response
	lines *bufio.Scanner
}

func openEvents(t testing.TB, server *httptest.Server, method, accept, token, query string) *events {
	t.Helper()
	target, body := server.URL+"/graphql", strings.NewReader(string(appendJSON(nil, map[string]string{"query": query})))
	if method == http.MethodGet {
		target += "?query=" + url.QueryEscape(query)
		body = strings.NewReader("")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return &events{res, bufio.NewScanner(res.Body)}
}

// next returns the next event as "name data"; "" at the end, or after a minute.
func (e *events) next() string {
	late := time.AfterFunc(time.Minute, func() { e.Body.Close() })
	defer late.Stop()
	name := ""
	for e.lines.Scan() {
		field, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			return name + " " + value
		}
	}
	return ""
}

// withoutSession removes the session token from a message.
func withoutSession(message string) string { return sessionToken.ReplaceAllString(message, "") }

var sessionToken = regexp.MustCompile(`"extensions":\{"session":"[\w-]+"\},`)

func (e *events) expect(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := withoutSession(e.next()); got != w {
			t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func TestEventStream_Subscription(t *testing.T) {
	b, server := liveBlog(t, Options{})
	e := openEvents(t, server, "POST", "text/event-stream", "",
		b.fill(`subscription { commentAdded(postId: "<post:notes>") { content } }`))
	if h := e.Header; e.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream; charset=utf-8" ||
		h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%s %v", e.Status, h)
	}
	opened(t, b, 1)
	b.comment(t, "ada", b.postID(t, "notes"), "one")
	b.comment(t, "ada", b.postID(t, "notes"), "two\nlines")
	e.expect(t, `next {"data":{"commentAdded":{"content":"one"}}}`,
		`next {"data":{"commentAdded":{"content":"two\nlines"}}}`)
	if err := b.store.DeletePost(t.Context(), subjectID("ada"), b.postID(t, "notes")); err != nil {
		t.Fatal(err)
	}
	e.expect(t, "complete ", "")
	opened(t, b, 0)
}

func TestEventStream_QueriesAndMutations(t *testing.T) {
	b, server := liveBlog(t, Options{})
	both := "text/event-stream, application/json"
	openEvents(t, server, "POST", both, "demo:ada", "{ viewer { username } }").
		expect(t, `next {"data":{"viewer":{"username":"ada"}}}`, "complete ", "")
	openEvents(t, server, "GET", both, "", "{ __typename }").
		expect(t, `next {"data":{"__typename":"Query"}}`, "complete ", "")
	e := openEvents(t, server, "GET", both, "", "subscription { postPublished { title } }")
	opened(t, b, 1)
	b.post(t, "ada", "News", "Something.")
	e.expect(t, `next {"data":{"postPublished":{"title":"News"}}}`)
	e.Body.Close()
	opened(t, b, 0) // the stream ends with its client
	openEvents(t, server, "POST", both, "demo:ada",
		b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`)).
		expect(t, `next {"data":{"likePost":{"post":{"likeCount":1}}}}`, "complete ", "")
}

func TestEventStream_Refusals(t *testing.T) {
	b, server := liveBlog(t, Options{})
	const accept = "text/event-stream"
	for name, tt := range map[string]struct{ method, token, query, code string }{
		"a document that does not parse": {"POST", "", "subscription {", "GRAPHQL_PARSE_FAILED"},
		"an invalid document":            {"POST", "", "{ nothing }", "GRAPHQL_VALIDATION_FAILED"},
		"a post that does not exist": {"POST", "",
			`subscription { postChanged(id: "` + postGlobalID("nothing") + `") { id } }`, "NOT_FOUND"},
		"an anonymous mutation": {"POST", "",
			b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { id } } }`), "UNAUTHENTICATED"},
	} {
		t.Run(name, func(t *testing.T) {
			e := openEvents(t, server, tt.method, accept, tt.token, tt.query)
			if got := e.next(); e.StatusCode != 200 || !strings.HasPrefix(got, `next {"errors":[{`) ||
				!strings.Contains(got, `"`+tt.code+`"`) {
				t.Errorf("%s: %s", e.Status, got)
			}
			e.expect(t, "complete ", "")
		})
	}
	for name, tt := range map[string]struct {
		method, token, query string
		status               int
	}{
		"an invalid token": {"POST", "nobody", "{__typename}", 401},
		"no query":         {"POST", "", "", 400},
		"PUT":              {"PUT", "", "{__typename}", 405},
		"a mutation by GET": {"GET", "demo:ada",
			b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { id } } }`), 405},
	} {
		t.Run(name, func(t *testing.T) {
			e := openEvents(t, server, tt.method, accept, tt.token, tt.query)
			if e.StatusCode != tt.status || e.Header.Get("Content-Type") != mediaResponse+"; charset=utf-8" ||
				!e.lines.Scan() || !strings.HasPrefix(e.lines.Text(), `{"errors":[{`) {
				t.Errorf("%s %v %s", e.Status, e.Header, e.lines.Text())
			}
		})
	}
}

func TestSubscription_OverPlainHTTPIsRefused(t *testing.T) {
	b := smallBlog(t, Options{})
	a := post(t, b, "", "subscription { postPublished { id } }", nil)
	if a.status != http.StatusNotAcceptable || a.code() != "BAD_USER_INPUT" {
		t.Error(a.body)
	}
}

// Streams last longer than the server's time limits for requests. Over HTTP/2 a deadline ends a stream even if nothing
// is written to it.
func TestEventStream_OutlivesRequestTimeouts(t *testing.T) {
	for _, protocol := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", protocol), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := smallBlogInBubble(t, Options{})
				project(t, b)
				server := testkit.PipeServer(t, b, func(s *httptest.Server) {
					s.EnableHTTP2 = protocol == 2
					s.Config.ReadTimeout, s.Config.WriteTimeout = writeTimeout, writeTimeout
				})
				e := openEvents(t, server, "POST", "text/event-stream", "",
					b.fill(`subscription { commentAdded(postId: "<post:notes>") { content } }`))
				defer e.Body.Close()
				if e.ProtoMajor != protocol {
					t.Fatal(e.Proto)
				}
				opened(t, b, 1)
				for _, content := range []string{"late", "later"} {
					testkit.Advance(writeTimeout + time.Second)
					b.comment(t, "ada", b.postID(t, "notes"), content)
					e.expect(t, `next {"data":{"commentAdded":{"content":"`+content+`"}}}`)
				}
			})
		})
	}
}

func TestEventStream_EndsWhenServerStops(t *testing.T) {
	streams, stop := context.WithCancel(t.Context())
	b := smallBlog(t, Options{Streams: streams})
	project(t, b)
	server := httptest.NewServer(b)
	defer server.Close()
	e := openEvents(t, server, "POST", "text/event-stream", "", "subscription { postPublished { id } }")
	opened(t, b, 1)
	stop()
	e.expect(t, "") // without complete, so that the client reconnects
	opened(t, b, 0)
}
