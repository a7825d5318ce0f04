package cosmos

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestContainerSpec_Compare(t *testing.T) {
	spec := ContainerSpec{Name: "posts", PartitionKey: "/postId", Indexed: []string{"/postId", "/type"}, Composite: []string{"/type", "/id"}, TTL: true}
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
		"as specified":               {`{` + key + `,` + ttl + `,` + policy + `}`, 0, 0},
		"quoted names":               {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/\"postId\"/?"},{"path":"/\"type\"/?"}],"excludedPaths":[{"path":"/*"}],"compositeIndexes":[[{"path":"/\"type\""},{"path":"/id"}]]}}`, 0, 0},
		"another partition key":      {`{"partitionKey":{"paths":["/id"]},` + ttl + `,` + policy + `}`, 1, 0},
		"hierarchical partition key": {`{"partitionKey":{"paths":["/postId","/id"]},` + ttl + `,` + policy + `}`, 1, 0},
		"no time to live":            {`{` + key + `,` + policy + `}`, 1, 0},
		"items expire":               {`{` + key + `,"defaultTtl":60,` + policy + `}`, 1, 0},
		"unique keys":                {`{` + key + `,` + ttl + `,` + policy + `,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/title"]}]}}`, 1, 0},
		"no policy":                  {`{` + key + `,` + ttl + `}`, 1, 0},
		"mode none":                  {`{` + key + `,` + ttl + `,"indexingPolicy":{"indexingMode":"none","automatic":false}}`, 1, 0},
		"not automatic":              {`{` + key + `,` + ttl + `,"indexingPolicy":{"indexingMode":"consistent",` + paths + `,` + composite + `}}`, 1, 0},
		"mode in capitals":           {`{` + key + `,` + ttl + `,"indexingPolicy":{"indexingMode":"Consistent","automatic":true,` + paths + `,` + composite + `}}`, 0, 0},
		"no composite index":         {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `}}`, 1, 0},
		"descending":                 {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,"compositeIndexes":[[{"path":"/type","order":"descending"},{"path":"/id","order":"descending"}]]}}`, 0, 0},
		"mixed orders":               {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,"compositeIndexes":[[{"path":"/type","order":"ascending"},{"path":"/id","order":"descending"}]]}}`, 1, 1},
		"more columns":               {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,"compositeIndexes":[[{"path":"/type"},{"path":"/id"},{"path":"/title"}]]}}`, 1, 1},
		"an unused composite index":  {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,"compositeIndexes":[[{"path":"/type"},{"path":"/id"}],[{"path":"/id"},{"path":"/title"}]]}}`, 0, 1},
		"a path missing":             {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/type/?"}],"excludedPaths":[{"path":"/*"}],` + composite + `}}`, 0, 1},
		"everything indexed":         {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/*"}],` + composite + `}}`, 0, 1},
		"everything except the type": {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/type/?"}],` + composite + `}}`, 0, 2},
		"below the type":             {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/postId/?"},{"path":"/type/*"}],"excludedPaths":[{"path":"/*"}],` + composite + `}}`, 0, 1},
		"a prefix of the name":       {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/postId/?"},{"path":"/typ/*"}],"excludedPaths":[{"path":"/*"}],` + composite + `}}`, 0, 2},
		"a spatial index":            {`{` + key + `,` + ttl + `,"indexingPolicy":{` + mode + `,` + paths + `,` + composite + `,"spatialIndexes":[{"path":"/place/*","types":["Point"]}]}}`, 0, 1},
		"several":                    {`{"partitionKey":{"paths":["/id"]},"indexingPolicy":{` + mode + `,"includedPaths":[{"path":"/*"}]}}`, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var have azcosmos.ContainerProperties
			if err := json.Unmarshal([]byte(tt.have), &have); err != nil {
				t.Fatal(err)
			}
			all := spec.Compare(have)
			breaks := 0
			for _, d := range all {
				if d.Breaks {
					breaks++
				}
			}
			if breaks != tt.breaks || len(all)-breaks != tt.costs {
				t.Errorf("%q: got %d that break and %d that cost, want %d and %d", all, breaks, len(all)-breaks, tt.breaks, tt.costs)
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

// TestContainerSpec_Created: a container as Provision creates it has no differences.
func TestContainerSpec_Created(t *testing.T) {
	for _, spec := range []ContainerSpec{
		{Name: "posts", PartitionKey: "/postId", Indexed: []string{"/postId"}, Composite: []string{"/type", "/id"}, TTL: true},
		{Name: "leases", PartitionKey: "/id"},
	} {
		if d := spec.Compare(spec.properties()); d != nil {
			t.Errorf("%s: got differences %q", spec.Name, d)
		}
	}
}
