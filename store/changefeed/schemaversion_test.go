package changefeed_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/internal/cosmostest"
)

// setLease sets a property of a lease.
func (w *world) setLease(id, path string, value any) {
	w.t.Helper()
	var p azcosmos.PatchOperations
	p.AppendSet(path, value)
	if _, err := w.leases.PatchItem(w.t.Context(), azcosmos.NewPartitionKeyString(id), id, p, nil); err != nil {
		w.t.Fatal(err)
	}
}

// A lease has the version of its format, and its owner keeps properties that this version does not know, also when the
// lease has changed meanwhile.
func TestLease_KeepsUnknownProperties(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.same = true
		w.write("a")
		stop := w.run("one", w.handle, time.Minute)
		w.waitFor("a")
		if v := w.checkpoint(); v["schemaVersion"] != 1.0 {
			t.Errorf("the lease is %v", v)
		}
		w.setLease(leaseID, "/unknown", "kept")
		stop() // writes the checkpoint at an outdated ETag, and again
		if v := w.checkpoint(); v["unknown"] != "kept" || v["owner"] != "" {
			t.Errorf("the lease is %v", v)
		}
		w.write("b")
		stop = w.run("two", w.handle, time.Minute)
		w.waitFor("a b")
		stop()
		if v := w.checkpoint(); v["unknown"] != "kept" || v["owner"] != "" || v["schemaVersion"] != 1.0 {
			t.Errorf("the lease is %v", v)
		}
	})
}

// A lease of a later version is left to processes of that version, and the others are taken.
func TestLease_LaterVersion(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, whySplit)
		w := newWorld(t)
		w.split()
		stop := w.run("one", w.handle, 0)
		w.waitRanges(2)
		stop()
		items := w.leaseItems()
		later := items[0].ID
		w.setLease(later, "/schemaVersion", 2)
		stored := func() string {
			r, err := w.leases.ReadItem(t.Context(), azcosmos.NewPartitionKeyString(later), later, nil)
			if err != nil {
				t.Fatal(err)
			}
			return string(r.Value)
		}
		before := stored()
		w.run("two", w.handle, clusterExpiry)
		w.wait(func() bool { return w.owners()["two"] == len(items)-1 })
		pass(10 * clusterExpiry)
		if after := stored(); after != before {
			t.Errorf("the lease of a later version was %s and is %s", before, after)
		}
		if got := w.owners()["two"]; got != len(items)-1 {
			t.Errorf("the process has %d leases, want %d", got, len(items)-1)
		}
	})
}
