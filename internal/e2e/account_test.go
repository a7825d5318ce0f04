package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestStop_AccountDoesNotRespond: a command stops at once when its context ends, although azcosmos
// retries reading the account's properties for a minute.
func TestStop_AccountDoesNotRespond(t *testing.T) {
	for command, want := range map[string]int{"serve --listen localhost:0": 0, "views status": 1, "seed --users 1": 1, "export --user ada": 1} {
		t.Run(command, func(t *testing.T) {
			requested := make(chan struct{}, 1)
			account := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case requested <- struct{}{}:
				default:
				}
				<-r.Context().Done()
			}))
			defer account.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var log output
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append(strings.Fields(command), "--cosmos-endpoint", account.URL), io.Discard, &log,
					nil)
			}()
			<-requested
			cancel()
			select {
			case status := <-ended:
				if status != want {
					t.Errorf("status %d: %s", status, &log)
				}
			case <-time.After(15 * time.Second):
				t.Error("still running")
				<-ended
			}
		})
	}
}
