package emulator

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestEntraDataPlaneOnly: an Entra ID token may only read metadata, and read and write items.
func TestEntraDataPlaneOnly(t *testing.T) {
	for only, want := range map[bool]int{false: 0, true: 403} {
		e := newEngine(t, Options{EntraDataPlaneOnly: only})
		newContainer(t, e, azcosmos.ContainerProperties{}) // with the key
		client, err := azcosmos.NewClient(e.Endpoint(), e.Credential(),
			&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
				Transport: e, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		db, err := client.NewDatabase("db")
		if err != nil {
			t.Fatal(err)
		}
		c, err := db.NewContainer("c")
		if err != nil {
			t.Fatal(err)
		}
		properties := azcosmos.ContainerProperties{ID: "c",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}}
		throughput := azcosmos.NewManualThroughputProperties(500)
		for _, one := range []struct {
			name string
			want int
			call func() error
		}{
			{"create an item", 0, func() error {
				_, err := c.CreateItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil)
				return err
			}},
			{"query items", 0, func() error {
				_, err := c.NewQueryItemsPager("SELECT * FROM c", pk("p"), nil).NextPage(t.Context())
				return err
			}},
			{"read a container", 0, func() error { _, err := c.Read(t.Context(), nil); return err }},
			{"read a database", 0, func() error { _, err := db.Read(t.Context(), nil); return err }},
			{"read the ranges", 0, func() error { _, err := c.ReadFeedRanges(t.Context(), nil); return err }},
			{"list containers", 0, func() error {
				_, err := db.NewQueryContainersPager("SELECT * FROM c", nil).NextPage(t.Context())
				return err
			}},
			{"create a database", want, func() error {
				_, err := client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "other"}, nil)
				return err
			}},
			{"create a container", want, func() error {
				_, err := db.CreateContainer(t.Context(),
					azcosmos.ContainerProperties{ID: "other",
						PartitionKeyDefinition: properties.PartitionKeyDefinition}, nil)
				return err
			}},
			{"read throughput", want, func() error { _, err := c.ReadThroughput(t.Context(), nil); return err }},
			{"replace throughput", want, func() error {
				_, err := c.ReplaceThroughput(t.Context(), throughput, nil)
				return err
			}},
			{"replace a container", want, func() error {
				_, err := c.Replace(t.Context(), properties, nil)
				return err
			}},
			{"delete a container", want, func() error { _, err := c.Delete(t.Context(), nil); return err }},
			{"delete a database", want, func() error { _, err := db.Delete(t.Context(), nil); return err }},
		} {
			err := one.call()
			if got := statusOf(err); got != one.want || err != nil && got == 0 ||
				got == 403 &&
					(subStatusOf(err) != "5300" || !strings.Contains(err.Error(), "AAD token in data plane")) {
				t.Errorf("only %v: %s: %v, want %d", only, one.name, err, one.want)
			}
		}
	}
}
