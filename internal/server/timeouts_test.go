package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/account"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// served is a gateway that serves in memory, in a synctest bubble.
type served struct {
	t    testing.TB
	l    *testkit.PipeListener
	log  bytes.Buffer // to be read when stop has returned
	stop func() error // ends the context of serve, and returns its error
}

func serveInBubble(t testing.TB) *served {
	t.Helper()
	s := &served{t: t, l: testkit.ListenPipe()}
	metrics := prometheus.NewRegistry()
	g := &gateway{listener: s.l, log: slog.New(slog.NewTextHandler(io.MultiWriter(&s.log, testkit.LogWriter), nil))}
	g.Listen, g.MaxConnections, g.RUPerRequest = "localhost:0", 1000, 400
	g.account = &account.Account{Account: enginetest.Open(t, emulator.Options{}, cosmos.Options{Metrics: metrics}),
		Metrics: metrics}
	var err error
	if g.blog, err = store.New(g.account.Account, store.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.blog.Provision(t.Context()), g.openHandler(t.Context())); err != nil {
		t.Fatal(err)
	}
	g.health = newHealth(g.blog, g.Embedded(), metrics, g.log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.serve(ctx) }()
	s.stop = func() error { cancel(); return <-done }
	t.Cleanup(func() {
		if cancel(); g.close() != nil {
			t.Error("close")
		}
	})
	return s
}

// dial opens a connection and sends text.
func (s *served) dial(text string) net.Conn {
	s.t.Helper()
	c, err := s.l.Dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// sendAsAda sends an operation as ada, on a connection of its own, and returns the response.
func (s *served) sendAsAda(query string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "http://localhost/graphql", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer demo:ada")
	response, err := (&http.Client{Transport: &http.Transport{DialContext: s.l.Dial, DisableKeepAlives: true}}).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || strings.Contains(string(text), `"errors"`) {
		s.t.Fatalf("%s: %v", text, err)
	}
	return string(text)
}

// checkServing checks that other clients are served.
func (s *served) checkServing() {
	s.t.Helper()
	if got := s.sendAsAda(`{ viewer { username } }`); !strings.Contains(got, `"username":"ada"`) {
		s.t.Errorf("another client gets %s", got)
	}
}

const createAda = `mutation { createUser(input: {username: "ada"}) { user { id } } }`

// readUntilClosed reads a connection until the server closes it; if it never does, synctest reports a deadlock.
func readUntilClosed(t testing.TB, c net.Conn) string {
	t.Helper()
	rest, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(rest)
}

// TestShutdown_GracePeriodEnds: requests that are still active are aborted, which is not an error.
func TestShutdown_GracePeriodEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		c := s.dial(
			"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
				"2\r\nExpect: 100-continue\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(line, err)
		}
		began := time.Now()
		if err := s.stop(); err != nil ||
			!strings.Contains(s.log.String(), `msg="requests aborted after the grace period"`) {
			t.Errorf("%v: %s", err, &s.log)
		}
		if took := time.Since(began); took < shutdownTimeout || took > shutdownTimeout+time.Second {
			t.Errorf("the shutdown took %v, want about %v", took, shutdownTimeout)
		}
		readUntilClosed(t, c)
	})
}

// TestSlowBodies opens connections that send an endless body, a byte at a time. They get a response
// 408 and are closed; other clients are served meanwhile.
func TestSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.sendAsAda(createAda)
		const slow = 50
		began, done := time.Now(), make(chan string, slow)
		var conns []net.Conn
		var clients sync.WaitGroup
		defer clients.Wait()
		for range slow {
			c := s.dial(
				"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
					"1000000\r\n\r\n{")
			conns = append(conns, c)
			clients.Go(func() { // until the server closes the connection
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for {
					if _, err := io.WriteString(c, " "); err != nil {
						return
					}
					<-tick.C
				}
			})
			go func() { done <- readUntilClosed(t, c) }()
		}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for left := slow; left > 0; {
			select {
			case response := <-done:
				left--
				if !strings.HasPrefix(response, "HTTP/1.1 408 ") {
					t.Errorf("closed after %.300q", response)
				}
			case <-tick.C:
				s.checkServing()
				if time.Since(began) > 2*readTimeout {
					for _, c := range conns {
						c.Close()
					}
					t.Fatalf("%d connections are still open", left)
				}
			}
		}
		if took := time.Since(began); took < readTimeout || took > readTimeout+5*time.Second {
			t.Errorf("closed after %v", took)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowClients: the server closes a connection whose client is slow to send a header or the next
// request, or to read a response. Other clients are served meanwhile.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveInBubble(t)
		s.sendAsAda(createAda)
		created := s.sendAsAda(
			fmt.Sprintf(`mutation { createPost(input: {title: "long", content: %q}) { post { id } } }`,
				strings.Repeat("\U0001F40C", 100_000)))
		_, id, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(created), `"}}}}`), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		var same strings.Builder
		for n := range 60 {
			fmt.Fprintf(&same, "a%d: content ", n)
		}
		query, err := json.Marshal(map[string]any{"query": fmt.Sprintf(`{ post(id: %q) { %s } }`, id, same.String())})
		if err != nil {
			t.Fatal(err)
		}
		long := fmt.Sprintf(
			"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
				"%d\r\nConnection: close\r\n\r\n%s", len(query), query)
		if n := len(readUntilClosed(t, s.dial(long))); n < 20_000_000 {
			t.Fatalf("the long response has %d bytes", n)
		}

		for name, tt := range map[string]struct {
			text  string
			after time.Duration
		}{
			"header": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", readHeaderTimeout},
			"idle":   {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", idleTimeout},
		} {
			began := time.Now()
			c := s.dial(tt.text)
			s.checkServing()
			response := readUntilClosed(t, c)
			if took := time.Since(began); took < tt.after || took > tt.after+5*time.Second {
				t.Errorf("%s: closed after %v: %s", name, took, response)
			}
			if name == "idle" != strings.HasPrefix(response, "HTTP/1.1 200 ") {
				t.Errorf("%s: %s", name, response)
			}
		}

		unread := s.dial(long)
		testkit.Advance(writeTimeout) // without reading
		s.checkServing()
		if got := len(readUntilClosed(t, unread)); got > 20_000_000 {
			t.Errorf("%d bytes of a response of 24 MB", got)
		}
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}
