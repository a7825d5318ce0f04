package cosmos

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/internal/cosmostest"
)

// openRegions opens an account with two regions.
func openRegions(t *testing.T, g *cosmostest.Regions, o Options) *Account {
	t.Helper()
	o.Endpoint, o.Key, o.Credential, o.Transport = g.Endpoint, g.Key, g.Credential, g
	a, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// readDatabase reads a database, which need not exist.
func readDatabase(ctx context.Context, a *Account, name string) error {
	db, err := a.Client().NewDatabase(name)
	if err == nil {
		_, err = db.Read(ctx, nil)
	}
	if HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

func unavailable(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable",
		Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func unreachable(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// TestRegions_Failover: reads go to the preferred region, and to the next one while it cannot serve; writes
// go only to the write region.
func TestRegions_Failover(t *testing.T) {
	for name, down := range map[string]func(*http.Request) (*http.Response, error){"status 503": unavailable,
		"connection refused": unreachable} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				g := cosmostest.OpenRegions(t)
				a := openRegions(t, g, Options{Regions: []string{"eastus", "West US"}})
				g.CreateContainer(t, "posts", "/postId")
				posts, err := a.Container(g.Database, "posts")
				if err != nil {
					t.Fatal(err)
				}
				if err := posts.Create(t.Context(), "a", []byte(`{"id":"a","postId":"a"}`)); err != nil {
					t.Fatal(err)
				}
				if n := g.Count(cosmostest.West); n != 1 {
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
				if err := read(a); err != nil || g.Count(cosmostest.East) != 1 || g.Count(cosmostest.West) != 0 {
					t.Errorf("the read was not served by the preferred region: %v", err)
				}
				g.Fail(cosmostest.East, down)
				for name, a := range map[string]*Account{"requests": a, "background": a.Background()} {
					if err := read(a); err != nil || g.Count(cosmostest.West) != 1 {
						t.Errorf("%s: the read was not served by the other region: %v", name, err)
					}
				}
				g.Fail(cosmostest.East, nil)
				g.Fail(cosmostest.West, down)
				if err := read(a); err != nil {
					t.Errorf("the read was not served by the remaining region: %v", err)
				}
				g.Count(cosmostest.East)
				if err := posts.Create(t.Context(), "b",
					[]byte(`{"id":"b","postId":"b"}`)); !ErrorOf(err).Unavailable() || g.Count(cosmostest.East) != 0 {
					t.Errorf("write: got %v, want it unavailable and not sent to the other region", err)
				}
				if err := read(openRegions(t, g, Options{})); err == nil {
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
			page, err := c.ChangeFeed().ReadChangeFeed(ctx,
				&azcosmos.ChangeFeedOptions{FeedRange: &azcosmos.FeedRange{MaxExclusive: "FF"}})
			return len(page.Items), err
		},
	} {
		for caller, of := range map[string]func(*Account) *Account{"request": func(a *Account) *Account {
			return a
		}, "background": (*Account).Background} {
			t.Run(name+", "+caller, func(t *testing.T) {
				cosmostest.Run(t, func(t *testing.T) {
					g := cosmostest.OpenRegions(t)
					a := openRegions(t, g, Options{Regions: []string{"East US", "West US"}})
					g.CreateContainer(t, "posts", "/postId")
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
					g.Fail(cosmostest.East, hang)
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					g.Count(cosmostest.West)
					if n, err := read(ctx, posts); n == 0 || err != nil || g.Count(cosmostest.West) != 1 {
						t.Errorf("the read was not served by the other region: %v", err)
					}
				})
			})
		}
	}
}

// TestRegions_MultipleWritesLater: a later switch to multi-region writes is logged.
func TestRegions_MultipleWritesLater(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	var logs bytes.Buffer
	a := openRegions(t, g, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	if err := readDatabase(t.Context(), a, g.Database); err != nil {
		t.Fatal(err)
	}
	if logs.Len() > 0 {
		t.Errorf("logs with one region: %s", &logs)
	}
	g.MultipleWrites = true
	// its client requests the properties, too
	if err := readDatabase(t.Context(), a.Background(), g.Database); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs.String(), "level=ERROR") || !strings.Contains(logs.String(), "multi-region writes") {
		t.Errorf("logs: %s", &logs)
	}
}

// failsOnce is a transport that, once armed, responds with 503 to the next request for the account's properties.
type failsOnce struct {
	*cosmostest.Regions
	armed atomic.Bool
}

func (f *failsOnce) Do(r *http.Request) (*http.Response, error) {
	if isPropertiesRequest(r) && f.armed.CompareAndSwap(true, false) {
		return unavailable(r)
	}
	return f.Regions.Do(r)
}

// TestBackground_RetriesProperties: azcosmos would report the failure to all requests for five minutes.
func TestBackground_RetriesProperties(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		f := &failsOnce{Regions: cosmostest.OpenRegions(t)}
		a, err := Open(Options{Endpoint: f.Endpoint, Key: f.Key, Credential: f.Credential, Transport: f})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		if err := readDatabase(t.Context(), a, f.Database); err != nil {
			t.Fatal(err)
		}
		f.armed.Store(true)
		if err := readDatabase(t.Context(), a.Background(), f.Database); err != nil {
			t.Error(err)
		}
		if f.armed.Load() {
			t.Error("the background client has not requested the properties")
		}
	})
}

// TestClose_EndsWaitForProperties: also in the background, where the request for them is retried.
func TestClose_EndsWaitForProperties(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	a, err := Open(Options{Endpoint: g.Endpoint, Key: g.Key, Credential: g.Credential,
		Transport: transporterFunc(unavailable)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- readDatabase(t.Context(), a.Background(), g.Database)
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
