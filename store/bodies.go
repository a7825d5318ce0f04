package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bodies is a policy, per call, that hands pages of lists and of the change feed and results
// of batches to the Store as they arrive. azcore would collect them in memory that it enlarges
// again and again, and azcosmos would copy and check every item of them three times before it
// is decoded. Without the policy they are read as azcosmos returns them.
//
// The zero value works.
type Bodies struct{}

// arrived is a body as it arrived; nil if azcosmos has it.
type arrived struct {
	body  []byte
	items []jsontext.Value // of a page of the change feed
}

type arrivedKey struct{}

// withBody has the body of a successful response in ctx arrive here.
func withBody(ctx context.Context) (context.Context, *arrived) {
	a := &arrived{}
	return context.WithValue(ctx, arrivedKey{}, a), a
}

// Do implements policy.Policy.
func (Bodies) Do(req *policy.Request) (*http.Response, error) {
	r := req.Raw()
	a, ok := r.Context().Value(arrivedKey{}).(*arrived)
	feed := r.Method == http.MethodGet && len(r.Header["A-Im"]) > 0
	// azcosmos reads accounts and containers in the context of what needs them.
	if !ok || r.Method != http.MethodPost && !feed || containerPath(r.URL.EscapedPath()) == "" {
		return req.Next()
	}
	runtime.SkipBodyDownload(req)
	resp, err := req.Next()
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	if a.body, err = readBody(resp); err != nil {
		return nil, err
	}
	resp.Body = http.NoBody
	if feed { // azcosmos goes on to the next physical partition if there are none
		var page struct {
			RID   string           `json:"_rid"`
			Items []jsontext.Value `json:"Documents"`
		}
		if err := jsonv2.Unmarshal(a.body, &page, lenient); err != nil {
			return nil, err
		}
		a.items = page.Items
		resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"_rid":%q,"_count":%d}`, page.RID, len(page.Items))))
	}
	return resp, nil
}

// readBody reads a body to its end and closes it.
func readBody(resp *http.Response) (body []byte, err error) {
	if resp.ContentLength < 0 {
		body, err = io.ReadAll(resp.Body)
	} else {
		body = make([]byte, resp.ContentLength)
		_, err = io.ReadFull(resp.Body, body)
	}
	return body, errors.Join(err, resp.Body.Close())
}

// readChangeFeed reads a page of a container's change feed.
func readChangeFeed(ctx context.Context, c *azcosmos.ContainerClient, o *azcosmos.ChangeFeedOptions) (azcosmos.ChangeFeedResponse, error) {
	ctx, arrived := withBody(ctx)
	page, err := c.ReadChangeFeed(ctx, o)
	for _, item := range arrived.items {
		page.Items = append(page.Items, item)
	}
	return page, err
}

var errNotPage = errors.New("not a page of a query")

// errEnough ends eachItem early.
var errEnough = errors.New("enough")

// eachItem calls f with what decodes an item of a page, which it does once, and that for
// all of them. The items are those that azcosmos has.
func (a *arrived) eachItem(items [][]byte, f func(decode func(into any) error) error) error {
	if a.body == nil {
		for _, raw := range items {
			if err := f(func(into any) error { return jsonv2.Unmarshal(raw, into) }); err != nil {
				return err
			}
		}
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(a.body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errNotPage, err)
	}
	decode, found := func(into any) error { return jsonv2.UnmarshalDecode(d, into) }, false
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if name.String() != "Documents" {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
			return errors.Join(errNotPage, err)
		}
		found = true
		for d.PeekKind() == '{' {
			if err := f(decode); err != nil {
				return err
			}
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != ']' {
			return errors.Join(errNotPage, err)
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' || !found {
		return errors.Join(errNotPage, err)
	}
	return nil
}

// bodies returns what a batch that succeeded returned of each of its operations, "" of
// those that return nothing. The results are those that azcosmos has.
func (a *arrived) bodies(results []azcosmos.TransactionalBatchResult) ([][]byte, error) {
	all := make([][]byte, 0, 2)
	if a.body == nil {
		for _, r := range results {
			all = append(all, r.ResourceBody)
		}
		return all, nil
	}
	var own []struct {
		ResourceBody jsontext.Value `json:"resourceBody"`
	}
	err := jsonv2.Unmarshal(a.body, &own)
	for _, r := range own {
		all = append(all, r.ResourceBody)
	}
	return all, err
}
