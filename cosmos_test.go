package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/enginetest"
	"byline/internal/secrettest"
	"byline/store/emulator"
)

// silence is a Cosmos DB that takes requests about items and never answers.
type silence struct {
	policy.Transporter
	left chan struct{} // gets one for each request that nobody waits for any more
}

func (s silence) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Ms-Documentdb-Partitionkey") == "" {
		return s.Transporter.Do(r)
	}
	<-r.Context().Done()
	s.left <- struct{}{}
	return nil, r.Context().Err()
}

// What happens in the background has no deadline of its own: what hangs ends all the
// same, and is tried again.
func TestBackgroundDoesNotHang(t *testing.T) {
	defer func(was time.Duration) { tryTimeout = was }(tryTimeout)
	tryTimeout = 10 * time.Millisecond
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := azcosmos.NewKeyCredential(emulator.WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{}, 100)
	db, err := newCosmos(t.Context(), "nowhere", silence{engine, left}, engine.Close, traces{}, nil, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
		return azcosmos.NewClientWithKey(engine.Endpoint(), key, o)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.close()
	for name, client := range map[string]*azcosmos.Client{"projections": db.background, "events": db.client} {
		posts, err := client.NewContainer("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = posts.ReadItem(ctx, azcosmos.NewPartitionKeyString("a"), "a", nil)
		}()
		select {
		case <-left:
		case <-done: // it did not come that far
		}
		if ctx.Err() != nil {
			t.Errorf("%s wait as long as they may", name)
		}
		cancel()
		<-done
	}
}

// TestNoDiagnostics: azcosmos keeps none of what is answered to the clients of a gateway.
func TestNoDiagnostics(t *testing.T) {
	for name, tt := range map[string]struct {
		policies []policy.Policy
		kept     bool
	}{
		"by itself":    {nil, true},
		"as a gateway": {[]policy.Policy{undiagnosed{}}, false},
	} {
		client := enginetest.Client(t, emulator.Options{}, azcore.ClientOptions{PerCallPolicies: tt.policies})
		db, err := client.NewDatabase("none")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Read(t.Context(), nil)
		if _, kept := azcosmos.DiagnosticsFromError(err); err == nil || kept != tt.kept {
			t.Errorf("%s: diagnostics %v, %v", name, kept, err)
		}
	}
}

// TestStoppedBeforeTheAccountAnswers: whoever is told to stop does, although azcosmos asks
// for the account's properties for a minute, whether or not anybody waits for them.
func TestStoppedBeforeTheAccountAnswers(t *testing.T) {
	t.Setenv("COSMOS_KEY", secrettest.Secret(emulator.WellKnownKey))
	for command, want := range map[string]int{"serve --listen localhost:0": 0, "views status": 1, "seed --users 1": 1, "bench article --users 1": 1} {
		t.Run(command, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			account := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case asked <- struct{}{}:
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
				ended <- run(ctx, append(strings.Fields(command), "--cosmos-endpoint", account.URL), io.Discard, &log, nil)
			}()
			<-asked
			cancel()
			select {
			case status := <-ended:
				if status != want {
					t.Errorf("status %d: %s", status, &log)
				}
			case <-time.After(15 * time.Second):
				t.Error("goes on")
				<-ended
			}
		})
	}
}
