package cosmos

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	left := make(chan struct{}, 100)
	account, err := Open(Options{Endpoint: engine.Endpoint(), Credential: engine.Credential(), Transport: silence{engine, left}, TryTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	for name, account := range map[string]*Account{"projections": account.Background(), "events": account} {
		posts, err := account.Container("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = posts.Read(ctx, Key{"a", "a"})
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
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	account, err := Open(Options{Endpoint: engine.Endpoint(), Credential: engine.Credential(), Transport: engine})
	if err != nil {
		t.Fatal(err)
	}
	byItself, err := azcosmos.NewClient(engine.Endpoint(), engine.Credential(), &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: engine}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		client *azcosmos.Client
		kept   bool
	}{
		"by itself": {byItself, true},
		"here":      {account.Client(), false},
	} {
		db, err := tt.client.NewDatabase("none")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Read(t.Context(), nil)
		if _, kept := azcosmos.DiagnosticsFromError(err); err == nil || kept != tt.kept {
			t.Errorf("%s: diagnostics %v, %v", name, kept, err)
		}
	}
}
