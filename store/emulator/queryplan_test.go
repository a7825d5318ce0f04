package emulator

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"byline/store/emulator/internal/sql"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// queryPlan is the protocol's PartitionedQueryExecutionInfo.
type queryPlan struct{ QueryInfo planInfo }

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

// clientFilter is the placeholder that the client replaces by the position at which a partition continues.
const clientFilter = "{documentdb-formattableorderbyquery-filter}"

// TestQueryPlan checks the rewritten queries, and that the parser accepts them.
func TestQueryPlan(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for text, want := range map[string]string{
		"SELECT * FROM c WHERE c.n > 1":                                                         "",
		"SELECT TOP 2 c.a AS b FROM c":                                                          "SELECT TOP 2 c.a AS b FROM c",
		"SELECT c[\"a b\"], 1+1 FROM c OFFSET 1 LIMIT 3":                                        "SELECT c[\"a b\"], 1+1 FROM c OFFSET 0 LIMIT 4",
		"SELECT * FROM root r ORDER BY r.n DESC, r[\"s\"]":                                      `SELECT r._rid, [{"item": r.n}, {"item": r["s"]}] AS orderByItems, r AS payload FROM root r WHERE (FILTER) ORDER BY r.n DESC, r["s"] ASC`,
		"select TOP 3 c.m, f(c.x) from c order by c.n":                                          "400",
		"select c.order from c order by c.n":                                                    "400",
		`select TOP 3 c["order"], ABS(c.x) from c order by c.n`:                                 `SELECT TOP 3 c._rid, [{"item": c.n}] AS orderByItems, {"order": c["order"], "$1": ABS(c.x)} AS payload FROM c WHERE (FILTER) ORDER BY c.n ASC`,
		"SELECT VALUE c.id FROM c WHERE c.a = 1 OR c.b IN (1, 2) ORDER BY c.n OFFSET 2 LIMIT 2": `SELECT c._rid, [{"item": c.n}] AS orderByItems, c.id AS payload FROM c WHERE (c.a = 1 OR c.b IN (1, 2)) AND (FILTER) ORDER BY c.n ASC OFFSET 0 LIMIT 4`,
		`SELECT TOP 1 c.n AS a, c["as"], c.m AS b FROM c`:                                       `SELECT TOP 1 c.n AS a, c["as"], c.m AS b FROM c`,
		`SELECT c.a = c.b, (c.a), true, c["x\"y"], -c.n, c.n FROM c ORDER BY c.n`:               `SELECT c._rid, [{"item": c.n}] AS orderByItems, {"$1": c.a = c.b, "a": (c.a), "$2": true, "x\"y": c["x\"y"], "$3": -c.n, "n": c.n} AS payload FROM c WHERE (FILTER) ORDER BY c.n ASC`,
		"SELECT DISTINCT VALUE c.n FROM c":                                                      "SELECT DISTINCT VALUE c.n FROM c",
		"SELECT VALUE COUNT(1) FROM c WHERE c.n = 1":                                            `SELECT VALUE [{"item": COUNT(1)}] FROM c WHERE c.n = 1`,
		"SELECT VALUE AVG(c.n) FROM c":                                                          `SELECT VALUE [{"item": {"sum": SUM(c.n), "count": COUNT(c.n)}}] FROM c`,
		"SELECT VALUE MAX(ABS(c.n)) FROM c":                                                     `SELECT VALUE [{"item": {"max": MAX(ABS(c.n)), "count": COUNT(ABS(c.n))}}] FROM c`,
		"SELECT c.t, COUNT(1) AS k, SUM(c.n) s FROM c GROUP BY c.t":                             `SELECT [{"item": c.t}] AS groupByItems, {"t": c.t, "k": {"item": COUNT(1)}, "s": {"item": SUM(c.n)}} AS payload FROM c GROUP BY c.t`,
		"SELECT COUNT(1) AS k, MAX(c.n) FROM c WHERE c.n > 1":                                   `SELECT {"k": {"item": COUNT(1)}, "$1": {"item": {"max": MAX(c.n), "count": COUNT(c.n)}}} AS payload FROM c WHERE c.n > 1`,
		"SELECT VALUE COUNT(1) + 1 FROM c":                                                      "400",
		"SELECT c.t, SUM(c.n)/COUNT(1) AS mean FROM c GROUP BY c.t":                             "400",
		"SELECT c.t, ROUND(AVG(c.n)) AS mean FROM c GROUP BY c.t":                               "400",
		"SELECT VALUE {\"t\": c.t, \"k\": COUNT(1)} FROM c GROUP BY c.t":                        "400",
		"SELECT COUNT(1) AS k, SUM(c.n) + 1 AS s FROM c":                                        "400",
		"SELECT c.t, (COUNT(1)) AS k FROM c GROUP BY c.t":                                       "400",
		"SELECT DISTINCT VALUE COUNT(1) + 1 FROM c":                                             "400",
		"SELECT DISTINCT VALUE COUNT(1) FROM c":                                                 "400",
	} {
		t.Run(text, func(t *testing.T) {
			body, err := json.Marshal(map[string]string{"query": text})
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Cosmos-Is-Query-Plan-Request": {"True"}}
			res, err := e.Do(signed(t, "POST", "/dbs/db/colls/c/docs", h, body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != 200 {
				if want != "400" || res.StatusCode != 400 {
					t.Fatalf("got %s %s, want a plan %q", res.Status, got, want)
				}
				return
			}
			var plan queryPlan
			mustUnmarshal(t, got, &plan)
			query := plan.QueryInfo.Rewritten
			if strings.ReplaceAll(query, clientFilter, "FILTER") != want {
				t.Errorf("got  %s\nwant %s", query, want)
			}
			if _, err := sql.Parse(strings.ReplaceAll(query, clientFilter, "true")); query != "" && err != nil {
				t.Errorf("%s: %v", query, err)
			}
		})
	}
}

// TestQueryPlan_Grouping: the plan says what the client groups by, and how it combines the aggregates of partitions.
func TestQueryPlan_Grouping(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	count, average := "Count", "Average"
	types := func(pairs ...any) map[string]*string {
		m := map[string]*string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)], _ = pairs[i+1].(*string)
		}
		return m
	}
	for text, want := range map[string]planInfo{
		"SELECT VALUE c.t FROM c GROUP BY c.t": {GroupBy: []string{"c.t"}, SelectValue: true},
		"SELECT VALUE COUNT(1) FROM c":         {Aggregates: []string{"Count"}, SelectValue: true},
		"SELECT VALUE AVG(c.n) FROM c GROUP BY c.t": {GroupBy: []string{"c.t"}, Aggregates: []string{"Average"},
			SelectValue: true},
		"SELECT COUNT(1) AS k FROM c": {GroupByAliases: []string{"k"}, AliasToType: types("k", &count)},
		"SELECT c.t, AVG(c.n), COUNT(1) AS k FROM c GROUP BY c.t, ABS(c.n)": {GroupBy: []string{"c.t", "ABS(c.n)"},
			GroupByAliases: []string{"t", "$1", "k"}, AliasToType: types("t", nil, "$1", &average, "k", &count)},
	} {
		body, err := json.Marshal(map[string]string{"query": text})
		if err != nil {
			t.Fatal(err)
		}
		res := do(t, e, "POST", "/dbs/db/colls/c/docs", string(body), "Content-Type", "application/query+json",
			"X-Ms-Cosmos-Is-Query-Plan-Request", "True")
		var plan queryPlan
		mustUnmarshal(t, readAll(t, res), &plan)
		want.Rewritten, want.DistinctType = plan.QueryInfo.Rewritten, "None" // see TestQueryPlan
		if d := cmp.Diff(want, plan.QueryInfo, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

// TestQueryPlan_Rank: the plan of ORDER BY RANK has the queries that the service's plan has. Spaces and the literals'
// quotes may differ.
func TestQueryPlan_Rank(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for text, want := range map[string]struct {
		statistics string
		components []string
		weights    []float64
		skip, take int
	}{
		`SELECT TOP 10 * FROM c ORDER BY RANK FullTextScore(c.text, "swim", @q)`: {
			`SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(c.text)), "hitCounts": ` +
				`[COUNTIF(FullTextContains(c.text, "swim")), COUNTIF(FullTextContains(c.text, "it's"))]}] ` +
				`AS fullTextStatistics FROM c`,
			[]string{`SELECT TOP 120 c._rid, [{"item": S0}] AS orderByItems, ` +
				`{"payload": c, "componentScores": [(S0 ?? -1)]} AS payload FROM c WHERE (FILTER) ORDER BY S0 DESC`},
			[]float64{}, -1, 10},
		"SELECT r.id, r.a b FROM root r WHERE r.a = 1 OR r.b = 2 ORDER BY RANK RRF(FullTextScore(r.text, 'x'), " +
			"FullTextScore(r['o'].t, 'y'), [2, -0.5]) OFFSET 100 LIMIT 5": {
			`SELECT COUNT(1) AS documentCount, [{"totalWordCount": SUM(_FullTextWordCount(r.text)), "hitCounts": ` +
				`[COUNTIF(FullTextContains(r.text, 'x'))]}, {"totalWordCount": SUM(_FullTextWordCount(r['o'].t)), ` +
				`"hitCounts": [COUNTIF(FullTextContains(r['o'].t, 'y'))]}] AS fullTextStatistics FROM root r`,
			[]string{
				`SELECT TOP 210 r._rid, [{"item": S0}] AS orderByItems, {"payload": {"id": r.id, "b": r.a}, ` +
					`"componentScores": [(S0 ?? -1), (S1 ?? 1.79769e+308)]} AS payload FROM root r ` +
					`WHERE (r.a = 1 OR r.b = 2) AND (FILTER) ORDER BY S0 DESC`,
				`SELECT TOP 210 r._rid, [{"item": S1}] AS orderByItems, {"payload": {"id": r.id, "b": r.a}, ` +
					`"componentScores": [(S0 ?? -1), (S1 ?? 1.79769e+308)]} AS payload FROM root r ` +
					`WHERE (r.a = 1 OR r.b = 2) AND (FILTER) ORDER BY S1 ASC`},
			[]float64{2, 0.5}, 100, 5},
	} {
		plan := rankPlan(t, e, text, `{"name":"@q","value":"it's"}`)
		if d := cmp.Diff(want.statistics, plan.Statistics); d != "" {
			t.Errorf("%s: statistics %s", text, d)
		}
		skip, take := -1, -1
		if plan.Skip != nil {
			skip = *plan.Skip
		}
		if plan.Take != nil {
			take = *plan.Take
		}
		if skip != want.skip || take != want.take || !plan.RequiresStatistics {
			t.Errorf("%s: skips %d, takes %d, want %d, %d", text, skip, take, want.skip, want.take)
		}
		if d := cmp.Diff(want.weights, plan.Weights); d != "" {
			t.Errorf("%s: weights %s", text, d)
		}
		var scores, queries []string
		for i, one := range plan.Components {
			scores = append(scores, one.OrderByPaths[0], "S"+strconv.Itoa(i))
			if !one.NonStreaming || *one.Top != 120 && *one.Top != 210 {
				t.Errorf("%s: component %+v", text, one)
			}
		}
		for _, one := range plan.Components {
			short := strings.NewReplacer(append(scores, clientFilter, "FILTER")...)
			queries = append(queries, short.Replace(one.Rewritten))
		}
		if d := cmp.Diff(want.components, queries); d != "" {
			t.Errorf("%s: components %s", text, d)
		}
		placeholder := "{documentdb-formattablehybridsearchquery-"
		if want := `(c.text, ["swim", "it's"], ` + placeholder + "totaldocumentcount}, " + placeholder +
			"totalwordcount-0}, " + placeholder + "hitcountsarray-0})"; len(plan.Components) == 1 &&
			scores[0] != "_FullTextScore"+want {
			t.Errorf("score %s, want %s", scores[0], want)
		}
	}
}

// rankInfo is the protocol's HybridSearchQueryInfo.
type rankInfo struct {
	Statistics         string     `json:"globalStatisticsQuery"`
	Components         []planInfo `json:"componentQueryInfos"`
	Weights            []float64  `json:"componentWeights"`
	Skip               *int       `json:"skip"`
	Take               *int       `json:"take"`
	RequiresStatistics bool       `json:"requiresGlobalStatistics"`
}

// rankPlan returns the plan of a query with ORDER BY RANK. parameters is the JSON of the list's elements.
func rankPlan(t testing.TB, e *Engine, text, parameters string) rankInfo {
	t.Helper()
	query, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	res := do(t, e, "POST", "/dbs/db/colls/c/docs", `{"query":`+string(query)+`,"parameters":[`+parameters+`]}`,
		"Content-Type", "application/query+json", "X-Ms-Cosmos-Is-Query-Plan-Request", "True")
	out := readAll(t, res)
	var plan struct {
		QueryInfo *planInfo `json:"queryInfo"`
		Hybrid    *rankInfo `json:"hybridSearchQueryInfo"`
	}
	mustUnmarshal(t, out, &plan)
	if res.StatusCode != 200 || plan.Hybrid == nil || plan.QueryInfo != nil {
		t.Fatalf("%s: %s %s", text, res.Status, out)
	}
	return *plan.Hybrid
}

// TestQuery_RankWithoutPlan: a query with ORDER BY RANK is refused, with its plan, and one without a limit has none.
func TestQuery_RankWithoutPlan(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for _, header := range []string{`["p"]`, ""} {
		h := []string{"Content-Type", "application/query+json", "X-Ms-Documentdb-Isquery", "True",
			"X-Ms-Documentdb-Query-Enablecrosspartition", "True"}
		if header != "" {
			h = append(h, "X-Ms-Documentdb-Partitionkey", header)
		}
		res := do(t, e, "POST", "/dbs/db/colls/c/docs",
			`{"query":"SELECT TOP 1 * FROM c ORDER BY RANK FullTextScore(c.text, 'x')"}`, h...)
		if out := string(readAll(t, res)); res.StatusCode != 400 || res.Header.Get("X-Ms-Substatus") != "1004" ||
			!strings.Contains(out, "hybridSearchQueryInfo") || header != "" && !strings.Contains(out, "in no order") {
			t.Errorf("%s %s", res.Status, out)
		}
	}
	res := do(t, e, "POST", "/dbs/db/colls/c/docs",
		`{"query":"SELECT * FROM c ORDER BY RANK FullTextScore(c.text, 'x')"}`,
		"Content-Type", "application/query+json", "X-Ms-Cosmos-Is-Query-Plan-Request", "True")
	if out := string(readAll(t, res)); res.StatusCode != 400 || !strings.Contains(out, "without TOP") {
		t.Errorf("%s %s", res.Status, out)
	}
}

// TestQueryPlan_RepeatedQuery: of two "query" members, the plan is for the one that would run.
func TestQueryPlan_RepeatedQuery(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	const body = `{"query":"SELECT * FROM c ORDER BY c.a","query":"SELECT TOP 1 c.b FROM c"}`
	res := do(t, e, "POST", "/dbs/db/colls/c/docs", body, "Content-Type", "application/query+json",
		"X-Ms-Cosmos-Is-Query-Plan-Request", "True")
	got, err := io.ReadAll(res.Body)
	if res.StatusCode != 200 || err != nil {
		t.Fatalf("%s: %s %v", res.Status, got, err)
	}
	var plan queryPlan
	if mustUnmarshal(t, got, &plan); plan.QueryInfo.Rewritten != "SELECT TOP 1 c.b FROM c" {
		t.Errorf("got %s, want the plan of the last query", got)
	}
}
