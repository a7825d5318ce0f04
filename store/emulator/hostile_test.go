package emulator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestNoSync_Crash: writes acknowledged some seconds before a crash survive.
func TestNoSync_Crash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		e := newEngineOn(t, mem, Options{NoSync: true})
		c := newContainer(t, e, azcosmos.ContainerProperties{})
		for i := range 20 {
			if _, err := c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":"%d","pk":"p"}`, i),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Second)
		if kept := itemsOf(t, mem.CrashClone(vfs.CrashCloneCfg{})); kept != 20 {
			t.Errorf("two seconds after the writes, %d of 20 items survive a crash", kept)
		}
	})
}

// itemsOf counts the items on a disk.
func itemsOf(t *testing.T, disk vfs.FS) int {
	t.Helper()
	e, err := open("", disk, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := newClient(t, e).NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for pager := c.NewQueryItemsPager("SELECT * FROM c", pk("p"), nil); pager.More(); {
		r, err := pager.NextPage(context.Background())
		if statusOf(err) == http.StatusNotFound {
			return 0 // the container did not survive either
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(r.Items)
	}
	return n
}

// TestHostileRequests sends malformed requests.
func TestHostileRequests(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	for i := range 3 {
		if _, err := c.CreateItem(t.Context(), pk("p"), fmt.Appendf(nil, `{"id":"%d","pk":"p","x":%d}`, i, i),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	query := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Documentdb-Query": {"True"},
		"Content-Type": {"application/query+json"}}
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	for name, tt := range map[string]struct {
		method string
		header http.Header
		body   string
		status int
	}{
		"sorted, largest page size -> 200": {"POST", with(query, "X-Ms-Max-Item-Count", "9223372036854775807"),
			`{"query":"SELECT * FROM c ORDER BY c.x"}`, 200},
		"deeply nested body -> 400": {"POST", query, strings.Repeat("[", 1<<20), 400},
		"unknown change feed mode -> 400": {"GET",
			http.Header{"A-Im": {"Full-Fidelity Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}}, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := signed(t, tt.method, "/dbs/db/colls/c/docs", tt.header, []byte(tt.body))
			res, err := e.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != tt.status {
				t.Errorf("got status %d, want %d", res.StatusCode, tt.status)
			}
		})
	}
}
