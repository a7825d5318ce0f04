package graph

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"byline/internal/testkit"
)

// BenchmarkIdleSubscribers reports the heap and stack memory for an idle subscriber, after a garbage collection. The
// clients are bare sockets.
func BenchmarkIdleSubscribers(b *testing.B) {
	const n = 1000
	for b.Loop() {
		blog, server := liveBlog(b, Options{})
		query := blog.fill(`subscription { commentAdded(postId: "<post:notes>") { content author { username } } }`)
		before := inUse()
		for range n {
			bareSubscriber(b, strings.TrimPrefix(server.URL, "http://"), query)
		}
		opened(b, blog, n)
		b.ReportMetric(float64(inUse()-before)/n/1024, "KB/subscriber")
	}
}

// An idle subscriber has one goroutine, which reads from its client; none waits for events.
func TestSubscribers_HaveOneGoroutine(t *testing.T) {
	const n = 50
	blog, server := liveBlog(t, Options{})
	before := runtime.NumGoroutine()
	for range n {
		bareSubscriber(t, strings.TrimPrefix(server.URL, "http://"), `subscription { postPublished { title } }`)
	}
	opened(t, blog, n)
	testkit.Until(t, func() error {
		if got := runtime.NumGoroutine() - before; got >= n+n/2 {
			return fmt.Errorf("%d goroutines for %d subscribers", got, n)
		}
		return nil
	})
}

func inUse() uint64 {
	var m runtime.MemStats
	for range 3 { // stacks shrink by half at a time
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// bareSubscriber subscribes over a connection whose client side is only a socket.
func bareSubscriber(b testing.TB, address, query string) {
	b.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	fmt.Fprintf(c,
		"GET /graphql HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "+
			"13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n", address, modern)
	for _, m := range []string{`{"type":"connection_init"}`,
		fmt.Sprintf(`{"type":"subscribe","id":"1","payload":{"query":%q}}`, query)} {
		frame := []byte{0x81, 0x80 | 126, 0, 0, 0, 0, 0, 0} // a text, masked with zeros; RFC 6455 section 5.2
		binary.BigEndian.PutUint16(frame[2:], uint16(len(m)))
		if _, err := c.Write(append(frame, m...)); err != nil {
			b.Fatal(err)
		}
	}
	r := bufio.NewReader(c)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		b.Fatal(res, err)
	}
	ack := make([]byte, len(`{"type":"connection_ack"}`)+2)
	if _, err := io.ReadFull(r, ack); err != nil || !strings.Contains(string(ack), "connection_ack") {
		b.Fatalf("%q %v", ack, err)
	}
}
