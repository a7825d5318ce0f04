package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"byline/store/emulator/jsonpart"
)

// bodyPolicy is a policy, per try, after the retry policies, so that a truncated response is an error
// that they see. It sends batches and patches as this package encodes them, and passes on the raw
// pages of queries and of the change feed, and the raw results of batches. azcosmos would encode the
// operations of a batch one by one, and copy and check them twice more; azcore would grow a buffer
// for the response repeatedly, and azcosmos copy and check every item three times before it is decoded.
//
// It reserves memory for the responses: see WithMemory.
type bodyPolicy struct{}

// rawBodies are the bodies of a request and its responses that this package encodes and decodes itself.
type rawBodies struct {
	request    []byte // replaces the body that azcosmos encoded, unless nil
	operations int    // of a batch; 0 for other requests
	failed     int    // index of the operation of a batch that failed because of the state of its item
	status     int    // its status; 0 if the batch took effect
	paged      bool   // responses are pages, whose items are collected
	body       []byte // of the response; nil if azcosmos decodes it, or if it is a batch or paged

	mu    sync.Mutex // azcosmos reads many items concurrently
	items [][]byte   // guarded by mu; they share the bytes of their responses
}

type rawBodiesKey struct{}

// withResponseBody returns a context in which the body of a successful response is stored in the
// rawBodies.
func withResponseBody(ctx context.Context) (context.Context, *rawBodies) {
	return withRequestBody(ctx, nil)
}

// withPageItems returns a context in which the items of pages, of the change feed or of a query, are
// collected in the rawBodies, in the order of the responses: azcosmos requests some pages concurrently,
// and repeats some after a split of a physical partition.
func withPageItems(ctx context.Context) (context.Context, *rawBodies) {
	x := &rawBodies{paged: true}
	return context.WithValue(ctx, rawBodiesKey{}, x), x
}

// withRequestBody is withResponseBody, and also replaces the body of the request.
func withRequestBody(ctx context.Context, body []byte) (context.Context, *rawBodies) {
	x := &rawBodies{request: body}
	return context.WithValue(ctx, rawBodiesKey{}, x), x
}

// Do implements policy.Policy.
func (bodyPolicy) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	// azcosmos also reads accounts and containers in this context.
	if containerPath(r.URL.EscapedPath()) == "" {
		return req.Next()
	}
	x, ok := r.Context().Value(rawBodiesKey{}).(*rawBodies)
	if ok && x.request != nil {
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(x.request)), "application/json"); err != nil {
			return nil, err
		}
	}
	runtime.SkipBodyDownload(req)
	resp, err := req.Next()
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		return resp, err
	}
	memory := memoryOf(r.Context())
	if isWrite(r) {
		memory = written{memory}
	}
	body, err := readBody(resp, memory)
	if err != nil {
		return nil, err
	}
	// The cache counts the bytes.
	resp.Body, resp.ContentLength = http.NoBody, int64(len(body))
	query := r.Method == http.MethodPost || len(r.Header["A-Im"]) > 0 // a query, a batch or the change feed
	switch {
	case ok && x.operations > 0:
		return x.batch(resp, body)
	case !ok || !query || resp.StatusCode != http.StatusOK:
		resp.Body = io.NopCloser(bytes.NewReader(body)) // azcosmos decodes it
		return resp, nil
	case !x.paged:
		x.body = body
		return resp, nil
	}
	rid, items, ok := parsePage(body)
	if !ok {
		return nil, errNotPage
	}
	x.mu.Lock()
	x.items = append(x.items, items...)
	x.mu.Unlock()
	// azcosmos continues the change feed with the next physical partition if _count is 0.
	resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"_rid":%s,"_count":%d}`, rid, len(items))))
	return resp, nil
}

// written is the memory of the response to a write. The write is not undone if there is too little.
type written struct{ Memory }

func (m written) Grow(bytes int) error {
	m.Add(bytes)
	return nil
}

// readBody reads a body to its end and closes it.
func readBody(resp *http.Response, m Memory) (body []byte, err error) {
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if held, ok := resp.Body.(interface{ Bytes() []byte }); ok { // from the engine, in this process
		body = held.Bytes()
		return body, reserve(m, len(body))
	}
	if resp.ContentLength <= 0 {
		return io.ReadAll(&reservingReader{body: resp.Body, memory: m})
	}
	if err := reserve(m, int(resp.ContentLength)); err != nil {
		return nil, err
	}
	body = make([]byte, resp.ContentLength)
	_, err = io.ReadFull(resp.Body, body)
	return body, err
}

// reserve reserves memory for a response of so many bytes.
func reserve(m Memory, bytes int) error {
	if err := m.Grow(decoded * bytes); err != nil {
		return finalError{err}
	}
	return nil
}

// reservingReader reserves memory for a body whose length is not known, as it is read.
type reservingReader struct {
	body   io.Reader
	memory Memory
}

func (r *reservingReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if refused := reserve(r.memory, n); refused != nil {
		return n, refused
	}
	return n, err
}

// parsePage returns the items of a page, which share its bytes. It reports false for a truncated page.
// It does not check the JSON of the items.
func parsePage(body []byte) (rid []byte, items [][]byte, ok bool) {
	page := jsonpart.Members{Text: bytes.TrimSpace(body), At: 1}
	list := []byte(nil)
	if !bytes.HasPrefix(page.Text, []byte{'{'}) {
		return nil, nil, false
	}
	for {
		name, from, to, more := page.Next()
		if !more {
			break
		}
		switch string(name) {
		case "_rid":
			rid = page.Text[from:to]
		case "Documents":
			list = page.Text[from:to]
		}
	}
	if len(rid) == 0 || !bytes.HasPrefix(list, []byte{'['}) || !page.Closed() {
		return nil, nil, false
	}
	for item := range jsonpart.Children(list) {
		items = append(items, item.Value)
	}
	return rid, items, true
}

var errNotPage = errors.New("not a page of a list")

var errNotResults = errors.New("not the results of a batch, or not all")

// batch stores the items of a batch that took effect. The response to another has the status of the operation that
// failed, so that the policies handle it as that of a single write; but 207 if that depends on the state of its item
// (404, 409, 412). Cosmos DB responds with 207 in both cases, and perhaps with 200.
func (x *rawBodies) batch(resp *http.Response, body []byte) (*http.Response, error) {
	items, failed, err := parseResults(body, x.operations)
	if err != nil {
		return nil, err
	}
	if !failed {
		x.items = items
		return resp, nil
	}
	var operations []struct {
		Status     int     `json:"statusCode"`
		Substatus  int     `json:"subStatusCode"`
		RetryAfter float64 `json:"retryAfterMilliseconds"`
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, fmt.Errorf("results of a batch: %w", err)
	}
	for i, o := range operations {
		switch {
		case o.Status >= 200 && o.Status < 300 || o.Status == http.StatusFailedDependency:
			continue
		case slices.Contains([]int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}, o.Status):
			x.failed, x.status = i, o.Status
			resp.StatusCode, resp.Status = http.StatusMultiStatus, "207 "+http.StatusText(http.StatusMultiStatus)
			resp.Body = io.NopCloser(bytes.NewReader(body))
		default:
			text := fmt.Sprintf("operation %d of a batch: status %d, substatus %d", i, o.Status, o.Substatus)
			resp.StatusCode, resp.Status = o.Status,
				strings.TrimSpace(fmt.Sprint(o.Status, " ", http.StatusText(o.Status)))
			resp.Header = resp.Header.Clone()
			resp.Header.Set(substatusHeader, strconv.Itoa(o.Substatus))
			resp.Header.Set(retryAfterHeader, strconv.FormatFloat(o.RetryAfter, 'f', -1, 64))
			resp.Body = io.NopCloser(strings.NewReader(`{"code":"BatchFailed","message":"` + text + `"}`))
		}
		return resp, nil
	}
	return nil, errors.New("a batch failed without the status of an operation")
}

// parseResults returns the items in the results of a batch of n operations, nil for operations that return
// none, and reports whether an operation has failed.
func parseResults(body []byte, n int) (items [][]byte, failed bool, err error) {
	results := jsonpart.Elements{Text: bytes.TrimSpace(body), At: 1}
	if !bytes.HasPrefix(results.Text, []byte{'['}) {
		return nil, false, errNotResults
	}
	items = make([][]byte, 0, n)
	for {
		result, more := results.Next()
		if !more {
			break
		}
		var item []byte
		for c := range jsonpart.Children(result) {
			switch string(c.Name) {
			case "resourceBody":
				item = c.Value
			case "statusCode":
				failed = failed || len(c.Value) != 3 || c.Value[0] != '2'
			}
		}
		items = append(items, item)
	}
	if !results.Closed() {
		return nil, false, errNotResults
	}
	if len(items) != n {
		return nil, false, fmt.Errorf("%d results of a batch of %d operations", len(items), n)
	}
	return items, failed, nil
}
