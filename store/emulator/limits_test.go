package emulator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestReindex_TooManyEntries: a policy under which a stored item would exceed the limit is refused,
// and the container does not change.
func TestReindex_TooManyEntries(t *testing.T) {
	heavy(t)
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, Options{})
	none := &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}
	c := newContainer(t, e, azcosmos.ContainerProperties{IndexingPolicy: none})
	properties, list := []byte(`{"id":"properties","pk":"`+strings.Repeat("k", 2048)+`"`), strings.Repeat("1,", 40_000)
	for i := range 20_000 {
		properties = fmt.Appendf(properties, `,"%d":0`, i)
	}
	if _, err := c.CreateItem(ctx, pk(strings.Repeat("k", 2048)), append(properties, '}'), nil); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, c, "p", `{"id":"list","pk":"p","a":[`+list+`1]}`)
	replace := func(policy *azcosmos.IndexingPolicy) error {
		_, err := c.Replace(ctx,
			azcosmos.ContainerProperties{ID: "c",
				PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
				IndexingPolicy:         policy}, nil)
		return err
	}
	all := &azcosmos.IndexingPolicy{Automatic: true, IndexingMode: azcosmos.IndexingModeConsistent,
		IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}}}
	composite := *all
	composite.IncludedPaths, composite.ExcludedPaths = nil, []azcosmos.ExcludedPath{{Path: "/*"}}
	for range 100 {
		composite.CompositeIndexes = append(composite.CompositeIndexes,
			[]azcosmos.CompositeIndex{{Path: "/a", Order: azcosmos.CompositeIndexAscending},
				{Path: "/id", Order: azcosmos.CompositeIndexAscending}})
	}
	for item, policy := range map[string]*azcosmos.IndexingPolicy{"properties": all, "list": &composite} {
		err := replace(policy)
		if wantStatus(t, err, http.StatusBadRequest, ""); !strings.Contains(err.Error(), "'"+item+"'") {
			t.Error(err)
		}
		now, err := c.Read(ctx, nil)
		if err != nil || now.ContainerProperties.IndexingPolicy.IndexingMode != "none" {
			t.Errorf("the indexing mode is %s, %v", now.ContainerProperties.IndexingPolicy.IndexingMode, err)
		}
		audit(t, e)
		if _, err := c.DeleteItem(ctx,
			pk(map[string]string{"properties": strings.Repeat("k", 2048), "list": "p"}[item]), item, nil); err != nil {
			t.Fatal(err)
		}
		if err := replace(policy); err != nil {
			t.Error(err)
		}
		if err := replace(none); err != nil {
			t.Error(err)
		}
	}
}

// TestLimits checks values at the service's limits and just beyond them.
func TestLimits(t *testing.T) {
	heavy(t)
	t.Parallel()
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	item := func(key, id string, size int) int {
		doc := fmt.Sprintf(`{"id":%q,"pk":%q,"x":""}`, id, key)
		doc = doc[:len(doc)-2] + strings.Repeat("x", max(0, size-len(doc))) + `"}`
		_, err := c.UpsertItem(ctx, pk(key), []byte(doc), nil)
		if statusOf(err) == http.StatusRequestEntityTooLarge {
			if got := rawResponse(err).Header.Get("x-ms-cosmos-max-content-length"); got != "2097152" {
				t.Errorf("x-ms-cosmos-max-content-length %q", got)
			}
		}
		return statusOf(err)
	}
	batch := func(ops, size int) int {
		b := c.NewTransactionalBatch(pk("p"))
		for i := range ops {
			b.UpsertItem(fmt.Appendf(nil, `{"id":"%d","pk":"p","x":%q}`, i, strings.Repeat("x", size/ops)), nil)
		}
		out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		if err == nil && !out.Success {
			return http.StatusMultiStatus
		}
		return statusOf(err)
	}
	patches := func(n int) int {
		var p azcosmos.PatchOperations
		for i := range n {
			p.AppendSet(fmt.Sprintf("/p%d", i), i)
		}
		_, err := c.PatchItem(ctx, pk("p"), "patched", p, nil)
		return statusOf(err)
	}
	properties := func(n int) int { // each with an entry of about 3 KB
		id, key := strings.Repeat("i", 1023), strings.Repeat("k", 2048)
		doc := fmt.Appendf(nil, `{"id":%q,"pk":%q`, id, key)
		for i := range n {
			doc = fmt.Appendf(doc, `,"%d":0`, i)
		}
		_, err := c.UpsertItem(ctx, pk(key), append(doc, '}'), nil)
		return statusOf(err)
	}
	var u azcosmos.UniqueKeyPolicy
	for range 10 {
		u.UniqueKeys = append(u.UniqueKeys, azcosmos.UniqueKey{Paths: slices.Repeat([]string{"/u"}, 16)})
	}
	unique := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{UniqueKeyPolicy: &u})
	inUniqueKeys := func(size int) int { // 160 times
		_, err := unique.UpsertItem(ctx, pk("p"),
			fmt.Appendf(nil, `{"id":"1","pk":"p","u":%q}`, strings.Repeat("u", size)), nil)
		return statusOf(err)
	}
	item("p", "patched", 100)
	for _, one := range []struct {
		name      string
		got, want int
	}{
		{"item of 2 MB", item("p", "big", 2<<20), 0},
		{"item of 2 MB and a byte", item("p", "big", 2<<20+1), http.StatusRequestEntityTooLarge},
		{"id of 1023 bytes", item("p", strings.Repeat("i", 1023), 0), 0},
		{"id of 1024 bytes", item("p", strings.Repeat("i", 1024), 0), http.StatusBadRequest},
		{"partition key of 2048 bytes", item(strings.Repeat("k", 2048), "1", 0), 0},
		{"partition key of 2049 bytes", item(strings.Repeat("k", 2049), "1", 0), http.StatusBadRequest},
		{"index entries of nearly 32 MB", properties(10_000), 0},
		{"index entries of over 32 MB", properties(11_000), http.StatusRequestEntityTooLarge},
		{"entries of unique keys of nearly 32 MB", inUniqueKeys(190_000), 0},
		{"entries of unique keys of over 32 MB", inUniqueKeys(220_000), http.StatusRequestEntityTooLarge},
		{"batch of 100 operations", batch(100, 1000), 0},
		{"batch of 101 operations", batch(101, 1000), http.StatusBadRequest},
		{"batch of nearly 2 MB", batch(4, 2<<20-1000), 0},
		{"batch of over 2 MB", batch(4, 2<<20), http.StatusRequestEntityTooLarge},
		{"10 patch operations", patches(10), 0},
		{"11 patch operations", patches(11), http.StatusBadRequest},
	} {
		if one.got != one.want {
			t.Errorf("%s: status %d, want %d", one.name, one.got, one.want)
		}
	}
}
