package query

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/layout"
	"byline/store/emulator/internal/sql"
)

// metrics are the figures of a page for its query metrics.
type metrics struct {
	retrieved int // items read
	loaded    int // their bytes
	rows      int
	output    int // their bytes
	took      time.Duration
}

// header returns the query metrics header, if requested. Figures that are not measured are 0.
func (w metrics) header(h http.Header) []string {
	if !isTrue(h, "X-Ms-Documentdb-Populatequerymetrics") {
		return nil
	}
	ms := float64(w.took.Microseconds()) / 1000
	ratio := 1.0
	if w.retrieved > 0 {
		ratio = float64(w.rows) / float64(w.retrieved)
	}
	b := append(make([]byte, 0, 512), "totalExecutionTimeInMs="...)
	b = strconv.AppendFloat(b, ms, 'f', 2, 64)
	b = append(b,
		";queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs="...)
	b = strconv.AppendFloat(b, ms, 'f', 2, 64)
	b = append(b,
		";indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount="...)
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
func (r *Query) indexMetrics() string {
	single := func(p sql.Path) []byte {
		return fmt.Appendf(nil,
			`{"FilterExpression":"","IndexSpec":%s,"FilterPreciseSet":true,"IndexPreciseSet":true,`+
				`"IndexImpactScore":"High"}`,
			sql.AppendQuoted(nil, []byte(p.String()+"/?")))
	}
	used, missing, composite := [][]byte{}, [][]byte{}, [][]byte{}
	if r.plan.path != nil {
		used = append(used, single(r.plan.path))
	}
	indexed := func(p sql.Path) bool {
		if p[0] == "id" || layout.IsSystemProperty(p[0]) || r.c.Indexes.Includes(p) {
			return true
		}
		return r.plan.composite != nil && slices.ContainsFunc(r.plan.composite.Columns,
			func(c index.Column) bool { return slices.Equal(c.Path, p) })
	}
	for _, p := range r.triedPaths() {
		if len(p) > 0 && !indexed(p) {
			missing = append(missing, single(p))
		}
	}
	if x := r.plan.composite; x != nil {
		var specs [][]byte
		for _, c := range x.Columns {
			order := " ASC"
			if c.Desc {
				order = " DESC"
			}
			specs = append(specs, sql.AppendQuoted(nil, []byte(c.Path.String()+order)))
		}
		composite = append(composite,
			fmt.Appendf(nil, `{"IndexSpecs":[%s],"IndexPreciseSet":true,"IndexImpactScore":"High"}`,
				bytes.Join(specs, []byte{','})))
	}
	comma := []byte{','}
	return fmt.Sprintf(
		`{"UtilizedSingleIndexes":[%s],"PotentialSingleIndexes":[%s],"UtilizedCompositeIndexes":[%s],"PotentialCompositeIndexes":[]}`,
		bytes.Join(used, comma), bytes.Join(missing, comma), bytes.Join(composite, comma))
}
