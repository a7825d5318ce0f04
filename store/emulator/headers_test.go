package emulator

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestHeaders_Unsupported: a header that asks for an unsupported feature is refused by name, and
// nothing is written; a header without effect is accepted.
func TestHeaders_Unsupported(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	const docs = "/dbs/db/colls/c/docs"
	for _, one := range []struct {
		method, path, body, header, value string
		want                              int
	}{
		{"POST", docs, `{"id":"2","pk":"p"}`, "x-ms-documentdb-pre-trigger-include", "trigger", 400},
		{"POST", docs, `{"id":"2","pk":"p"}`, "x-ms-documentdb-post-trigger-include", "trigger", 400},
		{"PUT", docs + "/1", `{"id":"1","pk":"p","x":1}`, "x-ms-documentdb-pre-trigger-include", "trigger", 400},
		{"DELETE", docs + "/1", "", "x-ms-documentdb-post-trigger-include", "trigger", 400},
		{"POST", docs, `{"id":"2","pk":"p"}`, "x-ms-indexing-directive", "Exclude", 400},
		{"POST", docs, `{"id":"2","pk":"p"}`, "x-ms-documentdb-is-upsert", "true", 201},
		{"PUT", docs + "/1", `{"id":"1","pk":"p","x":1}`, "If-None-Match", "*", 400},
		{"GET", docs, "", "x-ms-cosmos-changefeed-wire-format-version", "2021-09-15", 400},
		{"POST", docs, `{"id":"2","pk":"p"}`, "x-ms-cosmos-is-client-encrypted", "true", 400},
		{"POST", docs, `{"id":"2","pk":"p"}`, "x-ms-cosmos-is-client-encrypted", "false", 409},
		{"GET", docs, "", "x-ms-enumeration-direction", "Reverse", 400},
		{"GET", docs, "", "x-ms-start-id", "a", 400},
		{"GET", docs, "", "x-ms-end-id", "b", 400},
		{"GET", docs, "", "x-ms-exclude-system-properties", "true", 400},
		{"POST", docs, `{"query":"SELECT * FROM c"}`, "x-ms-cosmos-populateindexmetrics-V2", "true", 400},
		{"PUT", docs + "/1", `{"id":"1","pk":"p"}`, "x-ms-indexing-directive", "Include", 200},
		{"PUT", docs + "/1", `{"id":"1","pk":"p"}`, "x-ms-documentdb-pre-trigger-exclude", "trigger", 200},
		{"DELETE", "/dbs/db/colls/c", "", "If-Match", `"stale"`, 412},
	} {
		res := do(t, e, one.method, one.path, one.body, "x-ms-documentdb-partitionkey", `["p"]`, one.header, one.value)
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != one.want ||
			one.want == http.StatusBadRequest && !strings.Contains(string(b), strings.ToLower(one.header)) {
			t.Errorf("%s %s with %s: %s: %s %s", one.method, one.path, one.header, one.value, res.Status, b)
		}
	}
	if res := do(t, e, "GET", docs, "", "A-IM", "Full-Fidelity Feed"); res.StatusCode != 400 ||
		!strings.Contains(string(readAll(t, res)), "Full-Fidelity Feed") {
		t.Errorf("another mode of the change feed: %s", res.Status)
	}
	if got := queryAll(t, c, "SELECT * FROM c WHERE IS_DEFINED(c.x)", pk("p"), nil); len(got) != 0 {
		t.Error("a refused request was applied:", got)
	}
	for _, o := range e.catalog.Load().offers {
		if res := do(t, e, "PUT", "/offers/"+o.id(), `{"content":{"offerThroughput":500}}`, "If-Match",
			`"stale"`); res.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("replace an offer with a stale ETag: got %s, want 412", res.Status)
		}
	}
}

// TestHeaders_Metadata: what the engine would ignore in requests on metadata is refused by name.
func TestHeaders_Metadata(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	const made = `{"id":"made","partitionKey":{"paths":["/pk"]}}`
	for _, one := range []struct{ method, path, body, header, value string }{
		{"GET", "/dbs/db/colls/c", "", "x-ms-documentdb-populatequotainfo", "true"},
		{"GET", "/dbs/db/colls/c", "", "x-ms-documentdb-populatepartitionstatistics", "True"},
		{"POST", "/dbs/db/colls", made, "x-ms-offer-type", "S1"},
		{"POST", "/dbs/db/colls", made, "x-ms-offer-is-ru-per-minute-throughput-enabled", "true"},
		{"PUT", "/offers/" + offerOf(e), `{"content":{"offerThroughput":500}}`,
			"x-ms-cosmos-migrate-offer-to-autopilot", "true"},
		{"PUT", "/offers/" + offerOf(e), `{"content":{"offerThroughput":500}}`,
			"x-ms-cosmos-migrate-offer-to-manual-throughput", "true"},
	} {
		res := do(t, e, one.method, one.path, one.body, one.header, one.value)
		if out := string(readAll(t, res)); res.StatusCode != http.StatusBadRequest ||
			!strings.Contains(out, one.header) {
			t.Errorf("%s %s with %s: %s %s", one.method, one.path, one.header, res.Status, out)
		}
	}
	for rid, want := range map[string]int{e.catalog.Load().databases["db"].containers["c"].rid: 201,
		"AAAAAYAAAAk=": 400} {
		res := do(t, e, "POST", "/dbs/db/colls/c/docs", `{"id":"1","pk":"p"}`, "x-ms-documentdb-partitionkey", `["p"]`,
			"x-ms-cosmos-intended-collection-rid", rid)
		if res.StatusCode != want || want == 400 && res.Header.Get("X-Ms-Substatus") != "1024" {
			t.Errorf("for the container %s: %s, substatus %q, want %d", rid, res.Status,
				res.Header.Get("X-Ms-Substatus"), want)
		}
	}
}

// TestHeaders_LowerCase: over HTTP/1.1, the protocol's headers have names in lower case, by which some SDKs look them
// up.
func TestHeaders_LowerCase(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	mustCreate(t, c, "p", `{"id":"2","pk":"p"}`)
	server := httptest.NewServer(e)
	defer server.Close()
	for _, one := range []struct {
		method, path, body string
		header             http.Header
		want               []string
	}{
		{"GET", "/dbs/db/colls/c/docs/1", "", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}},
			[]string{"etag", "lsn", "x-ms-activity-id", "x-ms-request-charge", "x-ms-session-token",
				"x-ms-alt-content-path"}},
		{"GET", "/dbs/db/colls/c/docs/3", "", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}},
			[]string{"x-ms-request-charge"}},
		{"POST", "/dbs/db/colls/c/docs", `{"query":"SELECT * FROM c"}`,
			http.Header{"Content-Type": {"application/query+json"},
				"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Max-Item-Count": {"1"},
				"X-Ms-Documentdb-Populatequerymetrics": {"true"}, "X-Ms-Cosmos-Populateindexmetrics": {"true"}},
			[]string{"x-ms-continuation", "x-ms-item-count", "x-ms-documentdb-query-metrics",
				"x-ms-cosmos-index-utilization"}},
		{"POST", "/dbs/db/colls/c/docs", `{"query":"SELECT TOP 1 * FROM c"}`,
			http.Header{"Content-Type": {"application/query+json"},
				"X-Ms-Documentdb-Query-Enablecrosspartition": {"true"}}, []string{"x-ms-substatus"}},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r := signed(t, one.method, one.path, one.header, []byte(one.body))
		r.Header.Set("Connection", "close")
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(raw), "\r\n\r\n")
		var names []string
		for _, line := range strings.Split(head, "\r\n")[1:] {
			name, _, _ := strings.Cut(line, ":")
			if names = append(names, name); name != strings.ToLower(name) &&
				!slices.Contains([]string{"Date", "Content-Type", "Content-Length", "Connection"}, name) {
				t.Errorf("%s %s: the header %s", one.method, one.path, name)
			}
		}
		for _, name := range one.want {
			if !slices.Contains(names, name) {
				t.Errorf("%s %s: no header %s in %v", one.method, one.path, name, names)
			}
		}
		if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("%s %s: a header occurs twice: %v", one.method, one.path, names)
		}
	}
}

// TestRead_NotModified: a client with the current ETag gets 304.
func TestRead_NotModified(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	paths := []string{"/dbs/db", "/dbs/db/colls/c", "/dbs/db/colls/c/docs/1", "/dbs/db/colls/c/pkranges"}
	for _, o := range e.catalog.Load().offers {
		paths = append(paths, "/offers/"+o.id())
	}
	for _, path := range paths {
		read := func(known string) *http.Response {
			return do(t, e, "GET", path, "", "x-ms-documentdb-partitionkey", `["p"]`, "If-None-Match", known)
		}
		was := read(`"another"`)
		etag := was.Header.Get("Etag")
		if was.StatusCode != http.StatusOK || etag == "" {
			t.Errorf("%s: %s, ETag %q", path, was.Status, etag)
		}
		for _, known := range []string{etag, "*"} {
			if is := read(known); is.StatusCode != http.StatusNotModified || is.ContentLength != 0 ||
				is.Header.Get("Etag") != etag {
				t.Errorf("%s again with %s: %s with %d bytes, ETag %q", path, known, is.Status, is.ContentLength,
					is.Header.Get("Etag"))
			}
		}
	}
}

// TestDate_EngineClock: the Date of every response is the time of the engine's clock, from which clients
// compute their offset.
func TestDate_EngineClock(t *testing.T) {
	var now atomic.Int64 // seconds
	now.Store(1_700_000_000)
	e := newEngine(t, Options{Clock: func() time.Time { return time.Unix(now.Load(), 999) }})
	newContainer(t, e, azcosmos.ContainerProperties{})
	server := httptest.NewServer(e)
	defer server.Close()
	for _, c := range []struct {
		path   string
		status int
	}{{"/", http.StatusOK}, {"/dbs/db/colls/c", http.StatusOK}, {"/dbs/db/colls/c/docs/none", http.StatusNotFound},
		{"/nowhere", http.StatusBadRequest}} {
		now.Add(3600)
		for name, send := range map[string]func(*http.Request) (*http.Response, error){"in process": e.Do,
			"over HTTP": server.Client().Do} {
			r := signed(t, http.MethodGet, c.path, http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}, nil)
			r.URL.Host = strings.TrimPrefix(server.URL, "http://")
			res, err := send(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			date, err := http.ParseTime(res.Header.Get("Date"))
			if err != nil || date.Unix() != now.Load() || res.StatusCode != c.status {
				t.Errorf("%s, %s: %s at %v, want %v: %v", c.path, name, res.Status, date, time.Unix(now.Load(), 0), err)
			}
		}
	}
}
