package e2e

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is an OTLP receiver over HTTP.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	received []byte       // guarded by mu; all of it
	spans    []*otlp.Span // guarded by mu
	services []string     // guarded by mu
	problem  error        // guarded by mu
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			r.problem = err
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.received = append(r.received, body...)
		for _, from := range export.ResourceSpans {
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.name" {
					r.services = append(r.services, a.Value.GetStringValue())
				}
			}
			for _, scope := range from.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// tree returns the names of the spans of a trace, each with its children, sorted.
func (r *receiver) tree(trace, parent []byte) (names []string) {
	for _, s := range r.spans {
		if bytes.Equal(s.TraceId, trace) && bytes.Equal(s.ParentSpanId, parent) {
			name := s.Name
			if below := r.tree(trace, s.SpanId); below != nil {
				name += "(" + strings.Join(below, " ") + ")"
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func attributesOf(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = strings.Trim(a.Value.String(), `"`)
	}
	return all
}

// TestTraces: each operation is a trace with the operation, the resolvers that read or write, and their requests by
// azcosmos. It continues the client's trace, and of the request it contains only the operation's name.
func TestTraces(t *testing.T) {
	collecting := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collecting.URL)
	i := start(t, "--data", t.TempDir(), "--no-demo", "--cache", "0") // every read makes a span
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	send := func(number, query string, variables map[string]any) map[string]any {
		t.Helper()
		body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodPost, i.Root+"/graphql", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer demo:secretsubject")
		r.Header.Set("Traceparent", "00-"+number+trace[2:]+"-"+parent+"-01")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var out struct{ Data map[string]any }
		if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out.Data
	}
	send("01", createUser, map[string]any{"name": "secretname"})
	post := at(t,
		send("02", `mutation Publish($t: String!, $c: String!) { createPost(input: {title: $t, content: $c}) { post { id } } }`,
			map[string]any{"t": "Secrettitle", "c": "Secretcontent. " + strings.Repeat("More. ", 200)}),
		"createPost.post.id")
	send("03", `query Everything($id: ID!) { secretalias: post(id: $id) { title author { username createdAt } comments { edges { node { id } } } } }`,
		map[string]any{"id": post})
	send("06", `{ feed { edges { node { title content author { username } } } } }`, nil)
	send("04", `{ secretalias: userByUsername(username: "secretname") { id } }`, nil)
	send("05", `{ post(id: "secretnonsense") { id } }`, nil)
	if status := i.Stop(); status != 0 {
		t.Fatal(i.Log)
	}

	collecting.mu.Lock()
	defer collecting.mu.Unlock()
	if collecting.problem != nil || len(collecting.services) == 0 || collecting.services[0] != "byline" {
		t.Fatalf("%v, from %v", collecting.problem, collecting.services)
	}
	id := func(number string) []byte { b, _ := hex.DecodeString(number + trace[2:]); return b }
	under, _ := hex.DecodeString(parent)
	for number, want := range map[string][]string{
		"03": {"query(Query.post(Post.comments(query_items posts(HTTP POST)) read_item posts(HTTP GET)) load " +
			"users(read_item users(HTTP GET)))"},
		"04": {"query(Query.userByUsername(read_item users(HTTP GET) read_item users(HTTP GET)))"},
		"05": {"query"},
		"06": {"query(Query.feed(query_items feed(HTTP POST)) load posts(read_item posts(HTTP GET)))"},
	} {
		if got := collecting.tree(id(number), under); !cmp.Equal(got, want) {
			t.Errorf("%s: %s", number, cmp.Diff(want, got))
		}
	}
	// The writes of a mutation besides its item depend on how fast the projections are.
	for number, want := range map[string][]string{"01": {"mutation(Mutation.createUser(",
		"create_item users(HTTP POST)"}, "02": {"mutation(Mutation.createPost(", "create_item posts(HTTP POST)"}} {
		got := collecting.tree(id(number), under)
		if len(got) != 1 || !strings.HasPrefix(got[0], want[0]) || !strings.Contains(got[0], want[1]) {
			t.Errorf("%s: %s, want %s", number, got, want)
		}
	}
	for _, s := range collecting.spans {
		a := attributesOf(s)
		switch {
		case s.Name == "query" && bytes.Equal(s.TraceId, id("03")):
			if a["graphql.operation.name"] != `string_value:"Everything` || a["byline.request_id"] == "" ||
				s.Kind != otlp.Span_SPAN_KIND_SERVER {
				t.Errorf("%v %v", s.Kind, a)
			}
		case s.Name == "read_item posts":
			if !strings.HasPrefix(a["db.cosmosdb.request_charge"], "double_value:1") || a["db.collection.name"] == "" {
				t.Errorf("%v", a)
			}
		case s.Name == "query" && bytes.Equal(s.TraceId, id("05")):
			if !strings.Contains(a["error.type"], "BAD_USER_INPUT") ||
				s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
				t.Errorf("a client error: %v %v", s.Status, a)
			}
		}
	}
	for _, secret := range []string{"secret", "Secret", "edges"} {
		if bytes.Contains(collecting.received, []byte(secret)) {
			t.Errorf("%q is recorded", secret)
		}
	}
	traces := map[string]bool{}
	for _, s := range collecting.spans {
		traces[string(s.TraceId)] = true
	}
	if len(traces) != 6 {
		t.Errorf("%d traces of 6 requests", len(traces))
	}
}

// TestTraces_UnsupportedProtocol: an unsupported protocol is refused at the start.
func TestTraces_UnsupportedProtocol(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	log := &output{}
	if status := run(t.Context(), []string{"--listen", "localhost:0", "--data", t.TempDir()}, io.Discard, log,
		nil); status != 1 || !strings.Contains(log.String(), "http/protobuf") {
		t.Errorf("%d: %s", status, log)
	}
}
