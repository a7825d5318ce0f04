package graph

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/internal/testkit"
	"byline/store"
)

// TestScripts runs the scripts of testdata/scripts: requests, and the responses that they must get. -rewrite writes the
// responses into the scripts. Each script has a small blog of its own. Its directives are:
//
//	blog                      a new small blog. Arguments: development, live (run the projections, and serve
//	                          subscriptions), projected (with the views of likes), full=moths (a post with the maximum
//	                          number of comments), trusted (the input is the manifest of the trusted documents)
//	handler                   instead of a blog, a handler whose store panics when it is used
//	graphql viewer=ada        send the document below; viewer is absent for an anonymous client. Other arguments:
//	                          moderator=ada, token=..., cost=detail, requests (show the requests to Cosmos DB),
//	                          cosmos=429 or cosmos=403/3 (Cosmos DB responds so to all requests, on a new blog)
//	refused viewer=ada        the same for a request that must fail: it shows the errors in a line each and, unless
//	                          the blog is live, the requests to Cosmos DB
//	http                      send the HTTP request below as it is written
//	subscribe viewer=ada      open an event stream for the document below, on a live blog
//	event                     wait for the next event of the stream
//	unchanged                 from here on, no request changes the blog
//
// After the document stand these lines, each of which may go on over several lines:
//
//	variables {"id": "<post:moths>"}
//	extensions {"persistedQuery": {"version": 1, "sha256Hash": "0"}}
//	header Accept: application/json
//	save post:new = createPost.post.id
//
// <post:moths> is the global id of that name in smallBlog, or what save has taken from a response, in requests and in
// responses. Likewise <'ab'*3> is ababab; it may have the escapes of Go. In responses, the JSON is laid out anew,
// the id of the request is removed, and after a mutation the seconds of dates, which vary, are 00.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, s.run)
	})
}

// directives returns the directives of all scripts.
func directives(t *testing.T) (all []datadriven.TestData) {
	t.Helper()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			all = append(all, *d)
			return d.Expected
		})
	})
	return all
}

// Every field of the root types and every error code is in a script.
func TestScripts_AreComplete(t *testing.T) {
	schema := readSchema(t)
	missing := map[string]bool{}
	for _, root := range []*ast.Definition{schema.Query, schema.Mutation, schema.Subscription} {
		for _, f := range root.Fields {
			missing[root.Name+"."+f.Name] = f.Name != "__type"
		}
	}
	for _, code := range errorCodes(t) {
		missing[code] = true
	}
	for _, d := range directives(t) {
		if d.Cmd == "graphql" || d.Cmd == "subscribe" {
			text, _ := cutSections(d.Input)
			document, err := gqlparser.LoadQueryWithRules(schema, text, nil)
			if err == nil && len(document.Operations) > 0 {
				for _, selected := range document.Operations[0].SelectionSet {
					if f, ok := selected.(*ast.Field); ok {
						missing[f.ObjectDefinition.Name+"."+f.Name] = false
					}
				}
			}
		}
		for _, code := range regexp.MustCompile(`"code": "(\w+)"`).FindAllStringSubmatch(d.Expected, -1) {
			missing[code[1]] = false
		}
	}
	for what, yes := range missing {
		if yes {
			t.Errorf("%s is in no script", what)
		}
	}
}

// script is the state of a running script.
type script struct {
	blog      *testBlog        // nil before the first request
	live      *httptest.Server // of a live blog
	wire      *httptest.Server // nil before the first http
	events    *events
	mutated   bool
	unchanged string // what the blog must have; "" for no check
}

func (s *script) run(t *testing.T, d *datadriven.TestData) (response string) {
	t.Helper()
	switch d.Cmd {
	case "blog":
		s.open(t, d)
		return ""
	case "handler":
		*s = script{blog: &testBlog{Handler: newTestHandler(t, Options{}), wire: &wire{}, names: map[string]string{}}}
		return ""
	}
	if s.blog == nil {
		s.blog = smallBlog(t, Options{})
	}
	switch d.Cmd {
	case "unchanged":
		s.unchanged = s.blog.everything(t)
		return ""
	case "graphql", "refused":
		response = s.graphql(t, d)
	case "http":
		response = s.http(t, d)
	case "subscribe":
		s.subscribe(t, d)
	case "event":
		event := testResponse{status: http.StatusOK, body: strings.TrimPrefix(s.events.next(), "next ")}
		response = s.show(t, event)
	default:
		d.Fatalf(t, "unknown directive %s", d.Cmd)
	}
	if s.unchanged != "" {
		if now := s.blog.everything(t); now != s.unchanged {
			d.Fatalf(t, "the blog has changed:\nbefore %s\nafter  %s", s.unchanged, now)
		}
	}
	return response
}

func (s *script) open(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	o := Options{Development: d.HasArg("development")}
	if d.HasArg("trusted") {
		o.TrustedDocuments = trust(t, []byte(d.Input))
	}
	*s = script{}
	if d.HasArg("live") {
		s.blog, s.live = liveBlog(t, o)
	} else {
		s.blog = smallBlog(t, o)
	}
	if d.HasArg("projected") { // with views of likes
		s.blog.project(t, s.blog.caughtUp)
	}
	if title := argument(t, d, "full"); title != "" {
		id := s.blog.postID(t, title)
		s.blog.rewrite(t, "posts", id, id, "/commentCount", 100_000)
	}
}

// argument returns an argument of a directive, "" without it.
func argument(t *testing.T, d *datadriven.TestData, key string) (value string) {
	t.Helper()
	d.MaybeScanArgs(t, key, &value)
	return value
}

func tokenOf(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch {
	case d.HasArg("viewer"):
		return "demo:" + argument(t, d, "viewer")
	case d.HasArg("moderator"):
		return "demo-moderator:" + argument(t, d, "moderator")
	}
	return argument(t, d, "token")
}

// repetition is <'text'*count>; the count may be absent.
var repetition = regexp.MustCompile(`<('(?:[^'\\]|\\.)*')(?:\*(\d+))?>`)

// placeholder is that of a value with a name, such as <post:moths>.
var placeholder = regexp.MustCompile(`<(post|user|comment|like|cursor):[^<>]*>`)

// fill replaces the placeholders of a request. One without a value ends the test.
func (s *script) fill(t *testing.T, text string) string {
	t.Helper()
	filled := s.blog.fill(repetition.ReplaceAllStringFunc(text, func(repeated string) string {
		parts := repetition.FindStringSubmatch(repeated)
		once, err := strconv.Unquote(`"` + strings.ReplaceAll(parts[1][1:len(parts[1])-1], `"`, `\"`) + `"`)
		if err != nil {
			return repeated
		}
		count, err := strconv.Atoi(parts[2])
		if err != nil {
			count = 1
		}
		text := strings.Repeat(once, count)
		if count > 1 {
			s.blog.names[strings.Trim(repeated, "<>")] = text
		}
		return text
	}))
	if unknown := placeholder.FindString(filled); unknown != "" {
		t.Fatalf("nothing is called %s", unknown)
	}
	return filled
}

// section begins a line after the document.
var section = regexp.MustCompile(`(?m)^(variables|extensions|header|save) `)

// cutSections returns the document of an input and the lines after it, such as "variables {}".
func cutSections(input string) (document string, sections []string) {
	starts := section.FindAllStringIndex(input, -1)
	end := len(input)
	for _, at := range slices.Backward(starts) {
		sections = append([]string{input[at[0]:end]}, sections...)
		end = at[0]
	}
	return input[:end], sections
}

// operation is the input of a request in GraphQL.
type operation struct {
	body    map[string]any
	headers [][2]string
	saved   [][2]string // names, and paths in the data
}

func (s *script) parse(t *testing.T, d *datadriven.TestData) (o operation) {
	t.Helper()
	document, sections := cutSections(d.Input)
	o.body = map[string]any{}
	if document != "" {
		o.body["query"] = s.fill(t, document)
		s.mutated = s.mutated || strings.Contains(document, "mutation")
	}
	for _, text := range sections {
		name, value, _ := strings.Cut(strings.TrimSpace(text), " ")
		switch name {
		case "header":
			key, value, _ := strings.Cut(value, ": ")
			o.headers = append(o.headers, [2]string{key, s.fill(t, value)})
		case "save":
			key, path, _ := strings.Cut(value, " = ")
			o.saved = append(o.saved, [2]string{key, path})
		default:
			o.body[name] = jsontext.Value(s.fill(t, value))
		}
	}
	return o
}

func (s *script) graphql(t *testing.T, d *datadriven.TestData) (response string) {
	t.Helper()
	if cosmos := argument(t, d, "cosmos"); cosmos != "" {
		synctest.Test(t, func(t *testing.T) { // requests are retried
			b := smallBlogInBubble(t, Options{})
			first, substatus, _ := strings.Cut(cosmos, "/")
			status, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(err)
			}
			b.wire.setFail(func(*http.Request) (*http.Response, error) {
				r := newResponse(status, `{"code":"secret","message":"secret"}`)
				r.Header.Set("X-Ms-Substatus", substatus)
				return r, nil
			})
			response = (&script{blog: b}).send(t, d)
		})
		return response
	}
	return s.send(t, d)
}

// scriptRequestID is the id of each request that does not send another.
const scriptRequestID = "script"

func (s *script) send(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	o := s.parse(t, d)
	body, err := json.Marshal(o.body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/graphql", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", mediaResponse)
	r.Header.Set(requestIDHeader, scriptRequestID)
	if detail := argument(t, d, "cost"); detail != "" {
		r.Header.Set(cost.Header, detail)
	}
	if token := tokenOf(t, d); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, h := range o.headers {
		r.Header.Set(h[0], h[1])
	}
	s.blog.wire.reset()
	a := send(t, s.blog, r)
	s.checkPartitions(t)
	for _, save := range o.saved {
		s.blog.names[save[0]] = valueAt(t, a, save[1])
	}
	var out strings.Builder
	if a.status != http.StatusOK {
		fmt.Fprintf(&out, "HTTP %d\n", a.status)
	}
	if d.Cmd == "refused" {
		out.WriteString(s.showErrors(t, a))
	} else {
		out.WriteString(s.show(t, a))
	}
	seen := s.blog.wire.seen()
	if d.HasArg("requests") || d.Cmd == "refused" && len(seen) > 0 && s.live == nil {
		fmt.Fprintf(&out, "requests: %s\n", strings.Join(seen, ", "))
	}
	return out.String()
}

// checkPartitions fails the test if a request crossed partitions, except those of the live blog's change feed.
func (s *script) checkPartitions(t *testing.T) {
	t.Helper()
	if s.live == nil {
		s.blog.wire.checkPartitions(t)
	}
}

// valueAt returns the text at a path such as createPost.post.id in the data of a response.
func valueAt(t *testing.T, a testResponse, path string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(a.Data, &value); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(v) {
				value = v[i]
			}
		}
	}
	text, ok := value.(string)
	if !ok || text == "" {
		t.Fatalf("no text at %s: %s", path, a.body)
	}
	return text
}

// withoutRequestID removes the request's id from the errors of a response, each of which must have it.
func withoutRequestID(t *testing.T, a testResponse) string {
	t.Helper()
	for _, e := range a.Errors {
		if id := e.Extensions["requestId"]; id == nil || a.header != nil && id != a.header.Get(requestIDHeader) {
			t.Errorf("the error has the request id %v: %s", id, a.body)
		}
	}
	return requestID.ReplaceAllString(a.body, "")
}

var (
	requestID = regexp.MustCompile(`,?"requestId":"[^"]*"`)
	duration  = regexp.MustCompile(`"ms":[0-9.]+`)
	seconds   = regexp.MustCompile(`T09:00:\d\d\.`)
)

// stable replaces what varies from run to run, and global ids and saved values by their names.
func (s *script) stable(body string) string {
	body = duration.ReplaceAllString(body, `"ms":0`)
	if s.mutated {
		body = seconds.ReplaceAllString(body, "T09:00:00.")
	}
	for _, name := range slices.Sorted(maps.Keys(s.blog.names)) {
		body = strings.ReplaceAll(body, `"`+s.blog.names[name]+`"`, `"<`+name+`>"`)
	}
	return body
}

// show returns the body of a response, with a value on one line if it fits.
func (s *script) show(t *testing.T, a testResponse) string {
	t.Helper()
	if a.header != nil && !strings.Contains(a.header.Get("Content-Type"), "json") {
		return a.body
	}
	return string(layout(t, nil, jsontext.Value(s.stable(withoutRequestID(t, a))), 0)) + "\n"
}

// showErrors returns the errors of a response in a line each, and its data.
func (s *script) showErrors(t *testing.T, a testResponse) string {
	t.Helper()
	if len(a.Errors) == 0 {
		t.Fatalf("not refused: %s", a.body)
	}
	withoutRequestID(t, a)
	var out strings.Builder
	for _, e := range a.Errors {
		fmt.Fprint(&out, e.Extensions["code"])
		for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
			if name != "code" && name != "requestId" {
				fmt.Fprintf(&out, " %s=%v", name, e.Extensions[name])
			}
		}
		fmt.Fprintf(&out, ": %s\n", e.Message)
	}
	if a.Data != nil {
		fmt.Fprintf(&out, "data: %s\n", layout(t, nil, jsontext.Value(s.stable(string(a.Data))), 0))
	}
	return out.String()
}

// layoutWidth is the width of the lines of layout, unless a text alone is longer.
const layoutWidth = 110

// layout appends a JSON value: on one line if it fits, else with each member or element on a line of its own, except a
// single object in a list.
func layout(t *testing.T, out []byte, v jsontext.Value, indent int) []byte {
	t.Helper()
	v = slices.Clone(v)
	if err := v.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true),
		jsontext.PreserveRawStrings(true)); err != nil {
		t.Fatalf("%v: %s", err, v)
	}
	kind := v.Kind()
	if indent+len(v) <= layoutWidth || kind != '{' && kind != '[' {
		return append(out, v...)
	}
	parts := partsOf(t, v)
	if len(parts) == 1 && parts[0].Kind() == '{' {
		return append(layout(t, append(out, '['), parts[0], indent), ']')
	}
	separator := v[0]
	for i := 0; i < len(parts); i++ {
		out = append(out, separator, '\n')
		out = append(out, strings.Repeat(" ", indent+2)...)
		if kind == '{' {
			out = append(append(out, parts[i]...), ": "...)
			i++
		}
		out = layout(t, out, parts[i], indent+2)
		separator = ','
	}
	return append(append(append(out, '\n'), strings.Repeat(" ", indent)...), v[len(v)-1])
}

// partsOf returns the elements of a list, or the names and values of an object in turn.
func partsOf(t *testing.T, v jsontext.Value) (parts []jsontext.Value) {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewReader(v))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != '}' && d.PeekKind() != ']' {
		var part jsontext.Value
		if part, err = d.ReadValue(); err == nil {
			parts = append(parts, part.Clone())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func (s *script) subscribe(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	reads := func() float64 {
		return sumOf(t, s.blog.metrics, "byline_cosmos_requests_total", isSubscribe) +
			sumOf(t, s.blog.metrics, "byline_cache_hits_total", isSubscribe)
	}
	before := reads()
	s.events = openEvents(t, s.live, http.MethodPost, mediaEvents, tokenOf(t, d), s.fill(t, d.Input))
	opened(t, s.blog, 1)
	if strings.Contains(d.Input, "<post:") {
		testkit.Until(t, func() error { // the post is read before a mutation may delete it
			if reads() == before {
				return errors.New("the subscription has not read its post")
			}
			return nil
		})
	}
}

func isSubscribe(pattern string) bool { return pattern == string(store.Subscribe) }

// constantHeaders are the response headers that http does not show.
var constantHeaders = []string{"Date", "Content-Length", "Connection", requestIDHeader}

// http sends the bytes of a request. It adds Host, Content-Length and the id of the request, if they are absent.
func (s *script) http(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	head, body, _ := strings.Cut(d.Input, "\n\n")
	head, body = s.fill(t, head), s.fill(t, body)
	line, header, _ := strings.Cut(head, "\n")
	method, target, _ := strings.Cut(line, " ")
	lines := []string{method + " " + strings.ReplaceAll(target, " ", "%20") + " HTTP/1.1"}
	if header != "" {
		lines = append(lines, strings.Split(header, "\n")...)
	}
	for _, h := range [][2]string{{"Host", "localhost"}, {"Content-Length", strconv.Itoa(len(body))},
		{requestIDHeader, scriptRequestID}} {
		if !strings.Contains("\n"+header, "\n"+h[0]+":") && (body != "" || h[0] != "Content-Length") {
			lines = append(lines, h[0]+": "+h[1])
		}
	}
	lines = append(lines, "Connection: close", "", body)
	s.blog.wire.reset()
	a := s.exchange(t, method, strings.Join(lines, "\r\n"))
	s.checkPartitions(t)

	var out strings.Builder
	fmt.Fprintf(&out, "HTTP %d\n", a.status)
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		if !slices.Contains(constantHeaders, name) {
			fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(a.header[name], ", "))
		}
	}
	out.WriteString(s.show(t, a))
	return out.String()
}

// exchange sends a request to a server of the blog, and returns its response.
func (s *script) exchange(t *testing.T, method, request string) testResponse {
	t.Helper()
	if s.wire == nil {
		s.wire = testkit.PipeServer(t, s.blog, nil)
	}
	c, err := s.wire.Listener.(*testkit.PipeListener).Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, request) // fails if the server refuses the rest
	}()
	response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	a := readResponse(t, response)
	c.Close()
	<-sent
	return a
}
