package store_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/storetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world is a storetest.World with helpers of this package's tests.
type world struct{ *storetest.World }

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{storetest.New(t)}
}

// another returns the name of another database, which is deleted when the test ends.
func (w *world) another() string {
	name := w.Database + "-another"
	w.T.Cleanup(func() {
		db, err := w.Client.NewDatabase(name)
		if err == nil {
			_, err = db.Delete(context.Background(), nil)
		}
		if err != nil {
			w.T.Error(err)
		}
	})
	return name
}

func TestProvision(t *testing.T) {
	t.Run("repeated -> no change", func(t *testing.T) {
		w := newWorld(t)
		u := w.AddUser("ada")
		if err := w.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := w.User(t.Context(), u.UserID); err != nil || got == nil {
			t.Fatalf("got %v, %v", got, err)
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		w := newWorld(t)
		other, err := store.New(w.Account, store.Options{Database: w.another()})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := other.Provision(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("another partition key -> conflict", func(t *testing.T) {
		w := newWorld(t)
		wrong := w.another()
		db, err := w.Client.NewDatabase(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: wrong}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: "posts",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}, nil); err != nil {
			t.Fatal(err)
		}
		other, err := store.New(w.Account, store.Options{Database: wrong})
		if err != nil {
			t.Fatal(err)
		}
		err = other.Provision(t.Context())
		storetest.WantCode(t, err, blog.Conflict, "database")
		if !strings.Contains(err.Error(), "use another database") {
			t.Errorf("got %v, want the advice to use another database", err)
		}
	})
}

func TestReady(t *testing.T) {
	w := newWorld(t)
	if err := w.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := store.New(w.Account, store.Options{Database: "absent"})
	if err != nil {
		t.Fatal(err)
	}
	storetest.WantCode(t, other.Ready(t.Context()), blog.Unavailable, "")
}

func TestErrors_OfCosmosDB(t *testing.T) {
	w := newWorld(t)
	w.AddUser("ada")
	w.Wire.Intercept(func(*http.Request) error { return fmt.Errorf("no") })
	_, err := w.UserByUsername(t.Context(), "ada")
	storetest.WantCode(t, err, blog.Unavailable, "")
	w.Wire.Intercept(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.UserByUsername(ctx, "ada")
	storetest.WantCode(t, err, blog.Canceled, "")
}
