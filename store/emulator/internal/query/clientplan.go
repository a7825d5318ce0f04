package query

import (
	"encoding/json"
	"fmt"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/sql"
)

// Every SDK but azcosmos merges partitions itself. It requests a plan: how to merge the pages of
// the partitions, and the rewritten query to send to each.

// queryPlanInfo is the protocol's PartitionedQueryExecutionInfo.
type queryPlanInfo struct {
	Version   int             `json:"partitionedQueryExecutionInfoVersion"`
	QueryInfo *planInfo       `json:"queryInfo,omitempty"`
	Hybrid    *hybridInfo     `json:"hybridSearchQueryInfo,omitempty"`
	Ranges    []planRangeInfo `json:"queryRanges"`
}

type planInfo struct {
	DistinctType   string             `json:"distinctType"`
	Top            *int               `json:"top"`
	Offset         *int               `json:"offset"`
	Limit          *int               `json:"limit"`
	OrderBy        []string           `json:"orderBy"`
	OrderByPaths   []string           `json:"orderByExpressions"`
	GroupBy        []string           `json:"groupByExpressions"`
	GroupByAliases []string           `json:"groupByAliases"`
	Aggregates     []string           `json:"aggregates"`
	AliasToType    map[string]*string `json:"groupByAliasToAggregateType"`
	Rewritten      string             `json:"rewrittenQuery"`
	SelectValue    bool               `json:"hasSelectValue"`
	DCount         *struct{}          `json:"dCountInfo"`
	NonStreaming   bool               `json:"hasNonStreamingOrderBy"`
}

type planRangeInfo struct {
	Min          string `json:"min"`
	Max          string `json:"max"`
	MinInclusive bool   `json:"isMinInclusive"`
	MaxInclusive bool   `json:"isMaxInclusive"`
}

// clientFilter is the placeholder in an ORDER BY query that the client replaces by the position at
// which a partition continues.
const clientFilter = "{documentdb-formattableorderbyquery-filter}"

// IsPlanRequest reports whether the client requests the plan of the query instead of its rows.
func (r *Request) IsPlanRequest() bool { return r.is("X-Ms-Cosmos-Is-Query-Plan-Request") }

// Plan returns the plan of the query, in the protocol's format.
func (r *Request) Plan() ([]byte, error) { return planQuery(r.bound, r.text) }

// planQuery returns the plan of a query, in JSON.
func planQuery(b *sql.Bound, text string) ([]byte, error) {
	clauses, err := sql.Split(text)
	if err != nil {
		return nil, apierror.Query(err)
	}
	plan := queryPlanInfo{Version: 2, Ranges: []planRangeInfo{{Min: "", Max: "FF", MinInclusive: true}}}
	if b.Ranks() {
		if plan.Hybrid, err = hybridPlan(clauses, b); err != nil {
			return nil, err
		}
		return json.Marshal(plan)
	}
	info, err := planOf(clauses, b)
	if err != nil {
		return nil, err
	}
	plan.QueryInfo = &info
	return json.Marshal(plan)
}

func newPlanInfo() planInfo {
	return planInfo{DistinctType: "None", OrderBy: []string{}, OrderByPaths: []string{}, GroupBy: []string{},
		GroupByAliases: []string{}, Aggregates: []string{}, AliasToType: map[string]*string{}}
}

func planOf(c sql.Clauses, b *sql.Bound) (planInfo, error) {
	info := newPlanInfo()
	info.SelectValue = c.Value
	limit := "" // limit for each partition
	if n, ok := b.Top(); ok {
		info.Top, limit = &n, fmt.Sprintf("TOP %d ", n)
	}
	tail := ""
	if offset, n, ok := b.OffsetLimit(); ok {
		info.Offset, info.Limit, tail = &offset, &n, fmt.Sprintf(" OFFSET 0 LIMIT %d", min(offset+n, 1<<31-1))
	}
	if c.Distinct {
		info.DistinctType = "Unordered"
	}
	where := ""
	if c.Where != "" {
		where = " WHERE " + c.Where
	}
	switch {
	case len(c.GroupBy) > 0 || c.Aggregates > 0:
		return info.group(c, where)
	case len(c.OrderBy) > 0:
		info.order(c, b, limit, tail)
	case c.Distinct:
		info.Rewritten = "SELECT DISTINCT " + columns(c) + " FROM " + c.From + where
	case tail != "" || limit != "":
		info.Rewritten = "SELECT " + limit + columns(c) + " FROM " + c.From + where + tail
	}
	return info, nil
}

// columns formats a SELECT list.
func columns(c sql.Clauses) string {
	if c.Value {
		return "VALUE " + c.Columns[0].Text
	}
	var list []string
	for _, one := range c.Columns {
		list = append(list, one.Source)
	}
	return strings.Join(list, ", ")
}

// payload formats a row as one expression.
func payload(c sql.Clauses, column func(sql.Column) string) string {
	if c.Value {
		return column(c.Columns[0])
	}
	var list []string
	for _, one := range c.Columns {
		list = append(list, string(sql.AppendQuoted(nil, []byte(one.Name)))+": "+column(one))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func items(expressions []string) string {
	var list []string
	for _, x := range expressions {
		list = append(list, `{"item": `+x+`}`)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// order rewrites the query to return ordered rows with their ORDER BY values.
func (info *planInfo) order(c sql.Clauses, b *sql.Bound, limit, tail string) {
	var terms []string
	for i, path := range c.OrderBy {
		direction, word := "Ascending", " ASC"
		if b.OrderBy()[i].Desc {
			direction, word = "Descending", " DESC"
		}
		info.OrderBy = append(info.OrderBy, direction)
		info.OrderByPaths = append(info.OrderByPaths, path)
		terms = append(terms, path+word)
	}
	where := " WHERE (" + clientFilter + ")"
	if c.Where != "" {
		where = " WHERE (" + c.Where + ") AND (" + clientFilter + ")"
	}
	if c.Distinct { // the client drops duplicates: no partition may stop early
		limit, tail = "", ""
	}
	info.Rewritten = "SELECT " + limit + c.Alias + "._rid, " + items(c.OrderBy) + " AS orderByItems, " +
		payload(c, func(one sql.Column) string {
			return one.Text
		}) + " AS payload FROM " + c.From + where + " ORDER BY " + strings.Join(terms, ", ") + tail
}

// aggregateTypes maps aggregates to the protocol's names.
var aggregateTypes = map[string]string{"COUNT": "Count", "COUNTIF": "CountIf", "SUM": "Sum", "MIN": "Min", "MAX": "Max", "AVG": "Average"}

// group rewrites the query to return groups with partial aggregates.
func (info *planInfo) group(c sql.Clauses, where string) (planInfo, error) {
	if c.Distinct {
		return *info, apierror.BadRequest("DISTINCT beside GROUP BY or an aggregate is not supported over partitions.")
	}
	aggregates := 0
	for _, one := range c.Columns {
		var kind *string
		if name, ok := aggregateTypes[one.Aggregate]; ok {
			kind = &name
			aggregates++
			if c.Value {
				info.Aggregates = append(info.Aggregates, name)
			}
		}
		if !c.Value {
			info.AliasToType[one.Name] = kind
			info.GroupByAliases = append(info.GroupByAliases, one.Name)
		}
	}
	if aggregates < c.Aggregates {
		return *info, apierror.BadRequest(
			"An expression of aggregates is not supported over partitions: only aggregates by themselves.")
	}
	info.GroupBy = append(info.GroupBy, c.GroupBy...)
	row := payload(c, partial)
	switch {
	case len(c.GroupBy) == 0 && c.Value:
		info.Rewritten = "SELECT VALUE [" + row + "] FROM " + c.From + where
		return *info, nil
	case len(c.GroupBy) == 0:
		info.Rewritten = "SELECT " + row + " AS payload FROM " + c.From + where
		return *info, nil
	}
	if c.Value && aggregates > 0 {
		row = "[" + row + "]"
	}
	info.Rewritten = "SELECT " + items(c.GroupBy) + " AS groupByItems, " + row + " AS payload FROM " + c.From + where +
		" GROUP BY " + strings.Join(c.GroupBy, ", ")
	return *info, nil
}

// partial rewrites an aggregate so that the results of partitions can be combined.
func partial(one sql.Column) string {
	x := one.Argument
	switch one.Aggregate {
	case "":
		return one.Text
	case "AVG":
		return `{"item": {"sum": SUM(` + x + `), "count": COUNT(` + x + `)}}`
	case "MIN", "MAX":
		return `{"item": {"` + strings.ToLower(one.Aggregate) + `": ` + one.Text + `, "count": COUNT(` + x + `)}}`
	}
	return `{"item": ` + one.Text + `}`
}
