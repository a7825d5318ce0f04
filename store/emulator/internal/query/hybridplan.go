package query

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/sql"
)

// hybridInfo is the protocol's HybridSearchQueryInfo: how a client executes ORDER BY RANK. It sends the statistics
// query to all partitions and puts the sums into the component queries, one for each score, which return the best
// items by that score. It merges several of them by reciprocal rank fusion.
type hybridInfo struct {
	Statistics         string     `json:"globalStatisticsQuery"`
	Components         []planInfo `json:"componentQueryInfos"`
	WithoutPayload     []planInfo `json:"componentWithoutPayloadQueryInfos"`
	Projection         *planInfo  `json:"projectionQueryInfo"`
	Weights            []float64  `json:"componentWeights"`
	Skip               *int       `json:"skip"`
	Take               *int       `json:"take"`
	RequiresStatistics bool       `json:"requiresGlobalStatistics"`
}

// The placeholders in component queries that the client replaces by statistics.
const (
	placeholder        = "{documentdb-formattablehybridsearchquery-%s}"
	totalDocumentCount = "totaldocumentcount"
	totalWordCount     = "totalwordcount-"
	hitCountsArray     = "hitcountsarray-"
)

// fewestRanked is the fewest items that a component query returns: the fusion of ranks needs more items than the
// query returns. The service asks for 120 in a TOP 10.
const fewestRanked = 120

// hybridPlan returns the plan of a query with ORDER BY RANK.
func hybridPlan(c sql.Clauses, b *sql.Bound) (*hybridInfo, error) {
	info := &hybridInfo{Components: []planInfo{}, WithoutPayload: []planInfo{}, Weights: []float64{},
		RequiresStatistics: true}
	rows := 0
	if n, ok := b.Top(); ok {
		info.Take, rows = &n, n
	} else if offset, n, ok := b.OffsetLimit(); ok {
		info.Skip, info.Take, rows = &offset, &n, offset+n
	} else {
		return nil, apierror.BadRequest("ORDER BY RANK without TOP or OFFSET LIMIT is not supported.")
	}
	rows = min(max(fewestRanked, 2*rows), math.MaxInt32)
	var statistics, scores, components []string
	for i, r := range c.Rank {
		var terms, hits []string
		for _, term := range r.Terms {
			if strings.HasPrefix(term, "@") { // clients send the statistics query without parameters
				term = string(b.Parameter(term).AppendJSON(nil))
			}
			terms = append(terms, term)
			hits = append(hits, "COUNTIF(FullTextContains("+r.Path+", "+term+"))")
		}
		statistics = append(statistics, `{"totalWordCount": SUM(_FullTextWordCount(`+r.Path+`)), "hitCounts": [`+
			strings.Join(hits, ", ")+"]}")
		number := strconv.Itoa(i)
		score := "_FullTextScore(" + r.Path + ", [" + strings.Join(terms, ", ") + "], " +
			fmt.Sprintf(placeholder, totalDocumentCount) + ", " + fmt.Sprintf(placeholder, totalWordCount+number) + ", " +
			fmt.Sprintf(placeholder, hitCountsArray+number) + ")"
		missing := "-1" // ranks last
		if c.Weights != nil && c.Weights[i] < 0 {
			missing = "1.79769e+308"
		}
		scores, components = append(scores, score), append(components, "("+score+" ?? "+missing+")")
	}
	info.Statistics = "SELECT COUNT(1) AS documentCount, [" + strings.Join(statistics, ", ") +
		"] AS fullTextStatistics FROM " + c.From
	where := " WHERE (" + clientFilter + ")"
	if c.Where != "" {
		where = " WHERE (" + c.Where + ") AND (" + clientFilter + ")"
	}
	row := payload(c, func(one sql.Column) string { return one.Text })
	for i, score := range scores {
		one := newPlanInfo()
		direction, word := "Descending", " DESC"
		if c.Weights != nil {
			if info.Weights = append(info.Weights, math.Abs(c.Weights[i])); c.Weights[i] < 0 {
				direction, word = "Ascending", " ASC"
			}
		}
		one.Top, one.OrderBy, one.OrderByPaths, one.NonStreaming = &rows, []string{direction}, []string{score}, true
		one.Rewritten = fmt.Sprintf("SELECT TOP %d %s._rid, %s AS orderByItems, "+
			`{"payload": %s, "componentScores": [%s]} AS payload FROM %s%s ORDER BY %s%s`, rows, c.Alias, items([]string{score}), row,
			strings.Join(components, ", "), c.From, where, score, word)
		info.Components = append(info.Components, one)
	}
	return info, nil
}
