package account

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/enginetest"
	"byline/internal/secrettest"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { secrettest.Exit(m.Run()) }

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
	db, err := newAccount(t.Context(), "nowhere", silence{engine, left}, engine.Close, tracing.Provider{}, nil, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
		return azcosmos.NewClientWithKey(engine.Endpoint(), key, o)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, client := range map[string]*azcosmos.Client{"projections": db.Background, "events": db.Client} {
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
