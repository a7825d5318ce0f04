package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"byline/internal/jsonpart"
	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/sql"
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
		return 0, apierror.InvalidHeader("X-Ms-Max-Item-Count", s)
	case n == -1:
		return maxPageScan, nil
	case n == 0:
		return defaultPageSize, nil
	}
	return min(n, maxPageScan), nil
}

// feedResponse returns a list of resources.
func feedResponse(name, rid string, rows [][]byte) *response {
	body := appendPageEnd(append(appendPageStart(nil, name, rid), bytes.Join(rows, []byte{','})...), len(rows))
	return &response{status: http.StatusOK, body: body, charge: charge.Metadata, items: len(rows), counted: true}
}

// appendPageStart appends the beginning of a list of resources.
func appendPageStart(dst []byte, name, rid string) []byte {
	dst = append(append(dst, `{"_rid":"`...), rid...)
	return append(append(append(dst, `","`...), name...), `":[`...)
}

// appendPageEnd completes a list of n resources that was started by appendPageStart.
func appendPageEnd(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, `],"_count":`...), int64(n), 10), '}')
}

// bindQuery parses and binds the body of a query request. It also returns the query's text.
func (e *Engine) bindQuery(body []byte) (*sql.Bound, string, error) {
	if !sql.ValidJSON(body) || sql.TooDeep(body) {
		return nil, "", apierror.BadRequest("The query request is invalid: it is not well-formed JSON.")
	}
	var text string
	var parameters []sql.Param
	for c := range jsonpart.Children(bytes.TrimSpace(body)) {
		switch string(sql.MemberName(c)) {
		case "query":
			sql.ReadText(c.Value, &text)
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
		return nil, apierror.BadRequest("The query request is invalid: 'parameters' is not an array.")
	}
	for p := range jsonpart.Children(list) {
		var one sql.Param
		for c := range jsonpart.Children(p.Value) {
			switch string(sql.MemberName(c)) {
			case "name":
				sql.ReadText(c.Value, &one.Name)
			case "value":
				one.Value = c.Value
			}
		}
		if one.Name == "" {
			return nil, apierror.BadRequest("The query request is invalid: parameter %d of 'parameters' has no name.", len(parameters)+1)
		}
		parameters = append(parameters, one)
	}
	if name := duplicateName(parameters); name != "" {
		return nil, apierror.BadRequest("The query request is invalid: the parameter '%s' is given more than once.", name)
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
	return apierror.BadRequest("%s", detail)
}

// queryMetadata runs a query over databases, containers or offers.
func (e *Engine) queryMetadata(q *request, name, rid string, bodies [][]byte) (*response, error) {
	b, _, err := e.bindQuery(q.body)
	if err != nil {
		return nil, err
	}
	if len(b.OrderBy()) > 0 || b.Aggregates() {
		return nil, apierror.BadRequest("A query over %s can only filter, project and limit.", name)
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
	resp.charge = charge.QueryBase
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
	return e.runQuery(q, c, b, text)
}

// listItems serves the list of a container's items.
func (e *Engine) listItems(q *request, c *container) (*response, error) {
	b, text, err := e.bindQuery([]byte(`{"query":"SELECT * FROM c"}`))
	if err != nil {
		return nil, err
	}
	q.header = q.header.Clone()
	q.header.Set("X-Ms-Documentdb-Query-Enablecrosspartition", "true")
	return e.runQuery(q, c, b, text)
}

// crossPartitionError reports that the client has to merge the results of partitions, with the plan for
// that. If the engine has none, the client's request for it is refused by name.
func crossPartitionError(b *sql.Bound, text string) error {
	plan, err := planQuery(b, text)
	if err != nil {
		plan = []byte("{}")
	}
	return &apierror.Error{Status: http.StatusBadRequest, Substatus: apierror.SubCrossPartition, Code: "BadRequest", Charge: charge.BadRequest, Extra: string(plan),
		Message: "The provided cross partition query can not be directly served by the gateway. " +
			"This is a first chance (internal) exception that all newer clients will know how to handle gracefully."}
}
