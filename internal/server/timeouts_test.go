package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"byline/internal/server"
	"byline/internal/servertest"
)

const (
	createUser = `mutation($name: String!) { createUser(input: {username: $name}) { user { id } } }`
	createPost = `mutation($title: String!, $content: String!) { createPost(input: {title: $title, content: $content}) { post { id } } }`
)

// TestShutdown_GracePeriodEnds: requests that are still active are aborted, and the exit status is 0.
func TestShutdown_GracePeriodEnds(t *testing.T) {
	before := *server.ShutdownTimeout
	*server.ShutdownTimeout = 10 * time.Millisecond
	t.Cleanup(func() { *server.ShutdownTimeout = before })
	for _, command := range [][]string{{"serve", "--no-demo"}, {"emulator", "--http"}} {
		t.Run(command[0], func(t *testing.T) {
			s := servertest.Start(t, append(command, "--data", t.TempDir())...)
			c := servertest.BeginRequest(t, s.Root)
			if status := s.Stop(); status != 0 || !strings.Contains(s.Log.String(), `msg="requests aborted after the grace period"`) {
				t.Errorf("exit status %d: %s", status, s.Log)
			}
			if rest, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the request: %s, %v", rest, err)
			}
		})
	}
}

// TestSlowBodies opens connections that send an endless body, a byte at a time. They get a response
// 408 and are closed; other clients are served meanwhile.
func TestSlowBodies(t *testing.T) {
	before := *server.ReadTimeout
	*server.ReadTimeout = 2 * time.Second
	t.Cleanup(func() { *server.ReadTimeout = before }) // after the server has stopped
	s := servertest.Start(t, "--data", t.TempDir(), "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	closed := make(chan error)
	const slow = 50
	for range slow {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.Root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		go func() { // ends when the server or the test closes the connection
			for {
				if _, err := io.WriteString(c, " "); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		go func() { closed <- awaitTimeout(c) }()
	}
	for left := slow; left > 0; {
		if got := servertest.At(t, s.Do("ada", `{ viewer { username } }`, nil), "viewer.username"); got != "ada" {
			t.Errorf("another client gets %v", got)
		}
		select {
		case err := <-closed:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
		}
	}
}

// awaitTimeout reads the connection to its end and checks for a response 408, unless a reset
// overtakes it.
func awaitTimeout(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	response, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("not closed")
	}
	if err == nil && !bytes.HasPrefix(response, []byte("HTTP/1.1 408 ")) {
		return fmt.Errorf("closed after %.300q", response)
	}
	return nil
}

// TestSlowClients: the server closes a connection whose client is slow to send a header or the next
// request, or to read a response. Other clients are served meanwhile.
func TestSlowClients(t *testing.T) {
	before := []time.Duration{*server.ReadHeaderTimeout, *server.WriteTimeout, *server.IdleTimeout}
	t.Cleanup(func() {
		*server.ReadHeaderTimeout, *server.WriteTimeout, *server.IdleTimeout = before[0], before[1], before[2]
	})
	*server.ReadHeaderTimeout, *server.WriteTimeout, *server.IdleTimeout = 3*time.Second, 5*time.Second, 3*time.Second
	s := servertest.Start(t, "--data", t.TempDir(), "--no-demo")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	var same strings.Builder
	post := servertest.At(t, s.Do("ada", createPost, map[string]any{"title": "long", "content": strings.Repeat("\U0001F40C", 100_000)}), "createPost.post.id")
	for n := range 60 {
		fmt.Fprintf(&same, "a%d: content ", n)
	}
	query, err := json.Marshal(map[string]any{"query": fmt.Sprintf(`{ post(id: %q) { %s } }`, post, same.String())})
	if err != nil {
		t.Fatal(err)
	}

	header := s.Dial("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	idle := s.Dial("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	unread := s.Dial(fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(query), query))
	if code, _ := servertest.Status(t, idle); code != http.StatusOK {
		t.Errorf("%d", code)
	}
	if got := servertest.At(t, s.Do("ada", `{ viewer { username } }`, nil), "viewer.username"); got != "ada" {
		t.Errorf("another client gets %v", got)
	}
	for name, c := range map[string]net.Conn{"header": header, "idle": idle} {
		if code, _ := servertest.Status(t, c); code != 0 && code != http.StatusRequestTimeout {
			t.Errorf("%s: %d", name, code)
		}
	}
	time.Sleep(*server.WriteTimeout) // without reading
	if err := unread.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got, err := io.Copy(io.Discard, unread)
	if errors.Is(err, os.ErrDeadlineExceeded) || got > 20_000_000 {
		t.Errorf("%d bytes of a response of 24 MB, %v", got, err)
	}
}
