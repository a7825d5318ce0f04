package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestDrain: after the stop signal, /readyz responds 503, and the server keeps serving for the time of --drain, until
// load balancers have noticed.
func TestDrain(t *testing.T) {
	t.Parallel()
	const drain = 4 * time.Second
	s := start(t, "--data", t.TempDir(), "--no-demo", "--drain", drain.String())
	s.WaitReady()
	stream, err := subscribe(t.Context(), &process{Instance: *s}, `subscription { postPublished { title } }`)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // each request is a new connection
	get := func(path string) (int, string, error) {
		r, err := client.Get(s.Root + path)
		if err != nil {
			return 0, "", err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return r.StatusCode, string(body), err
	}
	closes := func() bool { // a connection that the client keeps
		r, err := http.Get(s.Root + "/graphql?query={__typename}")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.Close
	}
	if closes() {
		t.Error("a response closes its connection before the drain")
	}
	began := time.Now()
	exit := make(chan int, 1)
	go func() { exit <- s.Stop() }()
	eventually(t, func() error {
		status, body, err := get("/readyz")
		if err != nil {
			t.Fatalf("refused after %s: %v", time.Since(began), err)
		}
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	if status, body,
		err := get("/graphql?query={__typename}"); err != nil || status != http.StatusOK ||
		body != `{"data":{"__typename":"Query"}}`+"\n" {
		t.Errorf("a query: %d %s %v", status, body, err)
	}
	if !closes() {
		t.Error("a response keeps its connection during the drain")
	}
	if _, _, err := stream.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway ||
		time.Since(began) < drain {
		t.Errorf("after %s, a subscription ends with %v", time.Since(began), err)
	}
	if status := <-exit; status != 0 {
		t.Errorf("exit status %d: %s", status, s.Log)
	}
	if _, _, err := get("/readyz"); err == nil {
		t.Error("still serving")
	}
}
