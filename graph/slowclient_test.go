package graph

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/testkit"
)

// A client has 10 s to receive each 64 KB of a response. Then the connection is closed, and the memory of the response
// is free.
func TestResponse_EndsWithoutProgress(t *testing.T) {
	for name, tt := range map[string]struct {
		pause time.Duration // after each 64 KB
		whole bool
	}{
		"slow but steady -> the whole response": {8 * time.Second, true},
		"without progress -> closed":            {12 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := smallBlogInBubble(t, Options{})
				id := postGlobalID(b.post(t, "ada", "long", longest))
				server := testkit.PipeServer(t, b, nil)
				c, err := server.Client().Transport.(*http.Transport).DialContext(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				body, _ := json.Marshal(map[string]string{"query": `{ post(id: "` + id + `") { content } }`})
				fmt.Fprintf(c, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\n\r\n%s", len(body), body)
				r, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				read := int64(0)
				for err == nil {
					if read > 0 {
						time.Sleep(tt.pause) // of the bubble
					}
					var n int64
					n, err = io.CopyN(io.Discard, r.Body, 64<<10)
					read += n
				}
				if whole := err == io.EOF && read == r.ContentLength; whole != tt.whole {
					t.Errorf("%d of %d bytes: %v", read, r.ContentLength, err)
				}
				synctest.Wait()
				if used := metricOf(t, b.metrics, reservedMetric); used != 0 {
					t.Errorf("%v bytes are held", used)
				}
			})
		})
	}
}
