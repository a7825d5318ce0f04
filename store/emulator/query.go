package emulator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"byline/internal/jsonpart"
	"byline/store/emulator/internal/sql"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Limits of a page.
const (
	defaultPageSize = 1000
	maxPageBytes    = 4 << 20
	maxPageScan     = 10_000 // index entries and items read for a page
)

func isQuery(q *request) bool {
	return q.is("X-Ms-Documentdb-Isquery") || q.is("X-Ms-Documentdb-Query") ||
		strings.HasPrefix(q.get("Content-Type"), "application/query+json")
}

// pageSize parses x-ms-max-item-count.
func pageSize(q *request) (int, error) {
	s := q.get("X-Ms-Max-Item-Count")
	if s == "" {
		return defaultPageSize, nil
	}
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n < -1:
		return 0, badRequest("The value '%s' specified for the header 'x-ms-max-item-count' is invalid.", s)
	case n == -1:
		return maxPageScan, nil
	case n == 0:
		return defaultPageSize, nil
	}
	return min(n, maxPageScan), nil
}

// feedResponse returns a list of resources.
func feedResponse(name, rid string, rows [][]byte) *response {
	return finishPage(append(appendPageStart(nil, name, rid), bytes.Join(rows, []byte{','})...), len(rows))
}

func appendPageStart(dst []byte, name, rid string) []byte {
	dst = append(append(dst, `{"_rid":"`...), rid...)
	return append(append(append(dst, `","`...), name...), `":[`...)
}

// finishPage completes a list started by appendPageStart.
func finishPage(b []byte, n int) *response {
	b = append(strconv.AppendInt(append(b, `],"_count":`...), int64(n), 10), '}')
	return &response{status: http.StatusOK, body: b, charge: chargeMetadata, items: n, counted: true}
}

// bindQuery parses and binds the body of a query request. It also returns the query's text.
func (e *Engine) bindQuery(body []byte) (*sql.Bound, string, error) {
	if !sql.ValidJSON(body) || tooDeep(body) {
		return nil, "", badRequest("The query request is invalid: it is not well-formed JSON.")
	}
	var text string
	var parameters []sql.Param
	for c := range jsonpart.Children(bytes.TrimSpace(body)) {
		switch string(memberName(c)) {
		case "query":
			readText(c.Value, &text)
		case "parameters":
			var err error
			if parameters, err = queryParameters(c.Value); err != nil {
				return nil, "", err
			}
		}
	}
	query, err := e.queries.parse(text)
	if err != nil {
		return nil, "", queryError(err)
	}
	b, err := query.Bind(parameters)
	if err != nil {
		return nil, "", queryError(err)
	}
	return b, text, nil
}

// queryParameters parses the parameters of a query: null, or an array of objects with a name and a
// value. A missing value is undefined: JavaScript omits undefined values.
func queryParameters(list []byte) (parameters []sql.Param, err error) {
	switch list[0] {
	case 'n':
		return nil, nil
	case '[':
	default:
		return nil, badRequest("The query request is invalid: 'parameters' is not an array.")
	}
	for p := range jsonpart.Children(list) {
		var one sql.Param
		for c := range jsonpart.Children(p.Value) {
			switch string(memberName(c)) {
			case "name":
				readText(c.Value, &one.Name)
			case "value":
				one.Value = c.Value
			}
		}
		if one.Name == "" {
			return nil, badRequest("The query request is invalid: parameter %d of 'parameters' has no name.", len(parameters)+1)
		}
		parameters = append(parameters, one)
	}
	if name := duplicateName(parameters); name != "" {
		return nil, badRequest("The query request is invalid: the parameter '%s' is given more than once.", name)
	}
	return parameters, nil
}

// duplicateName returns a name that two parameters share, or "".
func duplicateName(parameters []sql.Param) string {
	if len(parameters) <= 8 { // avoids a map for most queries
		for i, p := range parameters {
			if slices.ContainsFunc(parameters[:i], func(o sql.Param) bool { return o.Name == p.Name }) {
				return p.Name
			}
		}
		return ""
	}
	seen := make(map[string]bool, len(parameters))
	for _, p := range parameters {
		if seen[p.Name] {
			return p.Name
		}
		seen[p.Name] = true
	}
	return ""
}

// parserCache parses texts and caches the results, least recently used first out.
type parserCache struct {
	cache  *lru.Cache[string, *sql.Query]
	parser func(text string) (*sql.Query, error)
}

func newParserCache(parse func(text string) (*sql.Query, error)) parserCache {
	cache, err := lru.New[string, *sql.Query](maxCachedQueries)
	if err != nil {
		panic(err) // the size is positive
	}
	return parserCache{cache, parse}
}

func (t parserCache) parse(text string) (*sql.Query, error) {
	if query, ok := t.cache.Get(text); ok {
		return query, nil
	}
	query, err := t.parser(text)
	if err == nil && len(text) <= maxCachedText { // a parsed query takes many times the size of its text
		t.cache.Add(text, query)
	}
	return query, err
}

// queryError formats an error of the query language as the service does: as JSON within the
// message.
func queryError(err error) error {
	var se *sql.Error
	if !errors.As(err, &se) {
		return err
	}
	detail, err := json.Marshal(map[string]any{"errors": []map[string]any{{
		"severity": "Error", "code": "SC1001", "message": se.Message,
		"location": map[string]int{"start": se.Pos, "end": se.End},
	}}})
	if err != nil {
		return err
	}
	return badRequest("%s", detail)
}

// queryMetadata runs a query over databases, containers or offers.
func (e *Engine) queryMetadata(q *request, name, rid string, bodies [][]byte) (*response, error) {
	b, _, err := e.bindQuery(q.body)
	if err != nil {
		return nil, err
	}
	if len(b.OrderBy()) > 0 || b.Aggregates() {
		return nil, badRequest("A query over %s can only filter, project and limit.", name)
	}
	var rows [][]byte
	metrics := queryMetrics{retrieved: len(bodies), took: time.Millisecond}
	item := b.Evaluator()
	for _, body := range bodies {
		metrics.loaded += len(body)
		item.Next(body)
		if ok, err := item.Matches(); err != nil {
			return nil, queryError(err)
		} else if !ok {
			continue
		}
		row, ok, err := item.Project(nil)
		if err != nil {
			return nil, queryError(err)
		}
		if ok {
			rows = append(rows, row)
		}
	}
	if offset, limit, ok := b.OffsetLimit(); ok {
		rows = rows[min(offset, len(rows)):]
		rows = rows[:min(limit, len(rows))]
	}
	if n, ok := b.Top(); ok {
		rows = rows[:min(n, len(rows))]
	}
	resp := feedResponse(name, rid, rows)
	resp.charge = chargeQueryBase
	metrics.rows = len(rows)
	for _, row := range rows {
		metrics.output += len(row)
	}
	resp.extra = metrics.header(q)
	return resp, nil
}

// query serves a query over items, or the request for its plan.
func (e *Engine) query(q *request, c *container) (*response, error) {
	b, text, err := e.bindQuery(q.body)
	if err != nil {
		return nil, err
	}
	if q.is("X-Ms-Cosmos-Is-Query-Plan-Request") {
		return e.queryPlan(c, b, text)
	}
	return e.runQuery(q, c, b, q.body)
}

// listItems serves the list of a container's items.
func (e *Engine) listItems(q *request, c *container) (*response, error) {
	const all = `{"query":"SELECT * FROM c"}`
	b, _, err := e.bindQuery([]byte(all))
	if err != nil {
		return nil, err
	}
	q.header = q.header.Clone()
	q.header.Set("X-Ms-Documentdb-Query-Enablecrosspartition", "true")
	return e.runQuery(q, c, b, []byte(all))
}

func (e *Engine) runQuery(q *request, c *container, b *sql.Bound, body []byte) (resp *response, err error) {
	began := time.Now()
	r := queryRun{e: e, q: q, c: c, bound: b, item: b.Evaluator(), scratch: scratches.Get().(*scratch)}
	defer r.scratch.release()
	if r.size, err = pageSize(q); err != nil {
		return nil, err
	}
	fingerprint := func() [8]byte { return queryFingerprint(c, q.get("X-Ms-Documentdb-Partitionkey"), body) }
	if token := q.get("X-Ms-Continuation"); token != "" {
		if r.from, err = decodeContinuation(token, fingerprint()); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, err := r.begin()
	if err != nil {
		return nil, err
	}
	resp = (&response{container: c, partition: p}).at(e, r.state.at(p))
	partitions := []*partition{p}
	if r.plan.across() {
		partitions = r.scope.ranges
		resp.payers = partitions
	}
	if err := e.admit(q, partitions...); err != nil {
		return resp, err
	}
	for _, one := range partitions {
		if err := checkSession(one, one.applied.Load(), q.get("X-Ms-Session-Token")); err != nil {
			return resp, err
		}
	}
	if err := r.run(); err != nil {
		return resp, err
	}
	for _, p := range r.scope.ranges {
		if err := e.durable.waitSynced(q.ctx, p, p.applied.Load()); err != nil {
			return nil, err
		}
	}
	metrics := queryMetrics{retrieved: r.filtered, loaded: r.loaded, rows: r.rows, output: len(r.out) - r.head - max(0, r.rows-1)}
	out := r.scratch.finishPage(r.out, r.rows)
	resp.status, resp.body, resp.items, resp.counted = http.StatusOK, out.body, out.items, true
	if resp.charge, err = r.charge(); err != nil {
		return nil, err
	}
	if r.next != nil {
		resp.continuation = r.next.encode(fingerprint())
	}
	metrics.took = time.Since(began)
	resp.extra = metrics.header(q)
	if q.is("X-Ms-Cosmos-Populateindexmetrics") {
		resp.extra = append(resp.extra, "X-Ms-Cosmos-Index-Utilization", base64.StdEncoding.EncodeToString([]byte(r.indexMetrics())))
	}
	return resp, nil
}

// charge returns the charge of the page. Without an index on the partition key, the service finds
// the items of a logical partition by a scan of the physical one, unless the query names their ids.
func (r *queryRun) charge() (float64, error) {
	entries, loaded := r.entries, r.loaded
	if r.scope.exact && !r.def.keyIndexed && r.plan.kind&^(planSorted|planRows) != planPoints {
		all, err := r.e.sizeOfPartition(r.c, r.scope.ranges[0])
		if err != nil {
			return 0, err
		}
		entries, loaded = max(entries, all.items), max(loaded, all.bytes)
	}
	if r.bound.Aggregates() { // the service computes them from the index
		loaded = 0
	}
	return queryCharge(entries, r.seeks, r.rows, loaded), nil
}

// crossPartitionError reports that the client has to merge the results of partitions.
func crossPartitionError(b *sql.Bound) error {
	info := map[string]any{}
	var orders []string
	for _, o := range b.OrderBy() {
		if o.Desc {
			orders = append(orders, "Descending")
		} else {
			orders = append(orders, "Ascending")
		}
	}
	info["orderBy"] = append([]string{}, orders...)
	if n, ok := b.Top(); ok {
		info["top"] = n
	}
	if offset, limit, ok := b.OffsetLimit(); ok {
		info["offset"], info["limit"] = offset, limit
	}
	extra, err := json.Marshal(map[string]any{"partitionedQueryExecutionInfoVersion": 2, "queryInfo": info,
		"queryRanges": []map[string]any{{"min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false}}})
	if err != nil {
		return err
	}
	return &apiError{status: http.StatusBadRequest, substatus: subCrossPartition, code: "BadRequest", charge: chargeBadRequest, extra: extra,
		message: "The provided cross partition query can not be directly served by the gateway. " +
			"This is a first chance (internal) exception that all newer clients will know how to handle gracefully."}
}

// queryMetrics are the figures of a page for its query metrics.
type queryMetrics struct {
	retrieved int // items read
	loaded    int // their bytes
	rows      int
	output    int // their bytes
	took      time.Duration
}

// header returns the query metrics header, if requested. Figures that are not measured are 0.
func (w queryMetrics) header(q *request) []string {
	if !q.is("X-Ms-Documentdb-Populatequerymetrics") {
		return nil
	}
	ms := float64(w.took.Microseconds()) / 1000
	ratio := 1.0
	if w.retrieved > 0 {
		ratio = float64(w.rows) / float64(w.retrieved)
	}
	b := append(make([]byte, 0, 512), "totalExecutionTimeInMs="...)
	b = strconv.AppendFloat(b, ms, 'f', 2, 64)
	b = append(b, ";queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs="...)
	b = strconv.AppendFloat(b, ms, 'f', 2, 64)
	b = append(b, ";indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount="...)
	b = strconv.AppendInt(b, int64(w.retrieved), 10)
	b = append(b, ";retrievedDocumentSize="...)
	b = strconv.AppendInt(b, int64(w.loaded), 10)
	b = append(b, ";outputDocumentCount="...)
	b = strconv.AppendInt(b, int64(w.rows), 10)
	b = append(b, ";outputDocumentSize="...)
	b = strconv.AppendInt(b, int64(w.output), 10)
	b = append(b, ";writeOutputTimeInMs=0.00;indexUtilizationRatio="...)
	b = strconv.AppendFloat(b, ratio, 'f', 2, 64)
	return []string{"X-Ms-Documentdb-Query-Metrics", string(b)}
}

// indexMetrics describes the indexes that the plan uses, and the paths of WHERE that the policy
// does not index.
func (r *queryRun) indexMetrics() string {
	single := func(p sql.Path) []byte {
		return fmt.Appendf(nil, `{"FilterExpression":"","IndexSpec":%s,"FilterPreciseSet":true,"IndexPreciseSet":true,"IndexImpactScore":"High"}`, sql.AppendQuoted(nil, []byte(p.String()+"/?")))
	}
	used, missing, composite := [][]byte{}, [][]byte{}, [][]byte{}
	if r.plan.path != nil {
		used = append(used, single(r.plan.path))
	}
	indexed := func(p sql.Path) bool {
		if p[0] == "id" || isSystemProperty(p[0]) || r.def.index.includes(p) {
			return true
		}
		return r.plan.composite != nil && slices.ContainsFunc(r.plan.composite.columns, func(c compositeColumn) bool { return slices.Equal(c.path, p) })
	}
	for _, p := range r.triedPaths() {
		if len(p) > 0 && !indexed(p) {
			missing = append(missing, single(p))
		}
	}
	if x := r.plan.composite; x != nil {
		var specs [][]byte
		for _, c := range x.columns {
			order := " ASC"
			if c.desc {
				order = " DESC"
			}
			specs = append(specs, sql.AppendQuoted(nil, []byte(c.path.String()+order)))
		}
		composite = append(composite, fmt.Appendf(nil, `{"IndexSpecs":[%s],"IndexPreciseSet":true,"IndexImpactScore":"High"}`, bytes.Join(specs, []byte{','})))
	}
	comma := []byte{','}
	return fmt.Sprintf(`{"UtilizedSingleIndexes":[%s],"PotentialSingleIndexes":[%s],"UtilizedCompositeIndexes":[%s],"PotentialCompositeIndexes":[]}`,
		bytes.Join(used, comma), bytes.Join(missing, comma), bytes.Join(composite, comma))
}
