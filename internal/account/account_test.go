package account

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"byline/internal/testkit"
	"byline/store/cosmos"
	"byline/store/cosmos/provision"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Concurrent requests to an emulator reuse their connections.
func TestOpen_EmulatorConnectionsReused(t *testing.T) {
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var dials atomic.Int32
	server := httptest.NewUnstartedServer(engine)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dials.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	t.Setenv(KeyVariable, testkit.Secret(emulator.WellKnownKey))
	db, err := Flags{CosmosEndpoint: server.URL, CosmosDatabase: "blog"}.Open(t.Context(), testkit.Logger(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	spec := provision.DatabaseSpec{Name: "blog",
		Containers: []provision.ContainerSpec{{Name: "posts", PartitionKey: "/postId", Indexed: []string{"/postId"}}}}
	if err := provision.Create(t.Context(), db.Account, spec); err != nil {
		t.Fatal(err)
	}
	posts, err := db.Container("blog", "posts")
	if err != nil {
		t.Fatal(err)
	}
	const concurrent, rounds = 32, 20
	for range rounds {
		var round sync.WaitGroup
		for range concurrent {
			round.Go(func() {
				if _, err := posts.Read(t.Context(), cosmos.Key{Partition: "p", ID: "a"}); err != nil {
					t.Error(err)
				}
			})
		}
		round.Wait()
	}
	n := dials.Load()
	t.Logf("%d dials", n)
	if n > 3*concurrent {
		t.Errorf("%d rounds of %d concurrent requests dialed %d times", rounds, concurrent, n)
	}
}
