package cosmostest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"byline/store/emulator"
)

// Hosts of the regions of Regions.
const (
	West = "account-westus.localhost" // West US, which writes
	East = "account-eastus.localhost" // East US
)

// Regions is an account with the regions West US and East US in front of one engine. It is a policy.Transporter.
type Regions struct {
	*Account
	MultipleWrites bool   // the account writes in both
	Consistency    string // the account's default consistency; "": Session

	mu sync.Mutex
	// guarded by mu; by host: responds instead of the engine
	down   map[string]func(*http.Request) (*http.Response, error)
	served map[string]int // guarded by mu; requests for items, by host
}

// OpenRegions opens an account with two regions.
func OpenRegions(t testing.TB) *Regions {
	t.Helper()
	NeedsEngine(t, "it has two regions in front of one engine")
	return &Regions{Account: Open(t, emulator.Options{}),
		down: map[string]func(*http.Request) (*http.Response, error){}, served: map[string]int{}}
}

// Do implements policy.Transporter.
func (g *Regions) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/" || r.URL.Path == "" {
		location := func(name, host string) string {
			return fmt.Sprintf(`{"name":%q,"databaseAccountEndpoint":"http://%s/"}`, name, host)
		}
		body := fmt.Sprintf(
			`{"writableLocations":[%s],"readableLocations":[%[1]s,%s],"enableMultipleWriteLocations":%t,"userConsistencyPolicy":{"defaultConsistencyLevel":%q}}`,
			location("West US", West), location("East US", East), g.MultipleWrites, cmp.Or(g.Consistency, "Session"))
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{},
			Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	g.mu.Lock()
	down := g.down[r.URL.Host]
	if down == nil && strings.Contains(r.URL.Path, "/docs") {
		g.served[r.URL.Host]++
	}
	g.mu.Unlock()
	if down != nil {
		return down(r)
	}
	return g.Transport.Do(r)
}

// Fail responds to the requests to a region instead of the engine, until it is called with nil.
func (g *Regions) Fail(host string, with func(*http.Request) (*http.Response, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down[host] = with
}

// Count returns the number of requests for items that a region has served since the last call.
func (g *Regions) Count(host string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.served[host]
	g.served[host] = 0
	return n
}
