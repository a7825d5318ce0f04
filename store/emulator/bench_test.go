package emulator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"byline/store/emulator/internal/index"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// benchBlog returns a container on disk with n comments of about 350 bytes in one logical partition.
func benchBlog(b *testing.B, n int) (*Engine, *azcosmos.ContainerClient) {
	b.Helper()
	e, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	c := newContainer(b, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	content := strings.Repeat("x", 200)
	for i := 0; i < n; i += 100 {
		batch := c.NewTransactionalBatch(pk("p"))
		for j := i; j < i+100; j++ {
			batch.CreateItem(fmt.Appendf(nil,
				`{"id":"%08x","pk":"p","type":"comment","creationDate":"%s","userId":"u%d","content":%q}`,
				uint32(j)*2654435761, benchDate(j), j%100, content), nil)
		}
		if out, err := c.ExecuteTransactionalBatch(context.Background(), batch, nil); err != nil || !out.Success {
			b.Fatal(err)
		}
	}
	return e, c
}

func benchDate(i int) string {
	return fmt.Sprintf("2024-01-%02dT%02d:%02d:%02d.000Z", 1+i/86400, i/3600%24, i/60%60, i%60)
}

// benchEngine measures the engine alone: a signed request, and its response read.
func benchEngine(b *testing.B, e *Engine, req *http.Request, body []byte) {
	b.Helper()
	b.ReportAllocs()
	ru := ""
	for b.Loop() {
		req.Body = io.NopCloser(bytes.NewReader(body))
		res, err := e.Do(req)
		if err != nil || res.StatusCode >= 300 {
			b.Fatal(res.StatusCode, err)
		}
		ru = res.Header.Get("X-Ms-Request-Charge")
	}
	var charge float64
	fmt.Sscan(ru, &charge)
	b.ReportMetric(charge, "RU/op")
}

func BenchmarkPointRead(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		e, c := benchBlog(b, n)
		id := fmt.Sprintf("%08x", uint32(n/2)*2654435761)
		b.Run(fmt.Sprintf("engine/n=%d", n), func(b *testing.B) {
			benchEngine(b, e,
				signed(b, "GET", "/dbs/db/colls/c/docs/"+id, http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}},
					nil), nil)
		})
		b.Run(fmt.Sprintf("azcosmos/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			var ru float64
			for b.Loop() {
				res, err := c.ReadItem(context.Background(), pk("p"), id, nil)
				if err != nil {
					b.Fatal(err)
				}
				ru = float64(res.RequestCharge)
			}
			b.ReportMetric(ru, "RU/op")
		})
	}
}

func BenchmarkKeysetPage(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		e, c := benchBlog(b, n)
		date := benchDate(n / 2)
		b.Run(fmt.Sprintf("engine/n=%d", n), func(b *testing.B) {
			body := fmt.Appendf(nil,
				`{"query":%q,"parameters":[{"name":"@t","value":"comment"},{"name":"@d","value":%q},{"name":"@id","value":"00000000"}]}`, keyset, date)
			h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Max-Item-Count": {"20"},
				"Content-Type": {"application/query+json"}}
			benchEngine(b, e, signed(b, "POST", "/dbs/db/colls/c/docs", h, body), body)
		})
		b.Run(fmt.Sprintf("azcosmos/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			o := &azcosmos.QueryOptions{PageSizeHint: 20,
				QueryParameters: params("@t", "comment", "@d", date, "@id", "00000000")}
			var ru float64
			for b.Loop() {
				page, err := c.NewQueryItemsPager(keyset, pk("p"), o).NextPage(context.Background())
				if err != nil || len(page.Items) != 20 {
					b.Fatal(len(page.Items), err)
				}
				ru = float64(page.RequestCharge)
			}
			b.ReportMetric(ru, "RU/op")
		})
	}
}

func BenchmarkChangeFeedPage(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		e, _ := benchBlog(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"},
				"X-Ms-Max-Item-Count": {"100"}, "If-None-Match": {fmt.Sprintf(`"%d"`, n/200)}}
			benchEngine(b, e, signed(b, "GET", "/dbs/db/colls/c/docs", h, nil), nil)
		})
	}
}

// BenchmarkParseItem parses items as a write does.
func BenchmarkParseItem(b *testing.B) {
	for name, path := range map[string]string{"key=top": "/pk", "key=nested": "/a/b"} {
		b.Run(name, func(b *testing.B) {
			r := containerRecord{
				Properties: containerProperties{PartitionKey: &partitionKeyDef{Paths: []string{path}, Kind: "Hash",
					Version: 2}, IndexingPolicy: &index.Policy{}}}
			d, err := r.define()
			if err != nil {
				b.Fatal(err)
			}
			doc := []byte(
				`{"id":"c0001","pk":"p","a":{"b":"p"},"type":"comment","creationDate":"2024-01-01","userId":"u","text":"` + strings.Repeat("x", 200) + `","likes":7}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.parseItem(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCreate(b *testing.B) {
	_, c := benchBlog(b, 100)
	b.ReportAllocs()
	var ru float64
	i := 0
	for b.Loop() {
		i++
		res, err := c.CreateItem(context.Background(), pk("q"),
			fmt.Appendf(nil, `{"id":"%d","pk":"q","type":"comment","creationDate":"2024-01-01","userId":"u"}`, i), nil)
		if err != nil {
			b.Fatal(err)
		}
		ru = float64(res.RequestCharge)
	}
	b.ReportMetric(ru, "RU/op")
}

// BenchmarkCreateParallel measures concurrent writers, which share syncs.
func BenchmarkCreateParallel(b *testing.B) {
	_, c := benchBlog(b, 100)
	b.ReportAllocs()
	b.SetParallelism(32)
	ids := make(chan int, 1)
	ids <- 0
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			i := <-ids
			ids <- i + 1
			if _, err := c.CreateItem(context.Background(), pk("q"),
				fmt.Appendf(nil, `{"id":"%d","pk":"q","type":"comment","creationDate":"2024-01-01","userId":"u"}`, i),
				nil); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	_, c := benchBlog(b, 100)
	mustCreate(b, c, "q", `{"id":"post","pk":"q","commentCount":0}`)
	b.ReportAllocs()
	var ru float64
	i := 0
	for b.Loop() {
		i++
		batch := c.NewTransactionalBatch(pk("q"))
		batch.CreateItem(fmt.Appendf(nil,
			`{"id":"%d","pk":"q","type":"comment","creationDate":"2024-01-01","userId":"u"}`, i), nil)
		batch.PatchItem("post", patchOf("/commentCount", 1), nil)
		out, err := c.ExecuteTransactionalBatch(context.Background(), batch, nil)
		if err != nil || !out.Success {
			b.Fatal(err)
		}
		ru = float64(out.RequestCharge)
	}
	b.ReportMetric(ru, "RU/op")
}

// BenchmarkComment measures what one comment costs the engine: the transaction that creates and
// counts it, the patch of a copy of its post, and the change feed page with both.
func BenchmarkComment(b *testing.B) {
	e, c := benchBlog(b, 1000)
	post := `{"id":"post","pk":"q","type":"post","userId":"u","userUsername":"ada","title":"A title","content":"` +
		strings.Repeat(`Every read is one request.\n`, 50) +
		`","commentCount":0,"likeCount":0,"creationDate":"2024-01-01T00:00:00.000Z","revision":1,"version":1}`
	mustCreate(b, c, "q", post)
	const docs, condition = "/dbs/db/colls/c/docs",
		`"condition":"from c where c.type = 'post' AND NOT IS_DEFINED(c.deleted)",`
	const count = `{` + condition +
		`"operations":[{"op":"incr","path":"/commentCount","value":1},{"op":"incr","path":"/revision","value":1}]}`
	key := func() http.Header { return http.Header{"X-Ms-Documentdb-Partitionkey": {`["q"]`}} }
	b.Run("batch", func(b *testing.B) {
		h := key()
		h.Set("X-Ms-Cosmos-Is-Batch-Request", "true")
		h.Set("X-Ms-Cosmos-Batch-Atomic", "true")
		req, content := signed(b, "POST", docs, h, nil), strings.Repeat("x", 200)
		b.ReportAllocs()
		for b.Loop() {
			body := fmt.Appendf(make([]byte, 0, 1024),
				`[{"operationType":"Patch","id":"post","resourceBody":%s},{"operationType":"Create","resourceBody":{"id":"n%09d","pk":"q","type":"comment","creationDate":"2024-01-01T00:00:00.000Z","userId":"u","content":%q}}]`, count, benchID.Add(1), content)
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			if res, err := e.Do(req); err != nil || res.StatusCode != http.StatusOK {
				b.Fatal(res.StatusCode, err)
			}
		}
	})
	b.Run("patch", func(b *testing.B) {
		benchEngine(b, e, signed(b, "PATCH", docs+"/post", key(), nil), []byte(count))
	})
	b.Run("feed", func(b *testing.B) {
		res, err := e.Do(signed(b, "GET", docs, http.Header{"A-Im": {"Incremental Feed"}, "If-None-Match": {"*"}}, nil))
		if err != nil {
			b.Fatal(err)
		}
		var last uint64
		fmt.Sscanf(res.Header.Get("Etag"), `"%d"`, &last)
		mustCreate(b, c, "q",
			fmt.Sprintf(`{"id":"m%09d","pk":"q","type":"comment","content":%q}`, benchID.Add(1),
				strings.Repeat("x", 200)))
		mustCreate(b, c, "q", strings.Replace(post, `"post"`, fmt.Sprintf(`"p%09d"`, benchID.Add(1)), 1))
		benchEngine(b, e,
			signed(b, "GET", docs,
				http.Header{"A-Im": {"Incremental Feed"}, "If-None-Match": {fmt.Sprintf(`"%d"`, last)}}, nil), nil)
	})
}

// BenchmarkLike_Bytes shows what a like writes to disk: to the log, and into tables by flushes and by compactions. The
// likes are spread over 10,000 posts of 1.5 KB. It takes some 100,000 likes until compactions have their share.
//
//	go test ./store/emulator -run '^$' -bench Like_Bytes -benchtime 200000x
func BenchmarkLike_Bytes(b *testing.B) {
	e, err := Open(b.TempDir(), Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	c := newContainer(b, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	posts := 10_000
	if testing.Short() {
		posts = 10
	}
	for i := range posts {
		mustCreate(b, c, fmt.Sprint("p", i), fmt.Sprintf(`{"id":"post","pk":"p%d","type":"post","userId":"u%d",`+
			`"username":"ada","title":"A title","content":%q,"commentCount":0,"likeCount":0,"revision":1,"version":1,`+
			`"creationDate":"2024-01-01T00:00:00.000Z"}`, i, i%100, strings.Repeat("Every read is one request. ", 50)))
	}
	written := func() (log, flushed, compacted uint64) {
		m := e.db.Metrics()
		for _, level := range m.Levels {
			flushed, compacted = flushed+level.TableBytesFlushed, compacted+level.TableBytesCompacted
		}
		return m.WAL.BytesWritten, flushed, compacted
	}
	log, flushed, compacted := written()
	for n := 0; b.Loop(); n++ {
		post := fmt.Sprint("p", n*7919%posts)
		h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["` + post + `"]`}, "X-Ms-Cosmos-Is-Batch-Request": {"true"},
			"X-Ms-Cosmos-Batch-Atomic": {"true"}}
		req := signed(b, "POST", "/dbs/db/colls/c/docs", h, nil)
		body := fmt.Appendf(nil, `[{"operationType":"Patch","id":"post","resourceBody":{"operations":[`+
			`{"op":"incr","path":"/likeCount","value":1},{"op":"incr","path":"/revision","value":1}]}},`+
			`{"operationType":"Create","resourceBody":{"id":"like-%d","pk":%q,"type":"like","userId":"u%[1]d",`+
			`"username":"ada","creationDate":"2024-01-01T00:00:00.000Z"}}]`, n, post)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if res, err := e.Do(req); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.StatusCode, err)
		}
	}
	logged, inFlushes, inCompactions := written()
	b.ReportMetric(float64(logged-log)/float64(b.N), "log-B/op")
	b.ReportMetric(float64(inFlushes-flushed)/float64(b.N), "flushed-B/op")
	b.ReportMetric(float64(inCompactions-compacted)/float64(b.N), "compacted-B/op")
}

// benchID numbers the items that benchmarks create.
var benchID atomic.Int64

// BenchmarkRows measures pages of 100 rows that an index finds.
func BenchmarkRows(b *testing.B) {
	e, _ := benchBlog(b, 1000)
	const where = "FROM c WHERE c.type = 'comment' AND NOT IS_DEFINED(c.deleted) AND c.creationDate <= @d ORDER BY " +
		"c.type DESC, c.creationDate DESC, c.id DESC"
	for name, text := range map[string]string{"select=all": "SELECT * " + where,
		"select=some": "SELECT c.id, c.userId, c.creationDate " + where} {
		b.Run(name, func(b *testing.B) {
			body := fmt.Appendf(nil, `{"query":%q,"parameters":[{"name":"@d","value":"2025"}]}`, text)
			h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Max-Item-Count": {"100"},
				"Content-Type": {"application/query+json"}}
			benchEngine(b, e, signed(b, "POST", "/dbs/db/colls/c/docs", h, body), body)
		})
	}
}
