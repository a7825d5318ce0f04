package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/emulator/internal/apierror"
)

// TestRegions_SessionTokens: with several regions, tokens have an LSN for each; only the global LSN counts.
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

// TestRegions_EndpointOfAddress: at an IP address all regions have the account's endpoint, which stands for
// the write region.
func TestRegions_EndpointOfAddress(t *testing.T) {
	r, err := newRegions([]string{"West Europe", "North Europe"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]string{
		"http://127.0.0.1:8081/":         "http://127.0.0.1:8081/",
		"https://[::1]:8081/":            "https://[::1]:8081/",
		"https://10.0.0.1/":              "https://10.0.0.1/",
		"http://account.localhost:8081/": "http://account-westeurope.localhost:8081/",
	} {
		if got := r.endpoint(account, 0); got != want {
			t.Errorf("%s: the endpoint of the region is %s, want %s", account, got, want)
		}
		if region, found := r.find(account); region != 0 || found != account {
			t.Errorf("%s: found region %d of %s, want region 0 of %[1]s", account, region, found)
		}
	}
}

// TestRegions_Names: regions without a name, or with the same host, are refused.
func TestRegions_Names(t *testing.T) {
	for _, names := range [][]string{{""}, {"West US", ""}, {"West US", "westus"}} {
		t.Run(fmt.Sprintf("%q -> an error", names), func(t *testing.T) {
			if e, err := Open("", Options{Regions: names}); err == nil {
				t.Error("Open succeeded", e.Close())
			}
		})
	}
}

// failingRegion records where reads and writes go, and fails the reads of East US.
type failingRegion struct {
	*Engine
	fault *apierror.Error // nil: none fails

	mu            sync.Mutex
	reads, writes []string // guarded by mu; regions
}

func (f *failingRegion) Do(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/docs") {
		return f.Engine.Do(r)
	}
	region, _ := f.regions.find("http://" + r.URL.Host + "/")
	name, read := f.regions.names[region], r.Method == http.MethodGet
	f.mu.Lock()
	defer f.mu.Unlock()
	if !read {
		f.writes = append(f.writes, name)
		return f.Engine.Do(r)
	}
	f.reads = append(f.reads, name)
	if name != "East US" || f.fault == nil {
		return f.Engine.Do(r)
	}
	header := http.Header{"X-Ms-Substatus": {strconv.Itoa(f.fault.Substatus)}}
	return &http.Response{StatusCode: f.fault.Status, Header: header, Request: r,
		Body: io.NopCloser(bytes.NewReader(f.fault.Body()))}, nil
}

// container returns the container c for a client that prefers regions.
func (f *failingRegion) container(t *testing.T, preferred ...string) *azcosmos.ContainerClient {
	t.Helper()
	cred, err := azcosmos.NewKeyCredential(testkit.Secret(WellKnownKey))
	if err != nil {
		t.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(f.Endpoint(), cred, &azcosmos.ClientOptions{PreferredRegions: preferred,
		ClientOptions: azcore.ClientOptions{Transport: f, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c, err := client.NewContainer("db", "c")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRegions_Unavailable: azcosmos reads in its preferred region, and in another one while that fails.
func TestRegions_Unavailable(t *testing.T) {
	for name, fault := range map[string]*apierror.Error{
		"healthy":               nil,
		"503":                   apierror.Unavailable("injected"),
		"session not available": apierror.SessionNotAvailable(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, Options{Regions: []string{"West US", "East US"}})
				mustCreate(t, newContainer(t, e, azcosmos.ContainerProperties{}), "p", `{"id":"1","pk":"p"}`)
				f := &failingRegion{Engine: e, fault: fault}
				c := f.container(t, "East US", "West US")
				want := []string{"East US"}
				if fault != nil {
					want = []string{"East US", "West US"}
				}
				if _, err := c.ReadItem(t.Context(), pk("p"), "1", nil); err != nil || !slices.Equal(f.reads, want) {
					t.Errorf("read in %v, want %v: %v", f.reads, want, err)
				}
				if _, err := c.UpsertItem(t.Context(), pk("p"), []byte(`{"id":"1","pk":"p"}`), nil); err != nil ||
					!slices.Equal(f.writes, []string{"West US"}) {
					t.Errorf("written in %v, want West US: %v", f.writes, err)
				}
			})
		})
	}
}

// TestRegions_Writes: only the write region takes writes, unless all do.
func TestRegions_Writes(t *testing.T) {
	for multiple, want := range map[bool]int{false: http.StatusForbidden, true: http.StatusCreated} {
		e := newEngine(t, Options{Regions: []string{"West US", "East US"}, multipleWriteRegions: multiple})
		newContainer(t, e, azcosmos.ContainerProperties{})
		in := func(region int, method, path, body string, header ...string) *http.Response {
			t.Helper()
			h := http.Header{}
			for i := 0; i < len(header); i += 2 {
				h.Set(header[i], header[i+1])
			}
			r := signed(t, method, path, h, []byte(body))
			r.URL.Host = e.regions.endpoint(e.Endpoint(),
				region)[len("http://") : len(e.regions.endpoint(e.Endpoint(), region))-1]
			res, err := e.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		const key = "x-ms-documentdb-partitionkey"
		if res := in(1, http.MethodPost, "/dbs/db/colls/c/docs", `{"id":"1","pk":"p"}`, key,
			`["p"]`); res.StatusCode != want {
			t.Errorf("multiple %v: created in the second region: %s", multiple, res.Status)
		}
		if res := in(1, http.MethodPost, "/dbs", `{"id":"other"}`); res.StatusCode != want {
			t.Errorf("multiple %v: database in the second region: %s", multiple, res.Status)
		}
		if res := in(0, http.MethodPost, "/dbs/db/colls/c/docs", `{"id":"2","pk":"p"}`, key,
			`["p"]`); res.StatusCode != http.StatusCreated {
			t.Errorf("multiple %v: created in the first region: %s", multiple, res.Status)
		}
		if res := in(1, http.MethodGet, "/dbs/db/colls/c/docs/2", "", key, `["p"]`); res.StatusCode != http.StatusOK {
			t.Errorf("multiple %v: read in the second region: %s", multiple, res.Status)
		}
		var account struct {
			Writable []struct{ Name string } `json:"writableLocations"`
			Readable []struct {
				Name     string
				Endpoint string `json:"databaseAccountEndpoint"`
			} `json:"readableLocations"`
			Multiple bool `json:"enableMultipleWriteLocations"`
		}
		if err := json.NewDecoder(in(1, http.MethodGet, "/", "").Body).Decode(&account); err != nil {
			t.Fatal(err)
		}
		if len(account.Readable) != 2 || len(account.Writable) != map[bool]int{false: 1, true: 2}[multiple] ||
			account.Multiple != multiple ||
			account.Readable[1].Name != "East US" ||
			account.Readable[1].Endpoint != e.regions.endpoint(e.Endpoint(), 1) {
			t.Errorf("multiple %v: %+v", multiple, account)
		}
	}
}
