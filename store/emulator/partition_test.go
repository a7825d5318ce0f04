package emulator

import (
	"context"
	"fmt"
	"testing"

	"byline/store/emulator/internal/partitionkey"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestContainer_SeveralPartitions runs all operations on a container with three ranges.
func TestContainer_SeveralPartitions(t *testing.T) {
	ctx := context.Background()
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	inner := e.catalog.Load().databases["db"].containers["c"]
	inner.ranges = []*partition{{Range: partitionkey.Range{No: 1, Max: []byte{0x15}}},
		{Range: partitionkey.Range{No: 2, Min: []byte{0x15}, Max: []byte{0x2A}}},
		{Range: partitionkey.Range{No: 3, Min: []byte{0x2A}, Max: []byte{0xFF}}}}
	const n = 60
	for i := range n {
		mustCreate(t, c, fmt.Sprint(i), fmt.Sprintf(`{"id":"%d","pk":"%d","n":%d}`, i, i, i%2))
	}
	ranges, err := c.ReadFeedRanges(ctx, nil)
	if err != nil || len(ranges) != 3 {
		t.Fatal(ranges, err)
	}
	total := 0
	for i := range ranges {
		got := len(changes(t, c, &azcosmos.ChangeFeedOptions{FeedRange: &ranges[i], MaxItemCount: 7}))
		if got == 0 || got == n {
			t.Errorf("range %d has %d items", i, got)
		}
		total += got
	}
	if total != n {
		t.Errorf("the ranges have %d items of %d", total, n)
	}
	cross := azcosmos.NewPartitionKey()
	if rows := queryAll(t, c, "SELECT VALUE c.id FROM c", cross,
		&azcosmos.QueryOptions{PageSizeHint: 7}); len(rows) != n {
		t.Errorf("scan: got %d rows, want %d", len(rows), n)
	}
	if rows := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE c.n = 1", cross,
		&azcosmos.QueryOptions{PageSizeHint: 7}); len(rows) != n/2 {
		t.Errorf("range index: got %d rows, want %d", len(rows), n/2)
	}
	var ids []azcosmos.ItemIdentity
	for i := range n {
		ids = append(ids, azcosmos.ItemIdentity{ID: fmt.Sprint(i), PartitionKey: pk(fmt.Sprint(i))})
	}
	if res, err := c.ReadManyItems(ctx, ids, nil); err != nil || len(res.Items) != n {
		t.Errorf("read many: %d %v", len(res.Items), err)
	}
}

// TestPartitionKeyRangeID_ContainerPrefix: SDKs may put the container's resource id before the id
// of a physical partition.
func TestPartitionKeyRangeID_ContainerPrefix(t *testing.T) {
	const docs = "/dbs/db/colls/c/docs"
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	rid := e.catalog.Load().databases["db"].containers["c"].rid
	for _, one := range []struct {
		id   string
		want int
	}{{"0", 200}, {rid + ",0", 200}, {rid + ",1", 410}, {"another,0", 410}, {",0", 410}} {
		of := []string{"x-ms-documentdb-partitionkeyrangeid", one.id}
		if res := do(t, e, "POST", docs, `{"query":"SELECT * FROM c"}`,
			append(of, "Content-Type", "application/query+json")...); res.StatusCode != one.want {
			t.Errorf("%q: query: got %s, want %d", one.id, res.Status, one.want)
		}
		if res := do(t, e, "GET", docs, "", append(of, "A-IM", "Incremental Feed")...); res.StatusCode != one.want {
			t.Errorf("%q: change feed: got %s, want %d", one.id, res.Status, one.want)
		}
		if res, _ := bulk(t, e, one.id,
			`[{"operationType":"Read","id":"1","partitionKey":"[\"p\"]"}]`); res.StatusCode != one.want {
			t.Errorf("%q: bulk: got %s, want %d", one.id, res.Status, one.want)
		}
	}
}
