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

// options returns the options of a test's account.
func options(a *cosmostest.Account) Options {
	return Options{Endpoint: a.Endpoint, Key: a.Key, Credential: a.Credential, Transport: a.Transport}
}

// unresponsive is a transport that never responds to requests for items.
type unresponsive struct {
	policy.Transporter
	canceled chan struct{} // receives a value for each canceled request
}

func (u unresponsive) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Ms-Documentdb-Partitionkey") == "" {
		return u.Transporter.Do(r)
	}
	<-r.Context().Done()
	u.canceled <- struct{}{}
	return nil, r.Context().Err()
}

// A request without a response ends after TryTimeout, also in a context with a later deadline.
func TestTryTimeout_UnresponsiveServer(t *testing.T) {
	cosmostest.NeedsEngine(t, "it lets requests take 10 ms")
	canceled := make(chan struct{}, 100)
	o := options(cosmostest.Open(t, emulator.Options{}))
	o.Transport, o.TryTimeout = unresponsive{o.Transport, canceled}, 10*time.Millisecond
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
		case <-canceled:
		case <-done: // not even sent
		}
		if ctx.Err() != nil {
			t.Errorf("%s: the request lasted until the deadline of its context", name)
		}
		cancel()
		<-done
	}
}

// TestNoDiagnostics: azcosmos records no diagnostics for the clients of an Account.
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
		"azcosmos alone": {on.Client(t, nil), true},
		"Account":        {account.Client(), false},
	} {
		db, err := tt.client.NewDatabase(on.Database)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Read(t.Context(), nil)
		if _, kept := azcosmos.DiagnosticsFromError(err); err == nil || kept != tt.kept {
			t.Errorf("%s: got diagnostics %v, error %v", name, kept, err)
		}
	}
}
