package cosmostest

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// databases counts the databases of an account.
func databases(t *testing.T, client *azcosmos.Client) (n int) {
	t.Helper()
	for pager := client.NewQueryDatabasesPager("SELECT * FROM c", nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Databases)
	}
	return n
}

func create(t *testing.T, a *Account) {
	t.Helper()
	if _, err := a.Client(t, nil).CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: a.Database},
		nil); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_Engine(t *testing.T) {
	t.Setenv(EndpointVariable, "")
	Run(t, func(t *testing.T) {
		began := time.Now()
		<-time.After(24 * time.Hour) // of the fake clock
		if d := time.Since(began); d != 24*time.Hour {
			t.Errorf("%v have passed, want 24h", d)
		}
		NeedsEngine(t, "it must not skip")
		a := Open(t, emulator.Options{Partitions: 2})
		create(t, a)
		if a.Engine == nil || databases(t, a.Client(t, nil)) != 1 {
			t.Errorf("want an engine with one database, got %+v", a)
		}
	})
}

func TestOpen_Endpoint(t *testing.T) {
	t.Setenv(EndpointVariable, "")
	server := Open(t, emulator.Options{})
	https := httptest.NewTLSServer(server.Engine)
	defer https.Close()
	t.Setenv(EndpointVariable, https.URL)
	t.Setenv(KeyVariable, server.Key)
	names := map[string]bool{}
	for range 2 {
		t.Run("", func(t *testing.T) {
			Run(t, func(t *testing.T) {
				a := Open(t, emulator.Options{})
				create(t, a)
				names[a.Database] = true
				if n := databases(t, server.Client(t, nil)); n != 1 || a.Engine != nil {
					t.Errorf("want one database and no engine, got %d, %+v", n, a)
				}
			})
		})
	}
	t.Run("no database created", func(t *testing.T) { Open(t, emulator.Options{}) })
	if n := databases(t, server.Client(t, nil)); n != 0 || len(names) != 2 {
		t.Errorf("%d databases are left of %v", n, names)
	}
	s := &skips{TB: t}
	if NeedsEngine(s, "it must skip"); !s.skipped {
		t.Error("NeedsEngine does not skip on an endpoint")
	}
}

// skips records whether a test was skipped.
type skips struct {
	testing.TB
	skipped bool
}

func (s *skips) Skipf(string, ...any) { s.skipped = true }
