package emulator

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
)

// account serves GET / to a client that reaches the account at endpoint.
func (e *Engine) account(endpoint string) (*response, error) {
	type location struct {
		Name     string `json:"name"`
		Endpoint string `json:"databaseAccountEndpoint"`
	}
	type replication struct {
		Async bool `json:"asyncReplication"`
		Min   int  `json:"minReplicaSetSize"`
		Max   int  `json:"maxReplicasetSize"`
	}
	var readable []location
	for i, name := range e.regions.names {
		readable = append(readable, location{name, e.regions.endpoint(endpoint, i)})
	}
	writable := readable
	if !e.regions.multiple {
		writable = readable[:1]
	}
	body, err := json.Marshal(struct {
		Self        string      `json:"_self"`
		ID          string      `json:"id"`
		RID         string      `json:"_rid"`
		Media       string      `json:"media"`
		Addresses   string      `json:"addresses"`
		Databases   string      `json:"_dbs"`
		Writable    []location  `json:"writableLocations"`
		Readable    []location  `json:"readableLocations"`
		MultiWrite  bool        `json:"enableMultipleWriteLocations"`
		UserReplica replication `json:"userReplicationPolicy"`
		Consistency struct {
			Level string `json:"defaultConsistencyLevel"`
		} `json:"userConsistencyPolicy"`
		SystemReplica replication `json:"systemReplicationPolicy"`
		ReadPolicy    struct {
			Primary   int `json:"primaryReadCoefficient"`
			Secondary int `json:"secondaryReadCoefficient"`
		} `json:"readPolicy"`
		QueryEngine string `json:"queryEngineConfiguration"`
	}{
		ID: "byline", RID: "byline.localhost", Media: "//media/", Addresses: "//addresses/", Databases: "//dbs/",
		Writable: writable, Readable: readable, MultiWrite: e.regions.multiple,
		UserReplica: replication{false, 1, 4}, SystemReplica: replication{false, 1, 4},
		Consistency: struct {
			Level string `json:"defaultConsistencyLevel"`
		}{"Strong"},
		ReadPolicy: struct {
			Primary   int `json:"primaryReadCoefficient"`
			Secondary int `json:"secondaryReadCoefficient"`
		}{1, 1},
		QueryEngine: queryEngineConfiguration,
	})
	if err != nil {
		return nil, err
	}
	return &response{status: 200, body: body, charge: charge.Metadata}, nil
}

// queryEngineConfiguration tells SDKs that plan queries themselves which constructs they may send.
const queryEngineConfiguration = `{"maxSqlQueryInputLength":262144,"maxJoinsPerSqlQuery":5,"maxLogicalAndPerSqlQuery":500,` +
	`"maxLogicalOrPerSqlQuery":500,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,` +
	`"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":false,` +
	`"sqlAllowScalarSubQuery":false,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,` +
	`"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,` +
	`"sqlAllowTop":true,"enableSpatialIndexing":true}`

// accountRegion is the region of an engine without Options.Regions, as in Microsoft's emulator.
const accountRegion = "South Central US"

// regions are the regions of the account. All of them serve the same state.
type regions struct {
	names    []string // at least one
	multiple bool     // every region takes writes
}

func newRegions(names []string, multiple bool) (*regions, error) {
	if len(names) == 0 {
		names = []string{accountRegion}
	}
	r := &regions{names: slices.Clone(names), multiple: multiple}
	for i, name := range names {
		if slug(name) == "" {
			return nil, errors.New("a region has no name")
		}
		if slices.ContainsFunc(names[:i], func(other string) bool { return slug(other) == slug(name) }) {
			return nil, errors.New("two regions have the name " + name)
		}
	}
	return r, nil
}

// slug returns the name of a region in host names.
func slug(region string) string { return strings.ToLower(strings.ReplaceAll(region, " ", "")) }

// endpoint returns the endpoint of a region: as in the service, the account's with the region's name
// in the first label of the host. An IP address has no labels: all regions have the account's endpoint.
func (r *regions) endpoint(account string, region int) string {
	if len(r.names) == 1 || isAddress(account) {
		return account
	}
	at := labelEnd(account)
	return account[:at] + "-" + slug(r.names[region]) + account[at:]
}

// isAddress reports whether the host of an endpoint is an IP address.
func isAddress(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && net.ParseIP(u.Hostname()) != nil
}

// labelEnd returns the end of the first label of an endpoint's host.
func labelEnd(endpoint string) int {
	start := strings.Index(endpoint, "//") + len("//")
	return start + strings.IndexAny(endpoint[start:], ".:/")
}

// find returns the region and the account's endpoint for the endpoint of a request. The account's
// endpoint stands for the region that takes the writes.
func (r *regions) find(endpoint string) (region int, account string) {
	if len(r.names) == 1 {
		return 0, endpoint
	}
	at := labelEnd(endpoint)
	for i, name := range r.names {
		if host, ok := strings.CutSuffix(endpoint[:at], "-"+slug(name)); ok {
			return i, host + endpoint[at:]
		}
	}
	return 0, endpoint
}

// checkWrite refuses a write in a region that only serves reads.
func (r *regions) checkWrite(q *request) error {
	if r.multiple || q.region == 0 || !q.writes() {
		return nil
	}
	return apierror.WriteForbidden()
}

// writes reports whether the request is a write.
func (q *request) writes() bool {
	switch q.kind {
	case kindRead, kindQuery, kindChangeFeed:
		return false
	case kindMetadata:
		return q.method != http.MethodGet && !isQuery(q)
	}
	return true
}

// sessionToken formats a session token: range:version#LSN, and with several regions the LSN of each. As
// in the service, it can be -1: unknown.
func (r *regions) sessionToken(p *partition, lsn uint64) string {
	b := strconv.AppendUint(make([]byte, 0, 48), uint64(p.No), 10)
	if len(r.names) == 1 {
		return string(strconv.AppendUint(append(b, ":-1#"...), lsn, 10))
	}
	b = strconv.AppendUint(append(b, ":0#"...), lsn, 10)
	for i := range r.names {
		b = append(strconv.AppendInt(append(b, '#'), int64(i)+1, 10), '=')
		if i == 0 {
			b = strconv.AppendUint(b, lsn, 10)
		} else {
			b = append(b, "-1"...)
		}
	}
	return string(b)
}
