package emulator

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fakeClock is a clock that tests advance.
type fakeClock struct{ now time.Time }

func newFakeClock() *fakeClock { return &fakeClock{time.Unix(1_700_000_000, 0)} }

func (c *fakeClock) Now() time.Time { return c.now }

// TestWire replays testdata/wire: each file is a conversation with a new engine. A case is a request, a line of dashes,
// the response and an empty line. A request is its method and path, headers, and the body, which begins at the first
// line that starts like JSON. "advance 5s" moves the clock, "split 0" splits a physical partition of the container c,
// "options partitions=2 rus=0" opens another engine.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			clock := newFakeClock()
			e := newEngine(t, Options{Clock: clock.Now})
			var got strings.Builder
			for _, one := range strings.Split(strings.TrimSpace(string(raw)), "\n\n") {
				input, _, _ := strings.Cut(one, "\n----")
				if strings.HasPrefix(input, "#") {
					got.WriteString(input + "\n\n")
					continue
				}
				if o, ok := strings.CutPrefix(input, "options "); ok {
					e = newEngine(t, wireOptions(t, o, clock))
					got.WriteString(input + "\n\n")
					continue
				}
				if id, ok := strings.CutPrefix(input, "split "); ok {
					if err := e.Split("db", "c", id); err != nil {
						t.Fatal(err)
					}
					got.WriteString(input + "\n\n")
					continue
				}
				if d, ok := strings.CutPrefix(input, "advance "); ok {
					by, err := time.ParseDuration(d)
					if err != nil {
						t.Fatal(err)
					}
					clock.now = clock.now.Add(by)
					got.WriteString(input + "\n\n")
					continue
				}
				fmt.Fprintf(&got, "%s\n----\n%s\n\n", input, exchange(t, e, input))
			}
			want := string(raw)
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got.String())); d != "" {
				t.Error(d)
			}
		})
	}
}

func wireOptions(t *testing.T, text string, clock *fakeClock) Options {
	o := Options{Clock: clock.Now}
	if _, err := fmt.Sscanf(text, "partitions=%d rus=%d", &o.Partitions, &o.RUs); err != nil {
		t.Fatal(err)
	}
	return o
}

// hidden are headers that are irrelevant to the cases or vary between runs.
var hidden = []string{"Content-Length", "Content-Type", "Date", "X-Ms-Activity-Id", "X-Ms-Serviceversion",
	"X-Ms-Gatewayversion", "X-Ms-Schemaversion",
	"X-Ms-Alt-Content-Path", "X-Ms-Content-Path"}

// measured are the times in query metrics.
var measured = regexp.MustCompile(`InMs=[0-9.]+`)

// shown returns the value of a header as it appears in a case.
func shown(t *testing.T, name, value string) string {
	t.Helper()
	switch name {
	case "X-Ms-Documentdb-Query-Metrics":
		return measured.ReplaceAllString(value, "InMs=*")
	case "X-Ms-Cosmos-Index-Utilization":
		b, err := base64.StdEncoding.DecodeString(value)
		if err != nil || !json.Valid(b) {
			t.Errorf("%s: %s", name, value)
		}
		return string(b)
	}
	return value
}

func exchange(t *testing.T, e *Engine, input string) string {
	t.Helper()
	lines := strings.Split(input, "\n")
	method, path, ok := strings.Cut(lines[0], " ")
	if !ok {
		t.Fatalf("not a request: %q", input)
	}
	header, body := http.Header{}, ""
	for i, l := range lines[1:] {
		if strings.HasPrefix(l, "{") || strings.HasPrefix(l, "[") {
			body = strings.Join(lines[i+1:], "\n")
			break
		}
		k, v, ok := strings.Cut(l, ": ")
		if !ok {
			t.Fatalf("not a header: %q", l)
		}
		header.Set(k, v)
	}
	req := signed(t, method, path, header, []byte(body))
	w := httptest.NewRecorder()
	e.ServeHTTP(w, req)
	var out strings.Builder
	fmt.Fprintf(&out, "%d %s\n", w.Code, http.StatusText(w.Code))
	var names []string
	for k := range w.Header() {
		if !slices.Contains(hidden, http.CanonicalHeaderKey(k)) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		fmt.Fprintf(&out, "%s: %s\n", k, shown(t, http.CanonicalHeaderKey(k), w.Header()[k][0]))
	}
	if w.Body.Len() > 0 {
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: the body is not JSON: %s", lines[0], w.Body)
		}
		out.Write(w.Body.Bytes())
	}
	return strings.TrimSpace(out.String())
}

// signed returns a request with a master key signature, unless header has one.
func signed(t testing.TB, method, path string, header http.Header, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "localhost"
	req.Header = header
	if header.Get("Authorization") != "" {
		return req
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	kind, link := "", ""
	switch n := len(segments); {
	case path == "/":
	case n%2 == 1:
		kind, link = segments[n-1], strings.Join(segments[:n-1], "/")
	default:
		kind, link = segments[n-2], strings.Join(segments, "/")
	}
	if segments[0] == "offers" && len(segments) == 2 {
		link = segments[1]
	}
	if link, err = url.PathUnescape(link); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(path, "/dbs/AAAA") { // by resource ids
		link = strings.ToLower(link[strings.LastIndexByte(link, '/')+1:])
	}
	header.Set("x-ms-date", wireDate)
	header.Set("Authorization", masterToken(t, method, kind, link))
	return req
}

const wireDate = "Tue, 14 Nov 2023 22:13:20 GMT"

// masterToken returns the Authorization header of a request at wireDate, signed with the master key.
func masterToken(t testing.TB, method, kind, link string) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	m := hmac.New(sha256.New, key)
	io.WriteString(m, strings.ToLower(method)+"\n"+kind+"\n"+link+"\n"+strings.ToLower(wireDate)+"\n\n")
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(m.Sum(nil)))
}

// TestServeHTTP_ClientGone: a client that has closed its side of the connection gets no response,
// rather than an empty 200.
func TestServeHTTP_ClientGone(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"1","pk":"p"}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		<-r.Context().Done()
		e.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := signed(t, http.MethodPost, "/dbs/db/colls/c/docs", http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`},
		"X-Ms-Cosmos-Is-Batch-Request": {"True"}, "X-Ms-Cosmos-Batch-Atomic": {"True"}},
		[]byte(`[{"operationType":"Read","id":"1"}]`))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v, want no response", got, err)
	}
}
