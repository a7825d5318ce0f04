package e2e

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkSubscriptions_Memory publishes three posts of 99 KB to 15,000 subscribers of a server in its own
// process, over WebSockets, and reports the server's resident memory while they wait, and its peak, which it
// bounds. A fifth of the subscribers do not read the first post until the last has been written.
//
//	go test ./internal/e2e -run '^$' -bench Subscriptions_Memory -benchtime 1x
func BenchmarkSubscriptions_Memory(b *testing.B) {
	all, length := 15_000, 99_000
	if testing.Short() {
		all = 500
	}
	const (
		posts   = 3
		boundMB = 700
	)
	for b.Loop() {
		p := startProcess(b, "--data", b.TempDir(), "--no-demo")
		p.Do("ada", `mutation { createUser(input: {username: "ada"}) { user { id } } }`, nil)
		conns := make([]net.Conn, all)
		address := strings.TrimPrefix(p.Root, "http://")
		for i := range conns {
			c, err := rawSubscribe(address, `subscription { postPublished { id title content author { username } } }`)
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = c
		}
		waiting := func() (n float64) {
			samples, err := scrape(p.Root)
			if err == nil {
				n, _ = total(samples, "byline_subscribers", nil)
			}
			return n
		}
		eventually(b, func() error {
			if n := waiting(); int(n) != all {
				return fmt.Errorf("%.0f subscribers", n)
			}
			return nil
		})
		idle := statusMB(b, p, "VmRSS:")

		published := make(chan struct{})
		errs := make(chan error, all)
		var reading sync.WaitGroup
		for i, c := range conns {
			reading.Go(func() {
				if i%5 == 0 {
					<-published
				}
				_ = c.SetReadDeadline(time.Now().Add(3 * time.Minute))
				n, err := io.CopyN(io.Discard, c, int64(posts*length))
				if err != nil {
					errs <- fmt.Errorf("%d bytes: %w", n, err)
				}
			})
		}
		for range posts {
			p.Do("ada", `mutation($c: String!) { createPost(input: {title: "t", content: $c}) { post { id } } }`,
				map[string]any{"c": strings.Repeat("x", length)})
		}
		close(published)
		reading.Wait()
		close(errs)
		var failed error
		n := 0
		for err := range errs {
			failed = err
			n++
		}
		if n > 0 {
			b.Errorf("%d subscribers: %v", n, failed)
		}
		b.ReportMetric(idle, "MB-idle")
		peak := statusMB(b, p, "VmHWM:")
		b.ReportMetric(peak, "MB-peak")
		if peak > boundMB {
			b.Errorf("%.0f MB, the bound is %d", peak, boundMB)
		}
		for _, c := range conns {
			c.Close()
		}
		p.Kill()
	}
}

// rawSubscribe subscribes over a connection without buffers.
func rawSubscribe(address, query string) (net.Conn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil,
		"GET /graphql HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "+
			"13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n",
		address)
	for _, m := range []string{`{"type":"connection_init"}`,
		fmt.Sprintf(`{"type":"subscribe","id":"1","payload":{"query":%q}}`, query)} {
		frame := []byte{0x81, 0x80 | 126, 0, 0, 0, 0, 0, 0} // a text, masked with zeros; RFC 6455 section 5.2
		binary.BigEndian.PutUint16(frame[2:], uint16(len(m)))
		request = append(append(request, frame...), m...)
	}
	if _, err := c.Write(request); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	r := bufio.NewReader(c)
	for {
		switch line, err := r.ReadString('}'); {
		case err != nil:
			return nil, errors.Join(err, c.Close())
		case strings.HasSuffix(line, `{"type":"connection_ack"}`):
			return c, nil
		}
	}
}

// statusMB returns a figure of the process in /proc, in megabytes.
func statusMB(t testing.TB, p *process, name string) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), name)
	var kb float64
	_, _ = fmt.Sscan(rest, &kb)
	return kb / 1024
}
