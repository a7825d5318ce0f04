package emulator

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"byline/store/emulator/internal/apierror"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestItemWriters_RetryWith: writes beyond the limit get 449, and succeed after contentionWindow.
func TestItemWriters_RetryWith(t *testing.T) {
	var now atomic.Int64
	e := newEngine(t, Options{ItemWriters: 3, Clock: func() time.Time { return time.Unix(1_700_000_000, now.Load()) }})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	create(t, c, "1")
	create(t, c, "2")
	patch := func(id string) error {
		_, err := c.PatchItem(t.Context(), pk("p"), id, patchOf("/n", 1), nil)
		return err
	}
	for range 3 {
		if err := patch("1"); err != nil {
			t.Fatal(err)
		}
	}
	replace := func() error {
		_, err := c.ReplaceItem(t.Context(), pk("p"), "1", []byte(`{"id":"1","pk":"p"}`), nil)
		return err
	}
	upsert := func() error {
		_, err := c.UpsertItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil)
		return err
	}
	remove := func() error { _, err := c.DeleteItem(t.Context(), pk("p"), "1", nil); return err }
	for name, call := range map[string]func() error{"patch": func() error {
		return patch("1")
	}, "replace": replace, "upsert": upsert, "delete": remove} {
		if err := call(); statusOf(err) != apierror.StatusRetryWith {
			t.Errorf("%s: got %v, want 449", name, err)
		}
	}
	batch := func(patches int) []int32 {
		t.Helper()
		b := c.NewTransactionalBatch(pk("p"))
		for range patches {
			b.PatchItem("1", patchOf("/n", 1), nil)
		}
		r, err := c.ExecuteTransactionalBatch(t.Context(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []int32
		for _, one := range r.OperationResults {
			all = append(all, one.StatusCode)
		}
		return all
	}
	if got := fmt.Sprint(batch(2)); got != fmt.Sprint([]int{apierror.StatusRetryWith, http.StatusFailedDependency}) {
		t.Errorf("batch: %s", got)
	}
	if err := patch("2"); err != nil {
		t.Errorf("another item: %v", err)
	}
	if _, err := c.ReadItem(t.Context(), pk("p"), "1", nil); err != nil {
		t.Errorf("read: %v", err)
	}
	now.Add(int64(contentionWindow))
	if err := remove(); err != nil {
		t.Errorf("after contentionWindow: %v", err)
	}
	create(t, c, "1")
	if got := fmt.Sprint(batch(9)); got != "[200 200 200 200 200 200 200 200 200]" {
		t.Errorf("nine patches in one batch: got %s, want only 200", got)
	}
}
