package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestSessionToken_Regions: the tokens of accounts with several regions have an LSN for each; only the global LSN
// counts.
func TestSessionToken_Regions(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	if got, want := *mustCreate(t, c, "p", `{"id":"1","pk":"p"}`).SessionToken, "0:-1#1"; got != want {
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
		if _, err := c.NewQueryItemsPager("SELECT * FROM c", pk("p"),
			o).NextPage(t.Context()); statusOf(err) != status {
			t.Errorf("query with %s: %v, want %d", token, err, status)
		}
	}
}

// TestSessionToken_TooLong: every request with the token of 256 ranges in three regions is refused.
func TestSessionToken_TooLong(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	token := func(ranges int) string {
		var all []string
		for i := range ranges {
			all = append(all,
				fmt.Sprintf("%d:1#%d#1=%d#2=-1#3=%d", 1000+i, 1_000_000_000_000+i, 1_000_000_000_000+i,
					1_000_000_000_000+i))
		}
		return strings.Join(all, ",")
	}
	for ranges, want := range map[int][]int{1: {200, 404}, 100: {200, 404}, 256: {400, 400}} {
		for i, path := range []string{"/dbs/db/colls/c", "/dbs/db/colls/c/docs/none"} {
			res := do(t, e, http.MethodGet, path, "", "x-ms-documentdb-partitionkey", `["p"]`, "x-ms-session-token",
				token(ranges))
			if res.StatusCode != want[i] {
				t.Errorf("%s with a token of %d ranges, %d bytes: %s, want %d", path, ranges, len(token(ranges)),
					res.Status, want[i])
			}
		}
	}
}
