package faulttest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Kind is a kind of request to Cosmos DB.
type Kind string

// The kinds of requests. Metadata is everything that is not about items.
const (
	Read       Kind = "read"
	Create     Kind = "create"
	Upsert     Kind = "upsert"
	Replace    Kind = "replace"
	Patch      Kind = "patch"
	Delete     Kind = "delete"
	Batch      Kind = "batch"
	Query      Kind = "query"
	ChangeFeed Kind = "change feed"
	Metadata   Kind = "metadata"
)

// Writes reports whether requests of the kind may change items: also those of batches, even of reads.
func (k Kind) Writes() bool {
	switch k {
	case Create, Upsert, Replace, Patch, Delete, Batch:
		return true
	}
	return false
}

// Operation describes a request to Cosmos DB.
type Operation struct {
	Kind      Kind
	Container string // "" if the request names none
	Partition string // the partition key as JSON, such as ["a"]; "" if the request has none
}

// Response is an error response that an Injector sends instead of that of the account. The zero value: the account
// responds.
type Response struct {
	Status    int
	Substatus int

	// RetryAfter is that of a 429. Default 1 ms.
	RetryAfter time.Duration

	// InBatch makes Status that of one operation of a transactional batch, whose index is Operation, in a 207
	// response. The account responds to other requests and to shorter batches.
	InBatch   bool
	Operation int
}

// Injector makes the requests fail that the function of Inject selects, as a transport or as a handler. It forwards
// the others. It is safe for concurrent use.
type Injector struct {
	To policy.Transporter // of Do

	decide atomic.Pointer[func(Operation) Response]
}

// Inject calls decide for every request from now on, concurrently; nil: for none.
func (i *Injector) Inject(decide func(Operation) Response) {
	if decide == nil {
		i.decide.Store(nil)
		return
	}
	i.decide.Store(&decide)
}

// Do implements policy.Transporter.
func (i *Injector) Do(r *http.Request) (*http.Response, error) {
	resp, err := i.respondTo(r)
	if resp == nil && err == nil {
		return i.To.Do(r)
	}
	return resp, err
}

// Handler returns a handler that forwards to another one, as Do forwards to To.
func (i *Injector) Handler(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := i.respondTo(r)
		if err != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		if resp == nil {
			to.ServeHTTP(w, r)
			return
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

// respondTo returns the response to a request that fails, or nil. It replaces the body of a batch by a copy. Its
// error is that of the body or of the request's context.
func (i *Injector) respondTo(r *http.Request) (*http.Response, error) {
	decide := i.decide.Load()
	if decide == nil {
		return nil, nil
	}
	read := &request{Request: r}
	with := (*decide)(read.operation())
	if err := r.Context().Err(); err != nil || with.Status == 0 || with.InBatch && !read.isBatch() {
		return nil, err
	}
	if !with.InBatch {
		return read.respond(with), nil
	}
	var err error
	if read.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(read.body))
	if n := len(read.types()); with.Operation < n {
		return read.failOperation(with, n), nil
	}
	return nil, nil
}

func (r *request) respond(with Response) *http.Response {
	resp := r.response(with.Status, `{"code":"Fault","message":"injected"}`)
	if with.Substatus != 0 {
		resp.Header.Set("X-Ms-Substatus", fmt.Sprint(with.Substatus))
	}
	if with.Status == http.StatusTooManyRequests {
		resp.Header.Set("X-Ms-Retry-After-Ms", fmt.Sprint(with.retryAfter()))
	}
	return resp
}

// failOperation responds to a batch of n operations.
func (r *request) failOperation(with Response, n int) *http.Response {
	results := slices.Repeat([]string{`{"statusCode":424,"requestCharge":0}`}, n)
	results[with.Operation] = fmt.Sprintf(
		`{"statusCode":%d,"subStatusCode":%d,"requestCharge":1,"retryAfterMilliseconds":%d}`,
		with.Status, with.Substatus, with.retryAfter())
	return r.response(http.StatusMultiStatus, "["+strings.Join(results, ",")+"]")
}

// retryAfter is in milliseconds.
func (r Response) retryAfter() int64 { return max(r.RetryAfter, time.Millisecond).Milliseconds() }

func (r *request) operation() Operation {
	o := Operation{Kind: r.kind(), Partition: r.Header.Get("X-Ms-Documentdb-Partitionkey")}
	if path := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); len(path) > 3 { // dbs/<id>/colls/<id>
		o.Container = path[3]
	}
	return o
}

func (r *request) kind() Kind {
	switch {
	case !strings.Contains(r.URL.Path, "/docs"):
		return Metadata
	case r.isBatch():
		return Batch
	case r.isQuery():
		return Query
	case r.Header.Get("A-Im") != "":
		return ChangeFeed
	case r.is("X-Ms-Documentdb-Is-Upsert"):
		return Upsert
	}
	return map[string]Kind{http.MethodGet: Read, http.MethodPost: Create, http.MethodPut: Replace,
		http.MethodPatch: Patch, http.MethodDelete: Delete}[r.Method]
}
