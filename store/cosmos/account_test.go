package cosmos

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// options are those of a test's account.
func options(a *cosmostest.Account) Options {
	return Options{Endpoint: a.Endpoint, Key: a.Key, Credential: a.Credential, Transport: a.Transport}
}

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
	cosmostest.NeedsEngine(t, "it lets requests take 10 ms")
	left := make(chan struct{}, 100)
	o := options(cosmostest.Open(t, emulator.Options{}))
	o.Transport, o.TryTimeout = silence{o.Transport, left}, 10*time.Millisecond
	account, err := Open(o)
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
	on := cosmostest.Open(t, emulator.Options{})
	account, err := Open(options(on))
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	for name, tt := range map[string]struct {
		client *azcosmos.Client
		kept   bool
	}{
		"by itself": {on.Client(t, nil), true},
		"here":      {account.Client(), false},
	} {
		db, err := tt.client.NewDatabase(on.Database)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Read(t.Context(), nil)
		if _, kept := azcosmos.DiagnosticsFromError(err); err == nil || kept != tt.kept {
			t.Errorf("%s: diagnostics %v, %v", name, kept, err)
		}
	}
}
