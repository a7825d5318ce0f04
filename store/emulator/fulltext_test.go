package emulator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/store/emulator/internal/layout"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/cockroachdb/pebble/v2"
	gocmp "github.com/google/go-cmp/cmp"
)

// textProperties returns the properties of a container with texts in /t and /o/t, with or without full-text indexes.
func textProperties(id string, indexed bool) azcosmos.ContainerProperties {
	never := int32(-1)
	p := azcosmos.ContainerProperties{ID: id, DefaultTimeToLive: &never,
		IndexingPolicy: &azcosmos.IndexingPolicy{Automatic: true,
			IncludedPaths: []azcosmos.IncludedPath{{Path: "/*"}}, ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/t/?"}},
			CompositeIndexes: [][]azcosmos.CompositeIndex{{{Path: "/n", Order: azcosmos.CompositeIndexDescending},
				{Path: "/id", Order: azcosmos.CompositeIndexDescending}}}},
		FullTextPolicy: &azcosmos.FullTextPolicy{DefaultLanguage: "en-US", FullTextPaths: []azcosmos.FullTextPath{
			{Path: "/t", Language: "en-US"}, {Path: "/o/t", Language: "fr-FR"}}}}
	if indexed {
		p.IndexingPolicy.FullTextIndexes = []azcosmos.FullTextIndex{{Path: "/t"}, {Path: "/o/t"}}
	}
	return p
}

// randomText returns a text of few different words, of which some are frequent.
func randomText(r *rand.Rand, most int) string {
	words := []string{"red", "Red", "bicycle", "bicycles", "the", "of", "running", "run", "café", "東京", "a-b", "x",
		"rare"}
	var b strings.Builder
	for range r.IntN(most + 1) {
		n := len(words)
		if r.IntN(3) > 0 {
			n = 6
		}
		b.WriteString(words[r.IntN(n)] + []string{" ", ", ", ". "}[r.IntN(3)])
	}
	return b.String()
}

// longTag is longer than the values that the range index has whole.
var longTag = strings.Repeat("long", 100)

func randomTags(r *rand.Rand) any {
	if r.IntN(8) == 0 {
		return map[string]any{"[]": "a", "": "a"}
	}
	tags := make([]any, r.IntN(5))
	for i := range tags {
		tags[i] = []any{"a", "a", "b", longTag, 1, 1.5, nil, true, []any{1}, map[string]any{"a": 1}}[r.IntN(10)]
	}
	return tags
}

func randomTextCondition(r *rand.Rand) string {
	path := []string{"c.t", "c.o.t"}[r.IntN(2)]
	term := func() string { return "'" + randomText(r, 3) + "'" }
	switch r.IntN(11) {
	case 7:
		return fmt.Sprintf("c.pk = 'p%d'", r.IntN(3))
	case 8:
		return fmt.Sprintf("c.u = %d", r.IntN(3))
	case 9, 10:
		return fmt.Sprintf("ARRAY_CONTAINS(c.%s, %s)", []string{"tags", "o.tags"}[r.IntN(2)],
			[]string{"'a'", "'" + longTag + "'", "1", "null", "[1]", `{"a":1}`, "undefined"}[r.IntN(7)])
	case 0:
		return "FullTextContainsAll(" + path + ", " + term() + ", " + term() + ")"
	case 1:
		return "FullTextContainsAny(" + path + ", " + term() + ", " + term() + ", 'rare')"
	case 2:
		return "_FullTextWordCount(" + path + ") > " + fmt.Sprint(r.IntN(8))
	case 3:
		return "c.n < " + fmt.Sprint(r.IntN(121))
	case 4:
		return "NOT (" + randomTextCondition(r) + ")"
	case 5:
		return "(" + randomTextCondition(r) + " OR " + randomTextCondition(r) + ")"
	}
	return "FullTextContains(" + path + ", " + term() + ")"
}

// TestFullText_IndexAndScan: a container with full-text indexes answers queries like one without.
func TestFullText_IndexAndScan(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	now := time.Now()
	e, ctx := newEngine(t, Options{Partitions: 3, Clock: func() time.Time { return now }}), context.Background()
	indexed, plain := newContainer(t, e, textProperties("c", true)), newContainer(t, e, textProperties("plain", false))
	for range 500 {
		number := r.IntN(120)
		key, id := fmt.Sprintf("p%d", r.IntN(3)), fmt.Sprint(number)
		texts := []any{randomText(r, 12), randomText(r, 12), nil, 1}
		doc, err := json.Marshal(map[string]any{"id": id, "pk": key, "n": number * 37 % 121, "t": texts[r.IntN(4)],
			"o": map[string]any{"t": texts[r.IntN(4)], "tags": randomTags(r)}, "ttl": []any{-1, 1000, 3000}[r.IntN(3)],
			"u": r.IntN(3), "tags": randomTags(r)})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Second)
		remove, text, tags := r.IntN(6) == 0, randomText(r, 12), randomTags(r)
		for _, c := range []*azcosmos.ContainerClient{indexed, plain} {
			switch {
			case remove:
				if _, err := c.DeleteItem(ctx, pk(key), id, nil); err != nil && statusOf(err) != 404 {
					t.Fatal(err)
				}
				continue
			case len(text)%3 == 0:
				var patch azcosmos.PatchOperations
				patch.AppendSet("/t", text)
				patch.AppendSet("/tags", tags)
				if _, err := c.PatchItem(ctx, pk(key), id, patch, nil); err != nil && statusOf(err) != 404 {
					t.Fatal(err)
				}
				continue
			}
			if _, err := c.UpsertItem(ctx, pk(key), doc, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	audit(t, e)
	now = now.Add(500 * time.Second) // some have expired
	for range 300 {
		var conditions []string
		for range 1 + r.IntN(3) {
			conditions = append(conditions, randomTextCondition(r))
		}
		where := " FROM c WHERE " + strings.Join(conditions, " AND ")
		score := fmt.Sprintf("_FullTextScore(c.t, ['red', '%s'], 100, 500, [60, %d])", randomText(r, 2), r.IntN(120))
		orders := []string{" ORDER BY c.n DESC", " ORDER BY c.n DESC, c.id DESC", " ORDER BY c.n",
			" ORDER BY c._ts DESC",
			" ORDER BY " + score + " DESC", " ORDER BY " + score}
		order := orders[r.IntN(len(orders))]
		key := pk(fmt.Sprintf("p%d", r.IntN(3)))
		o := &azcosmos.QueryOptions{PageSizeHint: int32(1 + r.IntN(30))}
		for _, q := range []struct {
			text    string
			key     azcosmos.PartitionKey
			ordered bool
		}{
			{"SELECT VALUE c.id" + where, azcosmos.NewPartitionKey(), false},
			{"SELECT VALUE c.id" + where, key, false},
			{"SELECT c.id, " + score + " AS score" + where + order, key, true},
			{"SELECT c.id, " + score + " AS score FROM c" + order, key, true},
			{"SELECT TOP 7 VALUE c.id" + where + order, key, true},
			{"SELECT VALUE c.o.t" + where + order + " OFFSET 2 LIMIT 20", key, true},
			{"SELECT COUNT(1) AS n, [{\"words\": SUM(_FullTextWordCount(c.t)), \"hits\": [COUNTIF(FullTextContains(" +
				"c.t, 'red bicycle'))]}] AS texts FROM c", key, true},
			{"SELECT VALUE c.id FROM c" + order + " OFFSET 5 LIMIT 40", key, true},
			{"SELECT COUNT(1) AS n, SUM(_FullTextWordCount(c.t)) AS words, " +
				"COUNTIF(FullTextContains(c.o.t, 'red')) AS hits" + where, key, true},
		} {
			got, want := queryAll(t, indexed, q.text, q.key, o), queryAll(t, plain, q.text, q.key, o)
			if !q.ordered {
				slices.Sort(got)
				slices.Sort(want)
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Fatalf("%s, pages of %d (-scan +index): %s", q.text, o.PageSizeHint, d)
			}
		}
	}
}

// TestFullText_Order: a page in the order of a composite index reads few of many texts with a frequent term, and all
// of the few with a rare one.
func TestFullText_Order(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	c := newContainer(t, e, textProperties("c", true))
	const items = 2500
	for at := 0; at < items; at += 100 {
		b := c.NewTransactionalBatch(pk("p"))
		for i := at; i < at+100; i++ {
			text := "no frequency"
			if i%2 == 0 {
				text = "a frequent term"
			}
			if i%500 == 0 {
				text += " is rare"
			}
			b.CreateItem(fmt.Appendf(nil, `{"id":"%d","pk":"p","n":%d,"t":%q}`, i, i, text), nil)
		}
		if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || !out.Success {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]struct {
		step, pages int
		most        float64 // RU of the first page
		reads       int     // items read for it
	}{"frequent term": {2, 25, 8, 51}, "rare": {500, 1, 8, 5}} {
		pager := c.NewQueryItemsPager(
			"SELECT VALUE c.n FROM c WHERE FullTextContains(c.t, '"+query+"') ORDER BY c.n DESC", pk("p"),
			&azcosmos.QueryOptions{PageSizeHint: 50})
		next, pages := items-want.step, 0
		for ; pager.More(); pages++ {
			page, err := pager.NextPage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if pages == 0 && float64(page.RequestCharge) > want.most {
				t.Errorf("%s: the first page costs %v RU", query, page.RequestCharge)
			}
			if reads := fmt.Sprintf(";retrievedDocumentCount=%d;", want.reads); pages == 0 &&
				!strings.Contains(*page.QueryMetrics, reads) {
				t.Errorf("%s: the first page reads other items than%s: %s", query, reads, *page.QueryMetrics)
			}
			for _, row := range page.Items {
				if string(row) != fmt.Sprint(next) {
					t.Fatalf("%s: %s, want %d", query, row, next)
				}
				next -= want.step
			}
		}
		if next != -want.step || pages != want.pages {
			t.Errorf("%s: ends before %d, after %d pages", query, next, pages)
		}
	}

	// A query that sorts goes on sorting, though meanwhile it would not begin to.
	pager := c.NewQueryItemsPager(
		"SELECT VALUE c.n FROM c WHERE FullTextContains(c.t, 'rare') ORDER BY c.n DESC", pk("p"),
		&azcosmos.QueryOptions{PageSizeHint: 2})
	rows := 0
	for ; pager.More(); rows++ {
		page, err := pager.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if rows += len(page.Items) - 1; rows > 1 {
			continue
		}
		for at := 0; at < 1100; at += 100 {
			b := c.NewTransactionalBatch(pk("p"))
			for i := at; i < at+100; i++ {
				b.CreateItem(fmt.Appendf(nil, `{"id":"later%d","pk":"p","n":%d,"t":"rare"}`, i, items+i), nil)
			}
			if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || !out.Success {
				t.Fatal(err)
			}
		}
	}
	if rows != 5 {
		t.Errorf("%d rows, want 5", rows)
	}
}

// TestFullText_Filter: a search that a property or an element of an array restricts intersects their entries in the
// range index with the postings, so that it reads about as much as the shorter list.
func TestFullText_Filter(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	c := newContainer(t, e, textProperties("c", true))
	const items = 3000
	for at := 0; at < items; at += 100 {
		b := c.NewTransactionalBatch(pk("p"))
		for i := at; i < at+100; i++ {
			by, tag := "many", "many"
			if i%1000 == 7 {
				by, tag = "few", "few"
			}
			b.CreateItem(fmt.Appendf(nil, `{"id":"%d","pk":"p","n":%d,"t":"red wine","u":%q,"tags":["a",%q]}`, i, i, by, tag), nil)
		}
		if out, err := c.ExecuteTransactionalBatch(ctx, b, nil); err != nil || !out.Success {
			t.Fatal(err)
		}
	}
	for _, order := range []string{" ORDER BY _FullTextScore(c.t, ['wine'], 3000, 6000, [3000]) DESC",
		" ORDER BY c.n DESC, c.id DESC", " ORDER BY c.n DESC", ""} {
		for filter, want := range map[string]struct {
			rows  int
			most  float64 // RU
			reads int
		}{
			"c.u = 'few'":                                            {3, 3, 3},
			"ARRAY_CONTAINS(c.tags, 'few')":                          {3, 3, 3},
			"ARRAY_CONTAINS(c.tags, 'none')":                         {0, 2.5, 0},
			"c.u = 'few' AND ARRAY_CONTAINS(c.tags, 'many')":         {0, 2.5, 0},
			"ARRAY_CONTAINS(c.tags, 'many') AND c.u = 'many'":        {5, 25, 6},
			"ARRAY_CONTAINS(c.tags, 'a') AND c.u IN ('few', 'many')": {5, 20, 6},
		} {
			query := "SELECT TOP 5 VALUE c.n FROM c WHERE FullTextContains(c.t, 'red') AND " + filter + order
			page, err := c.NewQueryItemsPager(query, pk("p"), nil).NextPage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, figures, _ := strings.Cut(*page.QueryMetrics, ";retrievedDocumentCount=")
			var reads int
			if _, err := fmt.Sscanf(figures, "%d;", &reads); err != nil {
				t.Fatal(err)
			}
			if len(page.Items) != want.rows || float64(page.RequestCharge) > want.most || reads > want.reads {
				t.Errorf("%s: %d rows, %d items read, %v RU, want %+v", query, len(page.Items), reads, page.RequestCharge, want)
			}
		}
	}
}

// TestFullText_Charge: a search costs what it reads of the index and returns, not the texts that it ranks; a write
// costs the postings that it changes.
func TestFullText_Charge(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	c := newContainer(t, e, textProperties("c", true))
	var plain, texts float32
	for i := range 300 {
		res, err := c.CreateItem(ctx, pk("p"),
			fmt.Appendf(nil, `{"id":"%d","pk":"p","n":%d,"t":%q}`, i, i, strings.Repeat("red wine ", 1000)), nil)
		if err != nil {
			t.Fatal(err)
		}
		texts = res.RequestCharge
		res, err = c.ReplaceItem(ctx, pk("p"), fmt.Sprint(i),
			fmt.Appendf(nil, `{"id":"%d","pk":"p","n":%d,"t":%q}`, i, i+1, strings.Repeat("red wine ", 1000)), nil)
		if err != nil {
			t.Fatal(err)
		}
		plain = res.RequestCharge
	}
	other := newContainer(t, e, textProperties("plain", false))
	res, err := other.CreateItem(ctx, pk("p"),
		fmt.Appendf(nil, `{"id":"1","pk":"p","n":1,"t":%q}`, strings.Repeat("red wine ", 1000)), nil)
	if err != nil {
		t.Fatal(err)
	}
	const posting = 4.0 / 21 / 10
	if d := float64(texts - res.RequestCharge); math.Abs(d-3*posting) > 0.011 { // red, wine and the number of words
		t.Errorf("an item with 3 postings costs %v RU more than without, want %v", d, 3*posting)
	}
	if plain >= 2*texts {
		t.Errorf("a replacement of another property costs %v RU, a create %v", plain, texts)
	}
	pager := c.NewQueryItemsPager("SELECT TOP 5 VALUE c.id FROM c WHERE FullTextContains(c.t, 'red') "+
		"ORDER BY _FullTextScore(c.t, ['wine'], 300, 600000, [300]) DESC", pk("p"), nil)
	page, err := pager.NextPage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 5 || page.RequestCharge < 3.5 || page.RequestCharge > 12 ||
		!strings.Contains(*page.QueryMetrics, ";retrievedDocumentCount=5;") {
		t.Errorf("%d rows cost %v RU: %s", len(page.Items), page.RequestCharge, *page.QueryMetrics)
	}
	pager = c.NewQueryItemsPager("SELECT COUNT(1) AS items, SUM(_FullTextWordCount(c.t)) AS words, "+
		"COUNTIF(FullTextContains(c.t, 'red')) AS hits FROM c", pk("p"), nil)
	if page, err = pager.NextPage(ctx); err != nil {
		t.Fatal(err)
	}
	if got := string(page.Items[0]); got != `{"items":300,"words":600000,"hits":300}` || page.RequestCharge > 2.8 ||
		!strings.Contains(*page.QueryMetrics, ";retrievedDocumentCount=0;") {
		t.Errorf("%s for %v RU: %s", got, page.RequestCharge, *page.QueryMetrics)
	}
}

// TestFullText_PatchCondition: the condition of a patch has the language of the policy.
func TestFullText_PatchCondition(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	c := newContainer(t, e, textProperties("c", true))
	mustCreate(t, c, "p", `{"id":"1","pk":"p","t":"runs","o":{"t":"runs"}}`)
	for condition, status := range map[string]int{
		"FullTextContains(c.t, 'running')":   0,
		"FullTextContains(c.o.t, 'running')": 412,
		"FullTextContains(c.o.t, 'runs')":    0,
	} {
		var patch azcosmos.PatchOperations
		patch.SetCondition("from c where " + condition)
		patch.AppendSet("/n", 1)
		if _, err := c.PatchItem(ctx, pk("p"), "1", patch, nil); statusOf(err) != status {
			t.Errorf("%s: %v, want %d", condition, err, status)
		}
	}
}

// TestFullText_Reindex: the index follows the policy, and an index of another analysis is rebuilt when the engine
// opens.
func TestFullText_Reindex(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	e, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, e, textProperties("c", false))
	for i, text := range []string{"the red bicycle", "bicycles", "wine"} {
		mustCreate(t, c, "p", fmt.Sprintf(`{"id":"%d","pk":"p","t":%q}`, i, text))
	}
	postings := func() (n int) {
		scan(t, e, layout.KindText, e.catalog.Load().databases["db"].containers["c"], func(_, _ []byte) { n++ })
		return n
	}
	check := func(wantPostings int, query string, want ...string) {
		t.Helper()
		audit(t, e)
		if n := postings(); n != wantPostings {
			t.Errorf("%d postings, want %d", n, wantPostings)
		}
		got := queryAll(t, c, "SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, '"+query+"')", pk("p"), nil)
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
	replace := func(p azcosmos.ContainerProperties) {
		t.Helper()
		p.PartitionKeyDefinition.Paths = []string{"/pk"}
		if _, err := c.Replace(ctx, p, nil); err != nil {
			t.Fatal(err)
		}
	}
	check(0, "bicycle", `"0"`, `"1"`)
	replace(textProperties("c", true))
	check(2*3+4, "bicycle", `"0"`, `"1"`) // headers for /t and /u, and of /t red, bicycl twice, wine
	french := textProperties("c", true)
	french.FullTextPolicy.FullTextPaths[0].Language = "fr-FR"
	replace(french)
	check(2*3+5, "bicycle", `"0"`)

	// The state that an earlier version may have left: postings of another analysis.
	inner := e.catalog.Load().databases["db"].containers["c"]
	r := inner.def.record
	r.Analysis = 0
	m := &metaChange{e: e, batch: e.db.NewBatch()}
	if err := m.set(layout.MetaContainer, inner.No, r); err != nil {
		t.Fatal(err)
	}
	if err := m.batch.DeleteRange(layout.AppendKind(nil, layout.KindText, inner.No),
		layout.AppendKind(nil, layout.KindText, inner.No+1), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.db.Apply(m.batch, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if c, err = newClient(t, e).NewContainer("db", "c"); err != nil {
		t.Fatal(err)
	}
	check(2*3+5, "the red", `"0"`)
	replace(textProperties("c", false))
	check(0, "bicycle", `"0"`, `"1"`)
}

// bm25 is the score of a document among documents, of words as they are.
func bm25(documents [][]string, document int, terms []string) float64 {
	words := 0
	for _, d := range documents {
		words += len(d)
	}
	average, score := float64(words)/float64(len(documents)), 0.0
	for _, term := range terms {
		phrase := strings.Fields(term)
		count := func(d []string) (n float64) {
			for i := range len(d) - len(phrase) + 1 {
				if slices.Equal(d[i:i+len(phrase)], phrase) {
					n++
				}
			}
			return n
		}
		having := 0.0
		for _, d := range documents {
			if count(d) > 0 {
				having++
			}
		}
		f, total := count(documents[document]), float64(len(documents))
		idf := math.Log(1 + (total-having+0.5)/(having+0.5))
		score += idf * f * 2.2 / (f + 1.2*(0.25+0.75*float64(len(documents[document]))/average))
	}
	return score
}

// TestFullText_Rank: ranked orders over partitions, by a client that executes plans, are those of BM25 and of the
// fusion of ranks.
func TestFullText_Rank(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	e := newEngine(t, Options{Partitions: 3})
	properties := textProperties("c", true)
	properties.FullTextPolicy.FullTextPaths[1].Language = "en-US"
	c := newContainer(t, e, properties)
	vocabulary := strings.Fields("red wine cat dog sun moon tree") // that neither stems nor stops
	document := func() (words []string) {
		for range 1 + r.IntN(30) {
			words = append(words, vocabulary[min(r.IntN(7), r.IntN(7))])
		}
		return words
	}
	var titles, texts [][]string
	for i := range 80 {
		titles, texts = append(titles, document()), append(texts, document())
		key := fmt.Sprint("p", i%7)
		mustCreate(t, c, key, fmt.Sprintf(`{"id":"%d","pk":%q,"n":%d,"t":%q,"o":{"t":%q}}`, i, key, i,
			strings.Join(titles[i], " "), strings.Join(texts[i], " ")))
	}
	for _, q := range []struct {
		text       string
		terms      [][]string // of /t, and of /o/t if there are two
		weights    []float64
		skip, take int
		where      func(i int) bool
	}{
		{text: "SELECT TOP 10 VALUE c.n FROM c ORDER BY RANK FullTextScore(c.t, 'red')",
			terms: [][]string{{"red"}}, take: 10},
		{text: "SELECT TOP 80 VALUE c.n FROM c ORDER BY RANK FullTextScore(c.t, 'moon', 'tree')",
			terms: [][]string{{"moon", "tree"}}, take: 80},
		{text: "SELECT TOP 80 VALUE c.n FROM c ORDER BY RANK FullTextScore(c.t, 'red wine', 'tree')",
			terms: [][]string{{"red wine", "tree"}}, take: 80},
		{text: "SELECT VALUE c.n FROM c ORDER BY RANK FullTextScore(c.t, ['sun']) OFFSET 5 LIMIT 20",
			terms: [][]string{{"sun"}}, skip: 5, take: 20},
		{text: "SELECT TOP 30 VALUE c.n FROM c WHERE c.n < 50 ORDER BY RANK FullTextScore(c.t, 'cat', 'dog')",
			terms: [][]string{{"cat", "dog"}}, take: 30, where: func(i int) bool { return i < 50 }},
		{text: "SELECT TOP 30 VALUE c.n FROM c WHERE FullTextContains(c.o.t, 'moon') AND c.n >= 9 " +
			"ORDER BY RANK FullTextScore(c.t, 'red')", terms: [][]string{{"red"}}, take: 30,
			where: func(i int) bool { return i >= 9 && slices.Contains(texts[i], "moon") }},
		{text: "SELECT TOP 40 VALUE c.n FROM c ORDER BY RANK " +
			"RRF(FullTextScore(c.t, 'red'), FullTextScore(c.o.t, 'dog', 'sun'))",
			terms: [][]string{{"red"}, {"dog", "sun"}}, take: 40},
		{text: "SELECT VALUE c.n FROM c ORDER BY RANK " +
			"RRF(FullTextScore(c.t, 'red'), FullTextScore(c.o.t, 'dog'), [2, 0.5]) " +
			"OFFSET 3 LIMIT 40", terms: [][]string{{"red"}, {"dog"}}, weights: []float64{2, 0.5}, skip: 3, take: 40},
		{text: "SELECT TOP 40 VALUE c.n FROM c ORDER BY RANK " +
			"RRF(FullTextScore(c.t, 'red'), FullTextScore(c.o.t, 'moon'), [1, -1])",
			terms: [][]string{{"red"}, {"moon"}}, weights: []float64{1, -1}, take: 40},
	} {
		var list []int
		for i := range titles {
			if q.where == nil || q.where(i) {
				list = append(list, i)
			}
		}
		fused := make([]float64, len(titles))
		for at, terms := range q.terms {
			score := func(i int) float64 { return bm25([][][]string{titles, texts}[at], i, terms) }
			weight := 1.0
			if q.weights != nil {
				weight = q.weights[at]
			}
			slices.SortFunc(list, func(a, b int) int {
				if weight < 0 {
					a, b = b, a
				}
				return cmp.Compare(score(b), score(a))
			})
			place := 0
			for j, i := range list {
				if j == 0 || math.Abs(score(i)-score(list[j-1])) > 1e-12 {
					place++
				}
				if fused[i] += math.Abs(weight) / float64(60+place); len(q.terms) == 1 {
					fused[i] = score(i)
				}
			}
		}
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(fused[b], fused[a]) })
		list = list[min(q.skip, len(list)):]
		list = list[:min(q.take, len(list))]
		got := rank(t, e, q.text)
		if len(got) != len(list) {
			t.Errorf("%s: %d rows, want %d", q.text, len(got), len(list))
			continue
		}
		for i, row := range got { // items with the same score are in any order
			var n int
			mustUnmarshal(t, []byte(row), &n)
			if math.Abs(fused[n]-fused[list[i]]) > 1e-12 {
				t.Errorf("%s: row %d is %d with the score %v, want %d with %v", q.text, i, n, fused[n], list[i],
					fused[list[i]])
				break
			}
		}
	}
}

// ranked is a row of a component query of ORDER BY RANK.
type ranked struct {
	RID     string `json:"_rid"`
	Payload struct {
		Payload json.RawMessage `json:"payload"`
		Scores  []float64       `json:"componentScores"`
	} `json:"payload"`
}

// rank executes a query with ORDER BY RANK like an SDK: a plan, statistics of all ranges, components, fusion.
func rank(t testing.TB, e *Engine, text string) (rows []string) {
	t.Helper()
	info := rankPlan(t, e, text, "")
	run := func(query, rangeID string, rows any) {
		t.Helper()
		body, err := json.Marshal(map[string]string{"query": query})
		if err != nil {
			t.Fatal(err)
		}
		token := ""
		var all []json.RawMessage
		for {
			h := []string{"Content-Type", "application/query+json", "X-Ms-Documentdb-Isquery", "True",
				"X-Ms-Documentdb-Partitionkeyrangeid", rangeID, "X-Ms-Max-Item-Count", "7"}
			if token != "" {
				h = append(h, "X-Ms-Continuation", token)
			}
			res := do(t, e, "POST", "/dbs/db/colls/c/docs", string(body), h...)
			out := readAll(t, res)
			if res.StatusCode != 200 {
				t.Fatalf("%s: %s", query, out)
			}
			var page struct{ Documents []json.RawMessage }
			mustUnmarshal(t, out, &page)
			all = append(all, page.Documents...)
			if token = res.Header.Get("X-Ms-Continuation"); token == "" {
				break
			}
		}
		list, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		mustUnmarshal(t, list, rows)
	}
	var ranges struct{ PartitionKeyRanges []struct{ ID string } }
	mustUnmarshal(t, readAll(t, do(t, e, "GET", "/dbs/db/colls/c/pkranges", "")), &ranges)
	documents, words, hits := 0, map[int]int{}, map[int][]int{}
	for _, one := range ranges.PartitionKeyRanges {
		var statistics []struct {
			DocumentCount      int
			FullTextStatistics []struct {
				TotalWordCount int
				HitCounts      []int
			}
		}
		run(info.Statistics, one.ID, &statistics)
		documents += statistics[0].DocumentCount
		for i, s := range statistics[0].FullTextStatistics {
			words[i] += s.TotalWordCount
			if hits[i] == nil {
				hits[i] = make([]int, len(s.HitCounts))
			}
			for j, n := range s.HitCounts {
				hits[i][j] += n
			}
		}
	}
	fill := []string{clientFilter, "true", "{documentdb-formattablehybridsearchquery-totaldocumentcount}",
		fmt.Sprint(documents)}
	for i := range words {
		list, err := json.Marshal(hits[i])
		if err != nil {
			t.Fatal(err)
		}
		fill = append(fill, fmt.Sprintf("{documentdb-formattablehybridsearchquery-totalwordcount-%d}", i),
			fmt.Sprint(words[i]), fmt.Sprintf("{documentdb-formattablehybridsearchquery-hitcountsarray-%d}", i),
			string(list))
	}
	found := map[string]ranked{}
	for _, component := range info.Components {
		for _, one := range ranges.PartitionKeyRanges {
			var list []ranked
			run(strings.NewReplacer(fill...).Replace(component.Rewritten), one.ID, &list)
			for _, row := range list {
				found[row.RID] = row
			}
		}
	}
	fused := map[string]float64{}
	var order []string
	for rid := range found {
		order = append(order, rid)
	}
	for i, component := range info.Components {
		slices.SortFunc(order, func(a, b string) int {
			x, y := found[a].Payload.Scores[i], found[b].Payload.Scores[i]
			if component.OrderBy[0] == "Descending" {
				return cmp.Compare(y, x)
			}
			return cmp.Compare(x, y)
		})
		weight, place := 1.0, 0
		if len(info.Weights) > 0 {
			weight = info.Weights[i]
		}
		for j, rid := range order {
			if j == 0 || math.Abs(found[rid].Payload.Scores[i]-found[order[j-1]].Payload.Scores[i]) > 1e-12 {
				place++
			}
			fused[rid] += weight / float64(60+place)
		}
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(fused[b], fused[a]), strings.Compare(a, b))
	})
	skip := 0
	if info.Skip != nil {
		skip = *info.Skip
	}
	order = order[min(skip, len(order)):]
	for _, rid := range order[:min(*info.Take, len(order))] {
		rows = append(rows, string(found[rid].Payload.Payload))
	}
	return rows
}
