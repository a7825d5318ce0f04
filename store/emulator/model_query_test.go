package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"
)

// descending returns the path and the direction of a column of a modelPolicy.
func descending(column string) (path string, desc bool) {
	path, desc = strings.CutPrefix(column, "-")
	return path, desc
}

// modelQuery is a query over one partition, or over all.
type modelQuery struct {
	filter        filter // nil: none
	orderBy       []string
	top           int // -1: none
	offset, limit int
}

func (q *modelQuery) text(what string, b *binder) string {
	s := "SELECT "
	if q.top >= 0 {
		s += fmt.Sprintf("TOP %d ", q.top)
	}
	s += what + " FROM c"
	if q.filter != nil {
		s += " WHERE " + q.filter.sql(b)
	}
	for i, column := range q.orderBy {
		path, desc := descending(column)
		s += []string{" ORDER BY ", ", "}[min(i, 1)] + "c." + path
		if desc {
			s += " DESC"
		}
	}
	if q.limit >= 0 {
		s += fmt.Sprintf(" OFFSET %d LIMIT %d", q.offset, q.limit)
	}
	return s
}

// passes returns the items of a partition ("": of all) that the filter keeps.
func (r *rig) passes(pk string, f filter) []*modelItem {
	return r.live(func(i *modelItem) bool { return (pk == "" || i.pk == pk) && (f == nil || f.eval(i.doc) == yes) })
}

// compareBy compares two documents as ORDER BY does.
func compareBy(orderBy []string, a, b map[string]any) int {
	for _, column := range orderBy {
		path, desc := descending(column)
		x, ok1 := at(a, path)
		y, ok2 := at(b, path)
		c := 0
		switch {
		case ok1 && ok2:
			c = order(x, y)
		case ok1:
			c = 1
		case ok2:
			c = -1
		}
		if desc {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// sorts reports whether the policy always or never has the index that an ORDER BY needs. With one property it can
// depend on whether WHERE pins the preceding columns of a composite index.
func (p modelPolicy) sorts(orderBy []string) (always, never bool) {
	if len(orderBy) != 1 {
		always = len(orderBy) == 0 || p.composed(orderBy)
		return always, !always
	}
	path, _ := descending(orderBy[0])
	pointer := "/" + strings.ReplaceAll(path, ".", "/")
	covers := func(i string) bool {
		return i == "/*" || i == pointer+"/?" ||
			strings.HasSuffix(i, "/*") && strings.HasPrefix(pointer, strings.TrimSuffix(i, "*"))
	}
	if path == "id" || slices.ContainsFunc(p.included, covers) {
		return true, false
	}
	never = true
	for _, columns := range p.composites {
		for i, c := range columns {
			if name, _ := descending(c); name == path {
				always, never = always || i == 0, false
			}
		}
	}
	return always, never
}

// composed reports whether the policy has the composite index that an ORDER BY of several properties needs.
func (p modelPolicy) composed(orderBy []string) bool {
	inverse := slices.Clone(orderBy)
	for i, column := range inverse {
		if path, desc := descending(column); desc {
			inverse[i] = path
		} else {
			inverse[i] = "-" + path
		}
	}
	return slices.ContainsFunc(p.composites, func(c []string) bool {
		return slices.Equal(c, orderBy) || slices.Equal(c, inverse)
	})
}

func (r *rig) drawQuery(t *rapid.T) *modelQuery {
	q := &modelQuery{top: -1, limit: -1}
	if rapid.IntRange(0, 3).Draw(t, "filtered") > 0 {
		q.filter = drawFilter(t, 2)
	}
	column := rapid.SampledFrom([]string{"n", "-n", "s", "-s", "id", "-id", "t", "o.k"})
	switch rapid.IntRange(0, 4).Draw(t, "order") {
	case 0:
		q.orderBy = []string{column.Draw(t, "column")}
	case 1, 2:
		if len(r.policy.composites) > 0 {
			q.orderBy = slices.Clone(rapid.SampledFrom(r.policy.composites).Draw(t, "composite"))
			if rapid.Bool().Draw(t, "inverse") {
				for i, column := range q.orderBy {
					if path, desc := descending(column); desc {
						q.orderBy[i] = path
					} else {
						q.orderBy[i] = "-" + path
					}
				}
			}
		}
	case 3:
		q.orderBy = []string{column.Draw(t, "column"), column.Draw(t, "column")}
	}
	switch rapid.IntRange(0, 4).Draw(t, "part") {
	case 0:
		q.top = rapid.IntRange(0, 6).Draw(t, "top")
	case 1:
		q.offset, q.limit = rapid.IntRange(0, 4).Draw(t, "offset"), rapid.IntRange(0, 6).Draw(t, "limit")
	}
	return q
}

// drain reads a query to its end, page by page.
func (r *rig) drain(t *rapid.T, text string, key azcosmos.PartitionKey, o *azcosmos.QueryOptions) [][]byte {
	var rows [][]byte
	pages := 0
	for pager := r.c.NewQueryItemsPager(text, key, o); pager.More(); pages++ {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if o != nil && o.PageSizeHint > 0 && len(page.Items) > int(o.PageSizeHint) || pages > 200 {
			t.Fatalf("%s: %d items on page %d", text, len(page.Items), pages)
		}
		rows = append(rows, page.Items...)
	}
	return rows
}

func drawOptions(t *rapid.T, b *binder) *azcosmos.QueryOptions {
	o := &azcosmos.QueryOptions{PageSizeHint: int32(rapid.IntRange(1, 4).Draw(t, "page size"))}
	if b != nil {
		o.QueryParameters = b.params
	}
	return o
}

func drawBinder(t *rapid.T) *binder {
	if rapid.Bool().Draw(t, "parameters") {
		return &binder{}
	}
	return nil
}

// query compares a query in one partition. Rows with equal ORDER BY values may be in any order, but it must not depend
// on the page size.
func (r *rig) query(t *rapid.T) {
	pk, q, b := r.anyKey(t), r.drawQuery(t), drawBinder(t)
	text := q.text("*", b)
	o := drawOptions(t, b)
	if r.refused(t, q, text, keyOf(pk), o) {
		return
	}
	rows := r.drain(t, text, keyOf(pk), o)
	items := r.passes(pk, q.filter)
	want := slices.Clone(items)
	slices.SortStableFunc(want, func(a, b *modelItem) int { return compareBy(q.orderBy, a.doc, b.doc) })
	if q.limit >= 0 {
		want = want[min(q.offset, len(want)):]
		want = want[:min(q.limit, len(want))]
	}
	if q.top >= 0 {
		want = want[:min(q.top, len(want))]
	}
	if len(rows) != len(want) {
		t.Fatalf("%s: %d rows, the model has %d", text, len(rows), len(want))
	}
	seen := map[string]bool{}
	for n, row := range rows {
		doc := parsed(t, row)
		id := doc["id"].(string)
		i := r.find(modelKey{pk, id})
		if i == nil || seen[id] || q.filter != nil && q.filter.eval(i.doc) != yes {
			t.Fatalf("%s: row %d is %s", text, n, row)
		}
		seen[id] = true
		r.same(t, i, doc)
		if compareBy(q.orderBy, doc, want[n].doc) != 0 {
			t.Fatalf("%s: row %d is %s, the model has %v", text, n, row, want[n].doc)
		}
	}
	ids := r.drain(t, q.text("VALUE c.id", nil), keyOf(pk), nil)
	for n, row := range rows {
		if id, _ := json.Marshal(parsed(t, row)["id"]); n >= len(ids) || !equalText(ids[n], id) {
			t.Fatalf("%s: the order depends on the page size: %q", text, ids)
		}
	}
}

// refused reports whether a query is refused because it needs an index, and checks that against the policy.
func (r *rig) refused(
	t *rapid.T, q *modelQuery, text string, key azcosmos.PartitionKey, o *azcosmos.QueryOptions,
) bool {
	always, never := r.policy.sorts(q.orderBy)
	if always {
		return false
	}
	_, err := r.c.NewQueryItemsPager(text, key, o).NextPage(context.Background())
	is := statusOf(err) == http.StatusBadRequest
	if never && !is {
		t.Fatalf("%s needs an index: %v", text, err)
	}
	return is
}

func equalText(a, b []byte) bool {
	var x, y string
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x == y
}

// crossQuery compares a filter over all partitions, and checks that queries that need a merging client are refused.
func (r *rig) crossQuery(t *rapid.T) {
	q, b := r.drawQuery(t), drawBinder(t)
	text := q.text("c.pk, c.id", b)
	o := drawOptions(t, b)
	key := azcosmos.NewPartitionKey()
	if q.top >= 0 || q.limit >= 0 || len(q.orderBy) > 0 {
		_, err := r.c.NewQueryItemsPager(text, key, o).NextPage(context.Background())
		if statusOf(err) != http.StatusBadRequest || subStatusOf(err) != "1004" {
			t.Fatalf("%s over partitions: %v", text, err)
		}
		return
	}
	wanted := map[modelKey]bool{}
	for _, i := range r.passes("", q.filter) {
		wanted[i.modelKey] = true
	}
	for _, row := range r.drain(t, text, key, o) {
		doc := parsed(t, row)
		pk, _ := json.Marshal(doc["pk"])
		k := modelKey{string(pk), doc["id"].(string)}
		if !wanted[k] {
			t.Fatalf("%s: unexpected row %s", text, row)
		}
		delete(wanted, k)
	}
	if len(wanted) > 0 {
		t.Fatalf("%s: %v are missing", text, wanted)
	}
}

// aggregate compares COUNT, DISTINCT and GROUP BY.
func (r *rig) aggregate(t *rapid.T) {
	pk, b := r.anyKey(t), drawBinder(t)
	f := drawFilter(t, 1)
	where, items := " FROM c WHERE "+f.sql(b), r.passes(pk, f)
	o := drawOptions(t, b)
	count := r.drain(t, "SELECT VALUE COUNT(1)"+where, keyOf(pk), o)
	if len(count) != 1 || string(count[0]) != fmt.Sprint(len(items)) {
		t.Fatalf("COUNT%s: %q, the model has %d", where, count, len(items))
	}
	groups := map[string]int{} // by JSON; "" is undefined
	for _, i := range items {
		text := ""
		if v, ok := i.doc["t"]; ok {
			b, _ := json.Marshal(v)
			text = string(b)
		}
		groups[text]++
	}
	for _, row := range r.drain(t, "SELECT c.t, COUNT(1) AS k"+where+" GROUP BY c.t", keyOf(pk), o) {
		doc, text := parsed(t, row), ""
		if v, ok := doc["t"]; ok {
			b, _ := json.Marshal(v)
			text = string(b)
		}
		if doc["k"] != float64(groups[text]) || groups[text] == 0 {
			t.Fatalf("GROUP BY%s: %s, the model has %v", where, row, groups)
		}
		delete(groups, text)
	}
	if len(groups) > 0 {
		t.Fatalf("GROUP BY%s: %v are missing", where, groups)
	}
	values := map[string]bool{}
	for _, i := range items {
		if v, ok := i.doc["n"]; ok {
			b, _ := json.Marshal(v)
			values[string(b)] = true
		}
	}
	for _, row := range r.drain(t, "SELECT DISTINCT VALUE c.n"+where, keyOf(pk), o) {
		if !values[string(row)] {
			t.Fatalf("DISTINCT%s: %s, the model has %v", where, row, values)
		}
		delete(values, string(row))
	}
	if len(values) > 0 {
		t.Fatalf("DISTINCT%s: %v are missing", where, values)
	}
}

// keyset pages through a partition by the values of the last row of each page, without continuation tokens.
func (r *rig) keyset(t *rapid.T) {
	pk, size := r.anyKey(t), rapid.IntRange(1, 3).Draw(t, "page size")
	orderBy := []string{"t", "n", "id"}
	if !r.policy.composed(orderBy) {
		t.Skip("no composite index")
	}
	const text = "SELECT * FROM c WHERE c.t = @t AND (c.n > @n OR (c.n = @n AND c.id > @id)) ORDER BY c.t, c.n, c.id"
	want := r.passes(pk,
		junction{list: []filter{comparison{path: "t", op: "=", value: "x"},
			comparison{path: "n", op: ">", value: -1e9}}})
	slices.SortFunc(want, func(a, b *modelItem) int { return compareBy(orderBy, a.doc, b.doc) })
	n, id := any(-1e9), any("")
	for {
		page, err := r.c.NewQueryItemsPager(text, keyOf(pk),
			&azcosmos.QueryOptions{PageSizeHint: int32(size),
				QueryParameters: params("@t", "x", "@n", n, "@id", id)}).NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) != min(size, len(want)) {
			t.Fatalf("keyset page after %v %v: %d items, the model has %d", n, id, len(page.Items), len(want))
		}
		for i, row := range page.Items {
			doc := parsed(t, row)
			r.same(t, want[i], doc)
			n, id = doc["n"], doc["id"]
		}
		if want = want[len(page.Items):]; len(want) == 0 {
			return
		}
	}
}
