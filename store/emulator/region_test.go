package emulator

import (
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestRegions_SessionTokens: with several regions tokens have an LSN for each; the global LSN counts.
func TestRegions_SessionTokens(t *testing.T) {
	e := newEngine(t, Options{Regions: []string{"West Europe", "North Europe", "East US"}})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	if got, want := *mustCreate(t, c, "p", `{"id":"1","pk":"p"}`).SessionToken, "0:0#1#1=1#2=-1#3=-1"; got != want {
		t.Errorf("token %s, want %s", got, want)
	}
	for token, status := range map[string]int{
		"0:0#1#1=1#2=-1#3=-1":          0,
		"0:0#1#1=-1#2=-1#3=-1":         0,
		"0:7#1#35=99#7=-1":             0,
		"9:0#99#1=-1,0:0#1#1=-1":       0,
		"0:0#-1#1=-1":                  0,
		"0:-1#1":                       0,
		"0:0#2#1=1#2=-1":               404,
		"0:0#9223372036854775807#1=-1": 404,
		"0:0#x#1=1":                    400,
	} {
		_, err := c.ReadItem(t.Context(), pk("p"), "1", &azcosmos.ItemOptions{SessionToken: &token})
		if got := statusOf(err); got != status {
			t.Errorf("read with %s: %d, want %d", token, got, status)
		}
		o := &azcosmos.QueryOptions{SessionToken: &token}
		if _, err := c.NewQueryItemsPager("SELECT * FROM c", pk("p"), o).NextPage(t.Context()); statusOf(err) != status {
			t.Errorf("query with %s: %v, want %d", token, err, status)
		}
	}
}

// TestRegions_Names refuses regions that could not have hosts of their own.
func TestRegions_Names(t *testing.T) {
	for _, names := range [][]string{{""}, {"West US", ""}, {"West US", "westus"}} {
		t.Run(fmt.Sprintf("%q -> an error", names), func(t *testing.T) {
			if e, err := Open("", Options{Regions: names}); err == nil {
				t.Error("opened", e.Close())
			}
		})
	}
}
