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

// bodies is a policy, per try, after those that decide whether to try again: a response
// that is cut off is an error. It sends batches and patches as this package encodes them, and hands
// pages of queries and of the change feed and results of batches on as they arrive. azcosmos
// would encode the operations of a batch each for itself, and copy and check them twice more;
// azcore would collect what arrives in memory that it enlarges again and again, and azcosmos
// copy and check every item of it three times before it is decoded.
type bodies struct{}

// exchange is a request and its response, as far as this package encodes and decodes them.
type exchange struct {
	request []byte // sent instead of what azcosmos encoded; nil: that is sent
	paged   bool   // a response is a page, of which the items are wanted
	body    []byte // as it arrived; nil if azcosmos has it, or if it is paged

	mu    sync.Mutex // azcosmos asks for many items side by side
	items [][]byte   // guarded by mu; of the pages, whose bytes they share
}

type exchangeKey struct{}

// receiving has the body of a successful response in ctx arrive in the exchange.
func receiving(ctx context.Context) (context.Context, *exchange) { return sending(ctx, nil) }

// receivingItems has the items of pages, of the change feed or of a query, arrive in the
// exchange, in the order in which the pages arrive: azcosmos asks for some side by side, and
// when a physical partition has been split, for some again.
func receivingItems(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{paged: true}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// sending has body sent in ctx, too.
func sending(ctx context.Context, body []byte) (context.Context, *exchange) {
	x := &exchange{request: body}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// Do implements policy.Policy.
func (bodies) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	// azcosmos reads accounts and containers in the context of what needs them.
	if !ok || containerPath(r.URL.EscapedPath()) == "" {
		return req.Next()
	}
	if x.request != nil {
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(x.request)), "application/json"); err != nil {
			return nil, err
		}
	}
	if r.Method != http.MethodPost && len(r.Header["A-Im"]) == 0 { // no query, batch or change feed
		return req.Next()
	}
	runtime.SkipBodyDownload(req)
	resp, err := req.Next()
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := readBody(resp)
	if err != nil {
		return nil, err
	}
	// The cache counts what arrived.
	resp.Body, resp.ContentLength = http.NoBody, int64(len(body))
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
	// Of the change feed azcosmos goes on to the next physical partition if there are none.
	resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"_rid":%s,"_count":%d}`, rid, len(items))))
	return resp, nil
}

// readBody reads a body to its end and closes it.
func readBody(resp *http.Response) (body []byte, err error) {
	if held, ok := resp.Body.(interface{ Bytes() []byte }); ok { // of the engine, in this process
		return held.Bytes(), resp.Body.Close()
	}
	if resp.ContentLength < 0 {
		body, err = io.ReadAll(resp.Body)
	} else {
		body = make([]byte, resp.ContentLength)
		_, err = io.ReadFull(resp.Body, body)
	}
	return body, errors.Join(err, resp.Body.Close())
}

// parsePage returns the items of a page, which share its bytes, if it is not cut off. Whether
// they are JSON is seen when they are decoded.
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

// bodies returns what a batch of n operations that succeeded returned of each of them, nil of
// those that return nothing; none if it did not succeed.
func (x *exchange) bodies(n int) ([][]byte, error) {
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
