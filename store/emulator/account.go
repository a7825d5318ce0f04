package emulator

import (
	"encoding/json"
	"strconv"

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
	regions := []location{{accountRegion, endpoint}}
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
		Writable: regions, Readable: regions,
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

// accountRegion is the region of the account, as in Microsoft's emulator.
const accountRegion = "South Central US"

// sessionToken formats a session token: range:version#LSN.
func sessionToken(p *partition, lsn uint64) string {
	b := strconv.AppendUint(make([]byte, 0, 24), uint64(p.No), 10)
	return string(strconv.AppendUint(append(b, ":-1#"...), lsn, 10))
}
