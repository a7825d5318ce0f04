package emulator

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"pgregory.net/rapid"
)

// modelGroup is the items with equal values of some properties.
type modelGroup struct {
	row   map[string]any // these values, k0 and so on
	items []*modelItem
}

// grouped returns the groups of items in the order of their values.
func grouped(items []*modelItem, paths []string) []*modelGroup {
	var all []*modelGroup
	columns := make([]string, len(paths))
	for i := range paths {
		columns[i] = fmt.Sprintf("k%d", i)
	}
	for _, item := range items {
		row := map[string]any{}
		for i, path := range paths {
			if v, ok := at(item.doc, path); ok {
				row[columns[i]] = v
			}
		}
		n := slices.IndexFunc(all, func(g *modelGroup) bool { return equalJSON(g.row, row) })
		if n < 0 {
			n = len(all)
			all = append(all, &modelGroup{row: row})
		}
		all[n].items = append(all[n].items, item)
	}
	slices.SortFunc(all, func(a, b *modelGroup) int { return compareBy(columns, a.row, b.row) })
	return all
}

// sameKeys reports whether the first n keys of two groups are equal.
func sameKeys(a, b map[string]any, n int) bool {
	for i := range n {
		k := fmt.Sprintf("k%d", i)
		x, is := a[k]
		y, has := b[k]
		if is != has || !equalJSON(x, y) {
			return false
		}
	}
	return true
}

// beginAlike reports whether the keys of two groups begin with the same 250 bytes: beyond 256 the engine orders them
// by a hash.
func beginAlike(a, b map[string]any, n int) bool {
	const same = 250
	for i := range n {
		k := fmt.Sprintf("k%d", i)
		x, _ := a[k].(string)
		y, _ := b[k].(string)
		if len(x) >= same && len(y) >= same && sameKeys(a, b, i) {
			return x[:same] == y[:same]
		}
	}
	return false
}

// aggregate computes an aggregate of a property of a group; ok is false if it is undefined.
func (g *modelGroup) aggregate(name, path string) (result any, ok bool) {
	var values []any
	for _, i := range g.items {
		if v, ok := at(i.doc, path); ok {
			values = append(values, v)
		}
	}
	of := func(rank func(int) bool) bool {
		return !slices.ContainsFunc(values, func(v any) bool { return !rank(typeRank(v)) })
	}
	numbers := of(func(rank int) bool { return rank == 3 })
	scalars := of(func(rank int) bool { return rank < 5 }) && len(values) > 0
	sum := 0.0
	for _, v := range values {
		n, _ := v.(float64)
		sum += n
	}
	switch name {
	case "COUNT":
		return float64(len(values)), true
	case "SUM":
		return sum, numbers
	case "AVG":
		return sum / float64(len(values)), numbers && len(values) > 0
	}
	if !scalars {
		return nil, false
	}
	if name == "MIN" {
		return slices.MinFunc(values, order), true
	}
	return slices.MaxFunc(values, order), true
}

// part draws TOP, OFFSET and LIMIT, or neither; of returns that part of the rows.
func part(t *rapid.T) (top string, limit string, of func(rows []string) []string) {
	n, m := rapid.IntRange(0, 4).Draw(t, "n"), rapid.IntRange(0, 4).Draw(t, "m")
	switch rapid.IntRange(0, 3).Draw(t, "part") {
	case 0:
		return fmt.Sprintf("TOP %d ", n), "", func(rows []string) []string { return rows[:min(n, len(rows))] }
	case 1:
		return "", fmt.Sprintf(" OFFSET %d LIMIT %d", n, m), func(rows []string) []string {
			rows = rows[min(n, len(rows)):]
			return rows[:min(m, len(rows))]
		}
	}
	return "", "", func(rows []string) []string { return rows }
}

// texts returns the rows of a query.
func (r *rig) texts(t *rapid.T, text, pk string, o *azcosmos.QueryOptions) []string {
	var rows []string
	for _, row := range r.drain(t, text, keyOf(pk), o) {
		rows = append(rows, string(row))
	}
	return rows
}

// groups compares GROUP BY several properties, and aggregates of others, page by page.
func (r *rig) groups(t *rapid.T) {
	pk, f := r.anyKey(t), drawFilter(t, 1)
	paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"t", "n", "s", "o.k"}), 1, 3, rapid.ID[string]).Draw(t,
		"group by")
	var columns, by []string
	for i, path := range paths {
		columns, by = append(columns, fmt.Sprintf("c.%s AS k%d", path, i)), append(by, "c."+path)
	}
	type aggregate struct{ name, path string }
	var aggregates []aggregate
	for i := range rapid.IntRange(0, 3).Draw(t, "aggregates") {
		a := aggregate{rapid.SampledFrom([]string{"COUNT", "SUM", "MIN", "MAX", "AVG"}).Draw(t, "aggregate"),
			rapid.SampledFrom([]string{"n", "s", "t", "o.k", "list", "id"}).Draw(t, "of")}
		aggregates = append(aggregates, a)
		columns = append(columns, fmt.Sprintf("%s(c.%s) AS a%d", a.name, a.path, i))
	}
	top, limit, of := part(t)
	body := strings.Join(columns, ", ") + " FROM c WHERE " + f.sql(nil) + " GROUP BY " + strings.Join(by, ", ")
	all := r.texts(t, "SELECT "+body, pk, nil)
	want := grouped(r.passes(pk, f), paths)
	if len(all) != len(want) {
		t.Fatalf("%s: %q, the model has %d", body, all, len(want))
	}
	for n, text := range all {
		row := parsed(t, []byte(text))
		if i := slices.IndexFunc(want[n:], func(g *modelGroup) bool {
			return beginAlike(g.row, want[n].row, len(paths)) && sameKeys(g.row, row, len(paths))
		}); i > 0 {
			want[n], want[n+i] = want[n+i], want[n]
		}
		for i, a := range aggregates {
			name := fmt.Sprintf("a%d", i)
			got, is := row[name]
			delete(row, name)
			should, has := want[n].aggregate(a.name, a.path)
			x, numbers := got.(float64)
			y, _ := should.(float64)
			if near := numbers && math.Abs(x-y) <= 1e-9*math.Abs(y); is != has ||
				is && !near && !equalJSON(got, should) {
				t.Fatalf("%s: row %d is %s, %s should be %v %v", body, n, text, name, should, has)
			}
		}
		if !equalJSON(row, want[n].row) {
			t.Fatalf("%s: row %d is %s, the model has %v", body, n, text, want[n].row)
		}
	}
	if rows := r.texts(t, "SELECT "+top+body+limit, pk, drawOptions(t, nil)); !slices.Equal(rows, of(all)) {
		t.Fatalf("%s%s%s: %q of %q", top, body, limit, rows, all)
	}
}

// distinct compares DISTINCT rows in an order, page by page.
func (r *rig) distinct(t *rapid.T) {
	pk, q := r.anyKey(t), r.drawQuery(t)
	if always, _ := r.policy.sorts(q.orderBy); !always {
		q.orderBy = nil
	}
	q.top, q.limit = -1, -1
	paths := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"t", "n", "s", "o.k"}), 1, 2, rapid.ID[string]).Draw(t,
		"distinct")
	var columns []string
	for i, path := range paths {
		columns = append(columns, fmt.Sprintf("c.%s AS k%d", path, i))
	}
	top, limit, of := part(t)
	body := q.text(strings.Join(columns, ", "), nil)[len("SELECT "):]
	all := r.texts(t, "SELECT DISTINCT "+body, pk, nil)
	want := grouped(r.passes(pk, q.filter), paths)
	first := func(g *modelGroup) map[string]any {
		return slices.MinFunc(g.items, func(a, b *modelItem) int { return compareBy(q.orderBy, a.doc, b.doc) }).doc
	}
	slices.SortStableFunc(want, func(a, b *modelGroup) int { return compareBy(q.orderBy, first(a), first(b)) })
	if len(all) != len(want) {
		t.Fatalf("DISTINCT %s: %q, the model has %d", body, all, len(want))
	}
	seen := map[int]bool{}
	for n, text := range all {
		row := parsed(t, []byte(text))
		i := slices.IndexFunc(want, func(g *modelGroup) bool { return equalJSON(g.row, row) })
		if i < 0 || seen[i] || compareBy(q.orderBy, first(want[i]), first(want[n])) != 0 {
			t.Fatalf("DISTINCT %s: row %d of %q", body, n, all)
		}
		seen[i] = true
	}
	if rows := r.texts(t, "SELECT DISTINCT "+top+body+limit, pk, drawOptions(t, nil)); !slices.Equal(rows, of(all)) {
		t.Fatalf("DISTINCT %s%s%s: %q of %q", top, body, limit, rows, all)
	}
}

// reindex changes the indexing policy. It drops the open queries, which may have lost their index.
func (r *rig) reindex(t *rapid.T) {
	r.policy, r.pages = rapid.SampledFrom(modelPolicies).Draw(t, "policy"), nil
	was, err := r.c.Read(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := *was.ContainerProperties
	p.IndexingPolicy = r.policy.properties()
	if _, err := r.c.Replace(context.Background(), p, nil); err != nil {
		t.Fatal(err)
	}
}
