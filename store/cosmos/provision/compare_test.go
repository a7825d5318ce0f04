package provision

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"byline/store/cosmos"
	"byline/store/internal/cosmostest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// compared are the containers of the tests of Compare.
var compared = []ContainerSpec{{Name: "posts", PartitionKey: "/postId", TTL: true},
	{Name: "leases", PartitionKey: "/id"}}

// open opens an account with two regions.
func open(t *testing.T, g *cosmostest.Regions, o cosmos.Options) *cosmos.Account {
	t.Helper()
	o.Endpoint, o.Key, o.Credential = g.Endpoint, g.Key, g.Credential
	if o.Transport == nil {
		o.Transport = g
	}
	a, err := cosmos.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// wantDifferences fails the test unless these are the differences, as text, in this order.
func wantDifferences(t *testing.T, a *cosmos.Account, spec DatabaseSpec, want ...string) {
	t.Helper()
	all, err := Compare(t.Context(), a, spec)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, d := range all {
		text := d.Property + ": " + d.String()
		if d.Breaks {
			text = "BREAKS " + text
		}
		have = append(have, text)
	}
	if !slices.Equal(have, want) {
		t.Errorf("got differences\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// TestCompare_Containers: missing and different containers are reported, and nothing is created.
func TestCompare_Containers(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	a, spec := open(t, g, cosmos.Options{}), DatabaseSpec{Name: g.Database, Containers: compared}
	for range 2 {
		wantDifferences(t, a, spec, "BREAKS database: there is no database "+g.Database,
			"BREAKS container: container posts: it does not exist",
			"BREAKS container: container leases: it does not exist")
	}
	if err := Create(t.Context(), a,
		DatabaseSpec{Name: g.Database,
			Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}}); err != nil {
		t.Fatal(err)
	}
	wantDifferences(t, a, spec, "BREAKS container: container leases: it does not exist",
		"BREAKS time to live: container posts: time to live is off, so deleted items would stay")
	other := DatabaseSpec{Name: g.Database,
		Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}, compared[1]}}
	if err := Create(t.Context(), a, other); err != nil {
		t.Fatal(err)
	}
	wantDifferences(t, a, other)
}

// TestCompare_Account: regions, multi-region writes and the consistency of the account.
func TestCompare_Account(t *testing.T) {
	for level, want := range map[azcosmos.ConsistencyLevel][]string{
		azcosmos.ConsistencyLevelSession: nil,
		azcosmos.ConsistencyLevelStrong: {"consistency: the default consistency is Strong, with which reads cost " +
			"twice as much as with Session"},
		azcosmos.ConsistencyLevelEventual: {"consistency: the default consistency is Eventual, so viewers may not " +
			"read their own writes, and renames and deletions may miss items; set it to Session"},
	} {
		t.Run(string(level), func(t *testing.T) {
			g := cosmostest.OpenRegions(t)
			g.Consistency = string(level)
			a := open(t, g, cosmos.Options{Regions: []string{"East US", "North Pole"}})
			if err := Create(t.Context(), a, DatabaseSpec{Name: g.Database, Containers: compared}); err != nil {
				t.Fatal(err)
			}
			wantDifferences(t, a, DatabaseSpec{Name: g.Database, Containers: compared},
				slices.Concat(
					[]string{"regions: the account cannot be read in the preferred region North Pole, only in West " +
						"US, East US"}, want)...)
		})
	}
	g := cosmostest.OpenRegions(t)
	g.MultipleWrites = true
	wantDifferences(t, open(t, g, cosmos.Options{}), DatabaseSpec{Name: g.Database},
		"BREAKS multi-region writes: "+cosmos.ErrMultiRegionWrites.Error(),
		"BREAKS database: there is no database "+g.Database)
}

// TestCompare_Throughput: a new database gets the throughput; another throughput is a difference that breaks
// nothing.
func TestCompare_Throughput(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	a, spec := open(t, g, cosmos.Options{}), DatabaseSpec{Name: g.Database, MaxThroughput: 1000, Containers: compared}
	if err := Create(t.Context(), a, spec); err != nil {
		t.Fatal(err)
	}
	wantDifferences(t, a, spec)
	spec.MaxThroughput = 4000
	wantDifferences(t, a, spec, "throughput: the database has autoscale up to 1000 RU/s, not autoscale up to 4000 RU/s")
	spec.MaxThroughput = 0
	wantDifferences(t, a, spec)

	g = cosmostest.OpenRegions(t)
	a, spec = open(t, g, cosmos.Options{}), DatabaseSpec{Name: g.Database, Containers: compared[:1]}
	if err := Create(t.Context(), a, spec); err != nil {
		t.Fatal(err)
	}
	spec.MaxThroughput = 1000
	wantDifferences(t, a, spec, "throughput: the database has no throughput that its containers share",
		"throughput: container posts: it has 400 RU/s of its own")
}

// TestCompare_ThroughputOfServerlessAccount: a serverless account has no throughput; any other 400 is an error.
func TestCompare_ThroughputOfServerlessAccount(t *testing.T) {
	g := cosmostest.OpenRegions(t)
	spec := DatabaseSpec{Name: g.Database, MaxThroughput: 1000, Containers: compared}
	refusing := func(message string) *cosmos.Account {
		return open(t, g, cosmos.Options{Transport: offersRefused{g, message}})
	}
	a := refusing("Reading or replacing offers is not supported for serverless accounts.")
	if err := Create(t.Context(), a, spec); err != nil {
		t.Fatal(err)
	}
	wantDifferences(t, a, spec, "throughput: the database has no throughput that its containers share")
	if _, err := Compare(t.Context(), refusing("Syntax error."), spec); !cosmos.HasStatus(err, http.StatusBadRequest) {
		t.Errorf("got %v, want status 400", err)
	}
}

// offersRefused is a transport that responds to requests for throughput, and to those that would create a database
// with throughput, with 400 and a message.
type offersRefused struct {
	to      policy.Transporter
	message string
}

func (o offersRefused) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, "/offers") && r.Header.Get("X-Ms-Cosmos-Offer-Autopilot-Settings") == "" {
		return o.to.Do(r)
	}
	body := io.NopCloser(strings.NewReader(`{"code":"BadRequest","message":"` + o.message + `"}`))
	return &http.Response{StatusCode: http.StatusBadRequest, Status: "400 Bad Request", Header: http.Header{},
		Body: body, Request: r}, nil
}

func TestContainerSpec_Compare(t *testing.T) {
	spec := ContainerSpec{Name: "posts", PartitionKey: "/postId", Indexed: []string{"/postId", "/type"},
		Composite: [][]string{{"/type", "/id"}}, TTL: true}
	const (
		key       = `"partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}`
		ttl       = `"defaultTtl":-1`
		composite = `"compositeIndexes":[[{"path":"/type","order":"ascending"},{"path":"/id","order":"ascending"}]]`
		paths     = `"includedPaths":[{"path":"/postId/?"},{"path":"/type/?"}],"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}]`
		mode      = `"indexingMode":"consistent","automatic":true`
		policy    = `"indexingPolicy":{` + mode + `,` + paths + `,` + composite + `}`
	)
	for name, tt := range map[string]struct {
		have          string
		breaks, costs int
	}{
		"as specified": {`{` + key + `,` + ttl + `,` + policy + `}`, 0, 0},
		"quoted names": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/\"postId\"/?"},{"path":"/\"type\"/?"}],"excludedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/\"type\""},{"path":"/id"}]]}}`, 0, 0},
		"another partition key":      {`{"partitionKey":{"paths":["/id"]},` + ttl + `,` + policy + `}`, 1, 0},
		"hierarchical partition key": {`{"partitionKey":{"paths":["/postId","/id"]},` + ttl + `,` + policy + `}`, 1, 0},
		"no time to live":            {`{` + key + `,` + policy + `}`, 1, 0},
		"items expire":               {`{` + key + `,"defaultTtl":60,` + policy + `}`, 1, 0},
		"unique keys": {`{` + key + `,` + ttl + `,` + policy +
			`,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/title"]}]}}`, 1, 0},
		"no policy": {`{` + key + `,` + ttl + `}`, 1, 0},
		"mode none": {`{` + key + `,` + ttl +
			`,"indexingPolicy":{"indexingMode":"none","automatic":false}}`, 1, 0},
		"not automatic": {`{` + key + `,` + ttl + `,"indexingPolicy":{"indexingMode":"consistent",` +
			paths + `,` + composite + `}}`, 1, 0},
		"mode in capitals": {`{` + key + `,` + ttl +
			`,"indexingPolicy":{"indexingMode":"Consistent","automatic":true,` + paths + `,` + composite + `}}`, 0, 0},
		"no composite index": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `}}`, 1, 0},
		"descending": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths +
			`,"compositeIndexes":[[{"path":"/type","order":"descending"},{"path":"/id","order":"descending"}]]}}`, 0,
			0},
		"mixed orders": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths +
			`,"compositeIndexes":[[{"path":"/type","order":"ascending"},{"path":"/id","order":"descending"}]]}}`, 1, 1},
		"more columns": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths +
			`,"compositeIndexes":[[{"path":"/type"},{"path":"/id"},{"path":"/title"}]]}}`, 1, 1},
		"an unused composite index": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths +
			`,"compositeIndexes":[[{"path":"/type"},{"path":"/id"}],[{"path":"/id"},{"path":"/title"}]]}}`, 0, 1},
		"a path missing": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/type/?"}],"excludedPaths":[{"path":"/*"}],` + composite + `}}`, 0, 1},
		"everything indexed": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/*"}],` + composite + `}}`, 0, 1},
		"everything except the type": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/type/?"}],` + composite + `}}`, 0, 2},
		"below the type": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/postId/?"},{"path":"/type/*"}],"excludedPaths":[{"path":"/*"}],` + composite +
			`}}`, 0, 1},
		"a prefix of the name": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/postId/?"},{"path":"/typ/*"}],"excludedPaths":[{"path":"/*"}],` + composite +
			`}}`, 0, 2},
		"a spatial index": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,` + composite +
			`,"spatialIndexes":[{"path":"/place/*","types":["Point"]}]}}`, 0, 1},
		"a full-text index": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,` + composite +
			`,"fullTextIndexes":[{"path":"/title"}]}}`, 0, 1},
		"several": {`{"partitionKey":{"paths":["/id"]},"indexingPolicy":{` + mode +
			`,"includedPaths":[{"path":"/*"}]}}`, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var have azcosmos.ContainerProperties
			if err := json.Unmarshal([]byte(tt.have), &have); err != nil {
				t.Fatal(err)
			}
			all := spec.compare(have)
			breaks := 0
			for _, d := range all {
				if d.Breaks {
					breaks++
				}
			}
			if breaks != tt.breaks || len(all)-breaks != tt.costs {
				t.Errorf("%q: got %d that break and %d that cost, want %d and %d", all, breaks, len(all)-breaks,
					tt.breaks, tt.costs)
			}
			if !slices.IsSortedFunc(all, func(a, b Difference) int {
				if a.Breaks == b.Breaks {
					return 0
				} else if a.Breaks {
					return -1
				}
				return 1
			}) {
				t.Errorf("%q: those that break are not first", all)
			}
		})
	}
}

func TestContainerSpec_CompareFullText(t *testing.T) {
	spec := ContainerSpec{Name: "search", PartitionKey: "/decade", FullText: []string{"/text"}}
	const index = `"fullTextIndexes":[{"path":"/text"}]`
	for name, tt := range map[string]struct {
		policy, indexes string
		want            []string // properties that differ
	}{
		"as specified": {`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/text","language":"en-US"}]}`, index, nil},
		"default language, quoted name": {`{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/\"text\""}]}`,
			`"fullTextIndexes":[{"path":"/\"text\""}]`, nil},
		"no index": {`{"fullTextPaths":[{"path":"/text","language":"en-US"}]}`, `"spatialIndexes":[]`,
			[]string{"full-text index"}},
		"no policy":        {`null`, index, []string{"full-text policy"}},
		"another language": {`{"fullTextPaths":[{"path":"/text","language":"fr-FR"}]}`, index, []string{"full-text policy"}},
		"another path": {`{"fullTextPaths":[{"path":"/title","language":"en-US"}]}`,
			`"fullTextIndexes":[{"path":"/text"},{"path":"/title"}]`, []string{"full-text policy", "indexes"}},
	} {
		t.Run(name, func(t *testing.T) {
			var have azcosmos.ContainerProperties
			if err := json.Unmarshal([]byte(`{"partitionKey":{"paths":["/decade"],"kind":"Hash","version":2},`+
				`"fullTextPolicy":`+tt.policy+`,"indexingPolicy":{"indexingMode":"consistent","automatic":true,`+
				tt.indexes+`}}`), &have); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range spec.compare(have) {
				if got = append(got, d.Property); d.Breaks {
					t.Errorf("%s: it would prevent serving", d)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got differences of %q, want %q", got, tt.want)
			}
		})
	}
}

// TestContainerSpec_Created: a container as Provision creates it has no differences.
func TestContainerSpec_Created(t *testing.T) {
	for _, spec := range []ContainerSpec{
		{Name: "posts", PartitionKey: "/postId", Indexed: []string{"/postId"}, Composite: [][]string{{"/type", "/id"}},
			TTL: true},
		{Name: "leases", PartitionKey: "/id"},
		{Name: "search", PartitionKey: "/decade", Indexed: []string{"/tags/[]"}, FullText: []string{"/text"}},
	} {
		if d := spec.compare(spec.properties()); d != nil {
			t.Errorf("%s: got differences %q", spec.Name, d)
		}
	}
}
