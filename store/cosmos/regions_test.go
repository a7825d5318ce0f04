package cosmos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// regions is an account with the regions West US, which writes, and East US, in front of one engine.
type regions struct {
	*cosmostest.Account
	multipleWrites bool

	mu     sync.Mutex
	down   map[string]func(*http.Request) (*http.Response, error) // guarded by mu; by host: responds instead of the engine
	served map[string]int                                         // guarded by mu; requests for items, by host
}

const (
	west = "account-westus.localhost"
	east = "account-eastus.localhost"
)

func newRegions(t *testing.T) *regions {
	t.Helper()
	cosmostest.NeedsEngine(t, "it has two regions in front of one engine")
	return &regions{Account: cosmostest.Open(t, emulator.Options{}), down: map[string]func(*http.Request) (*http.Response, error){}, served: map[string]int{}}
}

// Do implements policy.Transporter.
func (g *regions) Do(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/" || r.URL.Path == "" {
		location := func(name, host string) string {
			return fmt.Sprintf(`{"name":%q,"databaseAccountEndpoint":"http://%s/"}`, name, host)
		}
		body := fmt.Sprintf(`{"writableLocations":[%s],"readableLocations":[%[1]s,%s],"enableMultipleWriteLocations":%t,"userConsistencyPolicy":{"defaultConsistencyLevel":"Session"}}`,
			location("West US", west), location("East US", east), g.multipleWrites)
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
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

func (g *regions) fail(host string, with func(*http.Request) (*http.Response, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down[host] = with
}

// count returns the number of requests for items that a region has served since the last call.
func (g *regions) count(host string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.served[host]
	g.served[host] = 0
	return n
}

func (g *regions) open(t *testing.T, o Options) *Account {
	t.Helper()
	o.Endpoint, o.Key, o.Credential, o.Transport = g.Endpoint, g.Key, g.Credential, g
	a, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func unavailable(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable", Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func unreachable(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// TestRegions_Failover: reads go to the preferred region, and to the next one while it cannot serve; writes
// go only to the write region.
func TestRegions_Failover(t *testing.T) {
	for name, down := range map[string]func(*http.Request) (*http.Response, error){"status 503": unavailable, "connection refused": unreachable} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				g := newRegions(t)
				a := g.open(t, Options{Regions: []string{"eastus", "West US"}})
				if err := a.Provision(t.Context(), DatabaseSpec{Name: g.Database, Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}}); err != nil {
					t.Fatal(err)
				}
				posts, err := a.Container(g.Database, "posts")
				if err != nil {
					t.Fatal(err)
				}
				if err := posts.Create(t.Context(), "a", []byte(`{"id":"a","postId":"a"}`)); err != nil {
					t.Fatal(err)
				}
				if n := g.count(west); n != 1 {
					t.Errorf("the write region served %d writes, want 1", n)
				}
				read := func(a *Account) error {
					t.Helper()
					posts, err := a.Container(g.Database, "posts")
					if err != nil {
						t.Fatal(err)
					}
					item, err := posts.Read(t.Context(), Key{"a", "a"})
					if err == nil && item.Value == nil {
						t.Error("the item is missing")
					}
					return err
				}
				if err := read(a); err != nil || g.count(east) != 1 || g.count(west) != 0 {
					t.Errorf("the read was not served by the preferred region: %v", err)
				}
				g.fail(east, down)
				for name, a := range map[string]*Account{"requests": a, "background": a.Background()} {
					if err := read(a); err != nil || g.count(west) != 1 {
						t.Errorf("%s: the read was not served by the other region: %v", name, err)
					}
				}
				g.fail(east, nil)
				g.fail(west, down)
				if err := read(a); err != nil {
					t.Errorf("the read was not served by the remaining region: %v", err)
				}
				g.count(east)
				if err := posts.Create(t.Context(), "b", []byte(`{"id":"b","postId":"b"}`)); !ErrorOf(err).Unavailable() || g.count(east) != 0 {
					t.Errorf("write: got %v, want it unavailable and not sent to the other region", err)
				}
				if err := read(g.open(t, Options{})); err == nil {
					t.Error("without preferred regions the read was served: the test is void")
				}
			})
		})
	}
}

// hang is a region that does not respond.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestRegions_Hanging: if the preferred region does not respond, the next one is read within the deadline of an
// operation.
func TestRegions_Hanging(t *testing.T) {
	for name, read := range map[string]func(context.Context, *Container) (int, error){
		"point read": func(ctx context.Context, c *Container) (int, error) {
			item, err := c.Read(ctx, Key{"a", "a"})
			return len(item.Value), err
		},
		"query": func(ctx context.Context, c *Container) (int, error) {
			items, _, err := c.QueryPage(ctx, Query{Text: "SELECT * FROM c", Partition: "a"})
			return len(items), err
		},
		"ReadMany": func(ctx context.Context, c *Container) (int, error) {
			items, err := c.ReadMany(ctx, []Key{{"a", "a"}, {"b", "b"}})
			return len(items), err
		},
		"change feed": func(ctx context.Context, c *Container) (int, error) {
			page, err := c.ChangeFeed().ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
			return len(page.Items), err
		},
	} {
		for caller, of := range map[string]func(*Account) *Account{"request": func(a *Account) *Account { return a }, "background": (*Account).Background} {
			t.Run(name+", "+caller, func(t *testing.T) {
				cosmostest.Run(t, func(t *testing.T) {
					g := newRegions(t)
					a := g.open(t, Options{Regions: []string{"East US", "West US"}})
					if err := a.Provision(t.Context(), DatabaseSpec{Name: g.Database, Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}}); err != nil {
						t.Fatal(err)
					}
					posts, err := of(a).Container(g.Database, "posts")
					if err != nil {
						t.Fatal(err)
					}
					if err := posts.Create(t.Context(), "a", []byte(`{"id":"a","postId":"a"}`)); err != nil {
						t.Fatal(err)
					}
					if n, err := read(t.Context(), posts); n == 0 || err != nil { // azcosmos now knows the ranges
						t.Fatal(n, err)
					}
					g.fail(east, hang)
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					g.count(west)
					if n, err := read(ctx, posts); n == 0 || err != nil || g.count(west) != 1 {
						t.Errorf("the read was not served by the other region: %v", err)
					}
				})
			})
		}
	}
}

// TestRegions_MultipleWrites: an account with multi-region writes is refused.
func TestRegions_MultipleWrites(t *testing.T) {
	g := newRegions(t)
	g.multipleWrites = true
	err := g.open(t, Options{}).Provision(t.Context(), DatabaseSpec{Name: g.Database, Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}})
	if !errors.Is(err, ErrMultiRegionWrites) {
		t.Errorf("got %v, want %v", err, ErrMultiRegionWrites)
	}
}

// TestRegions_Unknown: a region that the account does not have is a warning, as it may be missing temporarily.
func TestRegions_Unknown(t *testing.T) {
	g := newRegions(t)
	var logs bytes.Buffer
	a := g.open(t, Options{Regions: []string{"East US", "North Pole", "westus"}, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err := a.Provision(t.Context(), DatabaseSpec{Name: g.Database, Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logs.String(), "level=WARN"); n != 1 || !strings.Contains(logs.String(), "the preferred region North Pole, only in West US, East US") {
		t.Errorf("%d warnings:\n%s", n, &logs)
	}
}

// TestRegions_MultipleWritesLater: a later switch to multi-region writes is logged.
func TestRegions_MultipleWritesLater(t *testing.T) {
	g := newRegions(t)
	var logs bytes.Buffer
	a := g.open(t, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err := a.Provision(t.Context(), DatabaseSpec{Name: g.Database}); err != nil {
		t.Fatal(err)
	}
	if logs.Len() > 0 {
		t.Errorf("logs with one region: %s", &logs)
	}
	g.multipleWrites = true
	if _, _, err := a.Background().readDatabase(t.Context(), g.Database); err != nil { // its client requests the properties, too
		t.Fatal(err)
	}
	if !strings.Contains(logs.String(), "level=ERROR") || !strings.Contains(logs.String(), "multi-region writes") {
		t.Errorf("logs: %s", &logs)
	}
}

// TestProvision_Eventual: a default consistency with which sessions do not work is a warning.
func TestProvision_Eventual(t *testing.T) {
	g := newRegions(t)
	var logs bytes.Buffer
	a, err := Open(Options{Endpoint: g.Endpoint, Key: g.Key, Credential: g.Credential, Transport: propertiesWith{g, `"Session"`, `"Eventual"`},
		Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	if err := a.Provision(t.Context(), DatabaseSpec{Name: g.Database}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs.String(), "level=WARN") || !strings.Contains(logs.String(), "default consistency is Eventual") {
		t.Errorf("logs: %s", &logs)
	}
}

// failsOnce is a transport that, once armed, responds with 503 to the next request for the account's properties.
type failsOnce struct {
	*regions
	armed atomic.Bool
}

func (f *failsOnce) Do(r *http.Request) (*http.Response, error) {
	if isPropertiesRequest(r) && f.armed.CompareAndSwap(true, false) {
		return unavailable(r)
	}
	return f.regions.Do(r)
}

// TestBackground_RetriesProperties: azcosmos would report the failure to all requests for five minutes.
func TestBackground_RetriesProperties(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		f := &failsOnce{regions: newRegions(t)}
		a, err := Open(Options{Endpoint: f.Endpoint, Key: f.Key, Credential: f.Credential, Transport: f})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		if err := a.Provision(t.Context(), DatabaseSpec{Name: f.Database}); err != nil {
			t.Fatal(err)
		}
		f.armed.Store(true)
		if _, _, err := a.Background().readDatabase(t.Context(), f.Database); err != nil {
			t.Error(err)
		}
		if f.armed.Load() {
			t.Error("the background client has not requested the properties")
		}
	})
}

// TestClose_EndsWaitForProperties: also in the background, where the request for them is retried.
func TestClose_EndsWaitForProperties(t *testing.T) {
	g := newRegions(t)
	a, err := Open(Options{Endpoint: g.Endpoint, Key: g.Key, Credential: g.Credential, Transport: transporterFunc(unavailable)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, _, err := a.Background().readDatabase(t.Context(), g.Database)
		done <- err
	}()
	a.Close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the request succeeded")
		}
	case <-time.After(propertiesTimeout / 2):
		t.Error("the request still waits")
	}
}

type transporterFunc func(*http.Request) (*http.Response, error)

func (f transporterFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }
