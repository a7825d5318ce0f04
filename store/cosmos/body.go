package cosmos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"byline/internal/jsonpart"
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
	request []byte // replaces the body that azcosmos encoded, unless nil
	paged   bool   // responses are pages, whose items are collected
	body    []byte // of the response; nil if azcosmos decodes it, or if it is paged

	mu    sync.Mutex // azcosmos reads many items concurrently
	items [][]byte   // guarded by mu; they share the bytes of their pages
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
	if !ok || !query || resp.StatusCode != http.StatusOK {
		resp.Body = io.NopCloser(bytes.NewReader(body)) // azcosmos decodes it
		return resp, nil
	}
	if !x.paged {
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

// batchItems returns the items that a successful batch of n operations returned, nil for operations
// that return none; and nil for a batch that failed.
func (x *rawBodies) batchItems(n int) ([][]byte, error) {
	if x.body == nil {
		return nil, nil
	}
	results := jsonpart.Elements{Text: bytes.TrimSpace(x.body), At: 1}
	if !bytes.HasPrefix(results.Text, []byte{'['}) {
		return nil, errNotResults
	}
	all := make([][]byte, 0, n)
	for {
		result, more := results.Next()
		if !more {
			break
		}
		var item []byte
		for c := range jsonpart.Children(result) {
			if string(c.Name) == "resourceBody" {
				item = c.Value
			}
		}
		all = append(all, item)
	}
	if !results.Closed() {
		return nil, errNotResults
	}
	if len(all) != n {
		return nil, fmt.Errorf("%d results of a batch of %d operations", len(all), n)
	}
	return all, nil
}
