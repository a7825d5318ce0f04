package emulator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// BenchmarkFullText searches 20,000 texts of about 300 words in one logical partition for two frequent words: in half
// and in a fifth of the texts.
func BenchmarkFullText(b *testing.B) {
	items := 20_000
	if testing.Short() {
		items = 1_000
	}
	e, ctx := newEngine(b, Options{}), context.Background()
	c := newContainer(b, e, textProperties("c", true))
	r := rand.New(rand.NewPCG(1, 0))
	text := func() string {
		var s strings.Builder
		for range 200 + r.IntN(200) {
			fmt.Fprintf(&s, "w%d ", int(math.Pow(20_000, r.Float64())))
		}
		return s.String()
	}
	for at := 0; at < items; at += 50 {
		batch := c.NewTransactionalBatch(pk("p"))
		for i := at; i < at+50; i++ {
			batch.CreateItem(fmt.Appendf(nil, `{"id":"%d","pk":"p","n":%d,"t":%q}`, i, i, text()), nil)
		}
		if out, err := c.ExecuteTransactionalBatch(ctx, batch, nil); err != nil || !out.Success {
			b.Fatal(err)
		}
	}
	score := " ORDER BY _FullTextScore(c.t, ['w40', 'w90'], 20000, 6000000, [10000, 4000]) DESC"
	for name, text := range map[string]string{
		"newest, two terms": "SELECT TOP 20 c.id FROM c WHERE FullTextContainsAll(c.t, 'w90', 'w40') ORDER BY c.n DESC",
		"newest, one term":  "SELECT TOP 20 c.id FROM c WHERE FullTextContains(c.t, 'w40') ORDER BY c.n DESC",
		"score, either":     "SELECT TOP 20 c.id FROM c" + score,
		"score, both":       "SELECT TOP 20 c.id FROM c WHERE FullTextContainsAll(c.t, 'w40', 'w90')" + score,
		"statistics": "SELECT COUNT(1) AS n, SUM(_FullTextWordCount(c.t)) AS words, " +
			"COUNTIF(FullTextContains(c.t, 'w40')) AS a, COUNTIF(FullTextContains(c.t, 'w90')) AS b FROM c",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if rows := queryAll(b, c, text, pk("p"), &azcosmos.QueryOptions{PageSizeHint: 20}); len(rows) == 0 {
					b.Fatal("no rows")
				}
			}
		})
	}
}
