package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestPartitionBytes_Full: a full logical partition refuses only the writes that make it larger.
func TestPartitionBytes_Full(t *testing.T) {
	memory := vfs.NewMem()
	open := func() (*Engine, func()) {
		e, err := open("", memory, Options{PartitionBytes: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		return e, func() {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	e, closeEngine := open()
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	item := func(key, id string, n int) []byte {
		return fmt.Appendf(nil, `{"id":%q,"pk":%q,"text":%q}`, id, key, strings.Repeat("x", n))
	}
	write := func(key, id string, n int) error {
		_, err := c.UpsertItem(t.Context(), pk(key), item(key, id, n), nil)
		return err
	}
	accepted := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range 4 {
		accepted("below the limit", write("p", fmt.Sprint(i), 2000))
	}
	refused := func(what string, err error) {
		t.Helper()
		if statusOf(err) != http.StatusForbidden || subStatusOf(err) != "1014" {
			t.Errorf("%s: got %v, want 403/1014", what, err)
		}
	}
	check := func() {
		t.Helper()
		refused("create", write("p", "4", 2000))
		refused("replace that grows", write("p", "0", 4000))
		grow := azcosmos.PatchOperations{}
		grow.AppendSet("/text", strings.Repeat("y", 4000))
		_, err := c.PatchItem(t.Context(), pk("p"), "0", grow, nil)
		refused("patch that grows", err)
		accepted("replace of the same size", write("p", "0", 2000))
		accepted("another logical partition", write("q", "0", 9000))
		b := c.NewTransactionalBatch(pk("p"))
		b.DeleteItem("1", nil)
		b.CreateItem(item("p", "5", 6000), nil)
		r, err := c.ExecuteTransactionalBatch(t.Context(), b, nil)
		if err != nil || r.Success || r.OperationResults[0].StatusCode != http.StatusFailedDependency ||
			r.OperationResults[1].StatusCode != http.StatusForbidden {
			t.Errorf("batch that grows: %v, %+v", err, r.OperationResults)
		}
	}
	check()

	t.Log("after a restart")
	closeEngine()
	e, closeEngine = open()
	defer func() { closeEngine() }()
	db, err := newClient(t, e).NewDatabase("db")
	if err != nil {
		t.Fatal(err)
	}
	if c, err = db.NewContainer("c"); err != nil {
		t.Fatal(err)
	}
	check()

	t.Log("after a split")
	if err := e.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	check()

	b := c.NewTransactionalBatch(pk("p"))
	b.DeleteItem("1", nil)
	b.CreateItem(item("p", "5", 1900), nil)
	if r, err := c.ExecuteTransactionalBatch(t.Context(), b, nil); err != nil || !r.Success {
		t.Errorf("batch that shrinks: %v, %+v", err, r.OperationResults)
	}
	accepted("replace that shrinks", write("p", "2", 10))
	accepted("write that fits again", write("p", "2", 1900))
	_, err = c.DeleteItem(t.Context(), pk("p"), "3", nil)
	accepted("delete", err)
	accepted("write that fits again", write("p", "6", 2000))
	refused("create in the full partition", write("p", "7", 2000))
}
