package sql

import (
	"strings"
	"testing"
)

// FuzzSplit: queries made of the clauses of a valid query are valid.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"SELECT * FROM c",
		"SELECT DISTINCT TOP 3 c.a AS b, c[\"x y\"], c.n+1, (c.m) k FROM root AS c WHERE c.a = 'FROM' ORDER BY " +
			"c[\"where\"] DESC, c[\"b\"] ASC",
		"select value count(1) from c where c[\"group\"] = 1",
		"SELECT c.t, SUM(c.n) s, [c.t] FROM x c GROUP BY c.t, ABS(c.n) OFFSET 1 LIMIT @l",
		"SELECT VALUE {\"from\": c[\"from\"], \"l\": [1, 2]} FROM c WHERE c.x IN (1, 2) OR (c.y ? true : false) -- ORDER " +
			"BY\n ORDER BY c.o", "SELECT VALUE AVG(c.x) + MAX(c.y) FROM c",
		`SELECT c["AS"] b, c["as"] AS as1, c["order"] FROM c ORDER BY c["desc"], c["asc"] DESC`,
		`SELECT c.n AS from_, c["as"] AS where_, (c["a"]) AS groups FROM c ORDER BY c.n`,
		"SELECT TOP 1 c.a FROM c WHERE FullTextContains(c.t, 'x') ORDER BY RANK RRF(FullTextScore(c.t, 'a', @b), " +
			"FullTextScore(c.s, ['c']), [1, -2])",
		"SELECT c.n FROM c AS c WHERE c.a = 1", "SELECT TOP 1 1 AS one FROM c AS True WHERE true",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Split(text)
		if err != nil {
			return
		}
		accepted := func(s string) {
			if _, err := Parse(s); err != nil {
				t.Fatalf("%q is split into %+v: %q: %v", text, c, s, err)
			}
		}
		if c.Alias == "" || len(c.Columns) == 0 {
			t.Fatalf("%q is split into %+v", text, c)
		}
		from := " FROM " + c.From
		if c.Where != "" {
			accepted("SELECT *" + from + " WHERE (" + c.Where + "\n)")
		}
		if len(c.OrderBy) > 0 {
			accepted("SELECT *" + from + " ORDER BY " + strings.Join(c.OrderBy, " DESC, "))
		}
		group := ""
		if len(c.GroupBy) > 0 {
			group = " GROUP BY " + strings.Join(c.GroupBy, ", ")
		}
		for _, one := range c.Columns {
			accepted("SELECT VALUE (" + one.Text + ")" + from + group)
			if one.Aggregate != "" {
				accepted("SELECT VALUE " + one.Aggregate + "(" + one.Argument + ")" + from)
			}
		}
	})
}
