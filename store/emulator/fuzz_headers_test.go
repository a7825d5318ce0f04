package emulator

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// fuzzBlog is an engine with items of two partitions, p and other.
func fuzzBlog(f *testing.F) *Engine {
	f.Helper()
	e, err := Open("", Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	c := newContainer(f, e, azcosmos.ContainerProperties{IndexingPolicy: blogPolicy()})
	fillBlog(f, c, "p", 20)
	fillBlog(f, c, "other", 5)
	return e
}

// send sends a request and returns the response, which must be empty or JSON, and not 5xx.
func send(t *testing.T, e *Engine, method, path string, header http.Header, body string) (int, []byte) {
	t.Helper()
	res, err := e.Do(signed(t, method, path, header, []byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 500 || len(b) > 0 && !json.Valid(b) {
		t.Fatalf("%s %s with %v: %s %s %v", method, path, header, res.Status, b, err)
	}
	return res.StatusCode, b
}

// documentsOf returns the items of a page.
func documentsOf(page []byte) (items [][]byte) {
	for c := range jsonpart.Children(sql.Lookup(page, sql.Path{"Documents"}).AppendJSON(nil)) {
		items = append(items, c.Value)
	}
	return items
}

// FuzzContinuationPosition sends well-formed tokens with arbitrary positions: they are refused, or
// the page has matching items of the partition.
func FuzzContinuationPosition(f *testing.F) {
	for _, n := range []uint64{0, 1, 3, 1 << 63} {
		f.Add(uint32(0), n, true, []byte("c00003"))
	}
	f.Add(uint32(0), uint64(2), true, []byte("\x00\x00\x00\x00"))
	f.Add(uint32(0), uint64(1<<63), true, []byte("\x08comment\x00\x01"))
	f.Add(uint32(7), uint64(0), false, []byte{})
	f.Add(uint32(0), uint64(3), true, []byte("\x00\x00\x00\x00\x00\x00\x00\xff"))
	f.Add(uint32(0), uint64(3), true, []byte("\xff\xff\xff\xff"))
	f.Add(uint32(0), uint64(3), true, []byte{})
	e := fuzzBlog(f)
	const docs = "/dbs/db/colls/c/docs"
	header := func(key string) http.Header {
		h := http.Header{"Content-Type": {"application/query+json"}, "X-Ms-Max-Item-Count": {"3"},
			"X-Ms-Documentdb-Query-Enablecrosspartition": {"true"}}
		if key != "" {
			h.Set("X-Ms-Documentdb-Partitionkey", key)
		}
		return h
	}
	type begun struct {
		key, body string
		token     []byte
	}
	var queries []begun
	for _, body := range []string{
		`{"query":"SELECT * FROM c WHERE c.type = 'comment'"}`,
		`{"query":"SELECT * FROM c WHERE c.type = 'comment' AND c.userId > 'u0'"}`,
		`{"query":"SELECT * FROM c WHERE c.rank < 9 AND c.type >= 'comment' AND c.type < 'commenu'"}`,
		`{"query":"SELECT * FROM c WHERE c.type = 'comment' ORDER BY c.type DESC, c.creationDate DESC, c.id DESC"}`,
		`{"query":"SELECT * FROM c WHERE c.type = 'comment' AND c.userId = 'u1'"}`,
		`{"query":"SELECT * FROM c WHERE c.type = 'comment' AND c.id IN ('c00001', 'c00002', 'c00004', 'c00005')"}`,
		`{"query":"SELECT * FROM c WHERE c.type = 'comment' ORDER BY c.name"}`,
		`{"query":"SELECT * FROM c WHERE c.type = 'comment' OFFSET 3 LIMIT 5"}`,
		`{"query":"SELECT DISTINCT c.pk, c.type, c.id FROM c WHERE c.type = 'comment'"}`,
	} {
		for _, key := range []string{`["p"]`, ""} {
			h := header(key)
			h.Set("X-Ms-Max-Item-Count", "1")
			res, err := e.Do(signed(f, "POST", docs, h, []byte(body)))
			if err != nil {
				f.Fatal(err)
			}
			if text := res.Header.Get("X-Ms-Continuation"); text != "" {
				token, err := base64.URLEncoding.DecodeString(text)
				if err != nil {
					f.Fatal(err)
				}
				queries = append(queries, begun{key, body, token})
			}
		}
	}
	if len(queries) < 12 {
		f.Fatalf("only %d queries can be continued", len(queries))
	}
	f.Fuzz(func(t *testing.T, span uint32, emitted uint64, started bool, after []byte) {
		for _, q := range queries {
			const fixed = 1 + 8 + 1 // version, fingerprint and plan
			from := append(slices.Clone(q.token[:fixed]), 0)
			if started {
				from[fixed] = 1
			}
			from = append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(from, span), emitted), after...)
			h := header(q.key)
			h.Set("X-Ms-Continuation", base64.URLEncoding.EncodeToString(from))
			status, b := send(t, e, "POST", docs, h, q.body)
			rows := documentsOf(b)
			if status == http.StatusOK && len(rows) > 3 {
				t.Fatalf("%s with %x: %d rows", q.body, from, len(rows))
			}
			for _, row := range rows {
				if sql.Lookup(row, sql.Path{"type"}).String() != "comment" ||
					q.key != "" && sql.Lookup(row, sql.Path{"pk"}).String() != "p" {
					t.Fatalf("%s with %x: %s", q.body, from, row)
				}
			}
		}
	})
}

// FuzzPartitionKeyRequest sends every kind of request with a partition key header: no response has
// items of another partition.
func FuzzPartitionKeyRequest(f *testing.F) {
	for _, s := range []string{`["p"]`, `["other"]`, `[]`, `[{}]`, `[null]`, `[1]`, `[1e400]`, `[-0]`, `["p","q"]`,
		`["\u0070"]`, `[ "p" ]`, `["p"`, "[\"\xff\"]", `["\ud800"]`, `[true]`, `[[]]`, `x`, `["p"]["p"]`} {
		f.Add(s)
	}
	e := fuzzBlog(f)
	f.Fuzz(func(t *testing.T, key string) {
		header := func(kv ...string) http.Header {
			h := http.Header{"X-Ms-Documentdb-Partitionkey": {key}}
			for i := 0; i < len(kv); i += 2 {
				h.Set(kv[i], kv[i+1])
			}
			return h
		}
		decoded := ""
		if v, err := sql.ParseValue([]byte(key)); err == nil {
			if list := slices.Collect(jsonpart.Children(v.AppendJSON(nil))); v.Kind() == sql.Array && len(list) == 1 {
				decoded = sql.ValueOf(list[0].Value).String()
			}
		}
		const docs = "/dbs/db/colls/c/docs"
		send(t, e, "GET", docs+"/c00001", header(), "")
		send(t, e, "DELETE", docs+"/nothing", header(), "")
		send(t, e, "PATCH", docs+"/nothing", header(), `{"operations":[{"op":"set","path":"/a","value":1}]}`)
		if status, _ := send(t, e, "POST", docs, header("X-Ms-Documentdb-Is-Upsert", "true"),
			`{"id":"c00001","pk":"p","type":"comment"}`); status < 300 && decoded != "p" {
			t.Fatalf("%q is accepted as the key of an item of p", key)
		}
		send(t, e, "POST", docs, header("X-Ms-Cosmos-Is-Batch-Request", "true"),
			`[{"operationType":"Read","id":"c00001"}]`)
		_, query := send(t, e, "POST", docs, header("Content-Type", "application/query+json"),
			`{"query":"SELECT * FROM c ORDER BY c.id"}`)
		_, feed := send(t, e, "GET", docs, header("A-Im", "Incremental Feed"), "")
		for _, b := range [][]byte{query, feed} {
			for _, row := range documentsOf(b) {
				if key != "" && sql.Lookup(row, sql.Path{"pk"}).String() != decoded {
					t.Fatalf("%q sees %s", key, row)
				}
			}
		}
	})
}

// FuzzFeedHeaders: with any position, time, page size and session token, a page is in the order of
// LSNs.
func FuzzFeedHeaders(f *testing.F) {
	f.Add(`"3"`, "", "2", "0:-1#3")
	f.Add(`*`, "Fri, 20 Nov 2026 11:29:06 UTC", "-1", "")
	f.Add(`18446744073709551615`, "x", "0", "0:-1#18446744073709551616")
	f.Add(``, "Thu, 01 Jan 1970 00:00:00 GMT", "99999999999999999999", "9:1#1,0:#")
	f.Add(`"18446744073709551614"`, "Fri, 31 Dec 9999 23:59:59 GMT", "9223372036854775807", ":,:")
	e := fuzzBlog(f)
	f.Fuzz(func(t *testing.T, match, since, size, session string) {
		h := http.Header{"A-Im": {"Incremental Feed"}, "X-Ms-Documentdb-Partitionkeyrangeid": {"0"}}
		for name, value := range map[string]string{"If-None-Match": match, "If-Modified-Since": since,
			"X-Ms-Max-Item-Count": size, "X-Ms-Session-Token": session} {
			if value != "" {
				h.Set(name, value)
			}
		}
		_, b := send(t, e, "GET", "/dbs/db/colls/c/docs", h, "")
		last := uint64(0)
		for _, row := range documentsOf(b) {
			lsn := uint64(sql.Lookup(row, sql.Path{"_lsn"}).Float())
			if lsn < last {
				t.Fatalf("LSN %d after %d", lsn, last)
			}
			last = lsn
		}
	})
}
