package graph

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
)

// logBuffer collects a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder // guarded by mu
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// text returns the whole log.
func (l *logBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// failures returns the lines about failed operations.
func (l *logBuffer) failures() (lines []string) {
	for line := range strings.Lines(l.text()) {
		if strings.Contains(line, `msg="operation failed"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

// commentsOnNotes subscribes to the comments on a post and their authors, and returns the events.
func commentsOnNotes(t *testing.T, b *testBlog, server *httptest.Server) <-chan string {
	t.Helper()
	p := dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1",
		b.fill(`subscription { commentAdded(postId: "<post:notes>") { content author { createdAt } } }`))
	opened(t, b, 1)
	events := make(chan string)
	go func() { // read all the time, to respond to pings
		defer close(events)
		for {
			_, raw, err := p.Read(t.Context())
			if err != nil {
				return
			}
			events <- string(raw)
		}
	}()
	return events
}

func TestLog_RepeatedEventFailuresAreSuppressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		b, server := liveInBubble(t, Options{Logger: textLogger(log)})
		events := commentsOnNotes(t, b, server)
		notes := b.postID(t, "notes")
		fail := func(every time.Duration, times int) (lines []string) {
			before := len(log.failures())
			for range times {
				testkit.Advance(every)
				b.comment(t, "ada", notes, "x")
				b.wire.setFail(func(r *http.Request) (*http.Response, error) {
					if strings.Contains(r.URL.Path, "/colls/users/") && r.Header.Get("A-Im") == "" {
						return newResponse(http.StatusServiceUnavailable, "{}"), nil
					}
					return nil, nil
				})
				if got := testkit.Receive(t, events); !strings.Contains(got, "UNAVAILABLE") {
					t.Fatal(got)
				}
				b.wire.setFail(nil)
			}
			return log.failures()[before:]
		}
		if lines := fail(time.Minute, 20); len(lines) != 20 {
			t.Fatalf("20 failures in 20 minutes: %d lines\n%s", len(lines), lines)
		}
		testkit.Advance(time.Minute)
		lines := fail(time.Second, 24)
		if len(lines) < 2 || len(lines) > 4 {
			t.Fatalf("24 failures in 24 seconds: %d lines\n%s", len(lines), lines)
		}
		if last := lines[len(lines)-1]; !regexp.MustCompile(`suppressed=[1-9]`).MatchString(last) {
			t.Errorf("lacks the number of suppressed lines: %s", last)
		}
	})
}

// A throttled event does not use up the retry time of later ones.
func TestSubscription_ThrottledAgainAMinuteLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, server := liveInBubble(t, Options{})
		events := commentsOnNotes(t, b, server)
		notes := b.postID(t, "notes")
		for i := range 3 {
			testkit.Advance(time.Minute)
			b.comment(t, "ada", notes, "x")
			var once atomic.Bool
			throttle := func(r *http.Request) (*http.Response, error) { // of requests, not of the projections
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/colls/users/docs/") ||
					!once.CompareAndSwap(false, true) {
					return nil, nil
				}
				return throttled(500 * time.Millisecond), nil
			}
			b.wire.setFail(throttle)
			if got := testkit.Receive(t, events); strings.Contains(got, "errors") || !once.Load() {
				t.Errorf("event %d: %s", i, got)
			}
		}
	})
}

func TestLog_FailedOperationHasItsCostAndActivityID(t *testing.T) {
	log := &logBuffer{}
	b := smallBlog(t, Options{Logger: textLogger(log)})
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "/colls/users/") {
			response := newResponse(http.StatusServiceUnavailable, "{}")
			response.Header.Set("x-ms-activity-id", "4a0c0ed4-0b6a-4fb7-a1cb-8d0b2b0a7d5e")
			return response, nil
		}
		return nil, nil
	})
	a := post(t, b, "", b.fill(`{ post(id: "<post:moths>") { content author { createdAt } } }`), nil)
	b.wire.setFail(nil)
	if a.code() != "UNAVAILABLE" {
		t.Fatal(a.body)
	}
	lines := log.failures()
	if len(lines) != 1 {
		t.Fatal(lines)
	}
	for _, part := range []string{"op=", "code=UNAVAILABLE", "path=post.author.createdAt", "requestId=", " ru=1 ",
		"activityId=4a0c0ed4-0b6a-4fb7-a1cb-8d0b2b0a7d5e"} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("lacks %s: %s", part, lines[0])
		}
	}
}

// A request to Cosmos DB that was repeated is logged with the id of the request, although that succeeds.
func TestLog_RepeatedOperationHasTheRequestID(t *testing.T) {
	log := &logBuffer{}
	b := smallBlog(t, Options{Logger: textLogger(log)})
	var once atomic.Bool
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.Path, "/colls/posts/docs/") || !once.CompareAndSwap(false, true) {
			return nil, nil
		}
		return throttled(time.Millisecond), nil
	})
	a := post(t, b, "", b.fill(`{ post(id: "<post:moths>") { content } }`), nil)
	b.wire.setFail(nil)
	if a.code() != "" {
		t.Fatal(a.body)
	}
	for _, part := range []string{`msg="repeated operation on Cosmos DB"`, `op="point read"`, "container=posts",
		"tries=2", "status=200", "repeatedAfter=429", "requestId=" + a.header.Get(requestIDHeader)} {
		if !strings.Contains(log.text(), part) {
			t.Errorf("lacks %s: %s", part, log.text())
		}
	}
}
