// Package faulttest fails requests to Cosmos DB: a Transport the first, second, ... n-th request of an operation, with
// a fault of every kind, one at a time; an Injector those that a function selects.
package faulttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/store/blog"
)

// Fault is a way in which a request fails.
type Fault struct {
	Name string

	// Codes are the codes of an error that an operation may return because of the fault. Without any, the client
	// repeats the request, so that the operation must succeed.
	Codes []blog.Code

	// Misleads says that the response describes a state of an item that it does not have, as after a concurrent
	// write. An operation may then succeed without an effect.
	Misleads bool

	takesEffect bool                // although it fails
	applies     func(*request) bool // whether a request can fail in this way
	fail        func(to policy.Transporter, r *request) (*http.Response, error)
}

// Faults are the faults of requests.
var Faults = []Fault{
	{Name: "connection lost before the request", Codes: unavailable, applies: all, fail: loseRequest},
	{Name: "connection lost after the write", Codes: unavailable, applies: (*request).isWrite, fail: loseResponse, takesEffect: true},
	{Name: "503", Codes: unavailable, applies: all, fail: respond(http.StatusServiceUnavailable, 0)},
	{Name: "404 without the container", Codes: unavailable, applies: (*request).isOfContainer,
		fail: respond(http.StatusNotFound, 1003)},
	{Name: "404 of a replica that is behind", applies: (*request).isRead, fail: respond(http.StatusNotFound, 1002)},
	{Name: "404 of a point read", Codes: changed, Misleads: true, applies: (*request).isPointRead,
		fail: respond(http.StatusNotFound, 0)},
	{Name: "404 of a write", Codes: changed, Misleads: true, applies: (*request).isItemWrite,
		fail: respond(http.StatusNotFound, 0)},
	{Name: "404 in a batch", Codes: changed, Misleads: true, applies: has("Read", "Patch", "Replace", "Delete"),
		fail: failOperation(http.StatusNotFound, "Read", "Patch", "Replace", "Delete")},
	{Name: "409 of a create", Codes: changed, Misleads: true, applies: (*request).isCreate,
		fail: respond(http.StatusConflict, 0)},
	{Name: "409 in a batch", Codes: changed, Misleads: true, applies: (*request).isBatchOfWrites,
		fail: conflictInBatch},
	{Name: "412 of a write", Codes: changed, Misleads: true, applies: (*request).isConditional,
		fail: respond(http.StatusPreconditionFailed, 0)},
	{Name: "412 in a batch", Codes: changed, Misleads: true, applies: has("Patch"),
		fail: failOperation(http.StatusPreconditionFailed, "Patch")},
	{Name: "429", applies: all, fail: respond(http.StatusTooManyRequests, 3200)},
	{Name: "429 in a batch", applies: (*request).isBatch,
		fail: failOperation(http.StatusTooManyRequests, operations...)},
	{Name: "449 of a write", applies: (*request).isWrite, fail: respond(449, 0)},
	{Name: "449 in a batch", applies: (*request).isBatch, fail: failOperation(449, operations...)},
}

var (
	unavailable = []blog.Code{blog.Unavailable}
	changed     = []blog.Code{blog.NotFound, blog.Conflict, blog.Forbidden, blog.LimitReached, blog.Unavailable}
	operations  = []string{"Create", "Upsert", "Read", "Patch", "Replace", "Delete"}
)

// request is a request with its body, which has been read.
type request struct {
	*http.Request
	body []byte
}

// is reports whether a header is "true".
func (r *request) is(header string) bool { return strings.EqualFold(r.Header.Get(header), "true") }

func (r *request) isBatch() bool { return r.is("X-Ms-Cosmos-Is-Batch-Request") }

func (r *request) isBatchOfWrites() bool { return r.isBatch() && r.isWrite() }

// isWrite reports whether the request may change items.
func (r *request) isWrite() bool {
	switch r.Method {
	case http.MethodPost:
		writes := func(operation string) bool { return operation != "Read" }
		return !r.isQuery() && (!r.isBatch() || slices.ContainsFunc(r.types(), writes))
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

func (r *request) isQuery() bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json")
}

// isItem reports whether the request names an item in its path.
func (r *request) isItem() bool { return strings.Contains(r.URL.Path, "/docs/") }

// types returns the types of the operations of a batch.
func (r *request) types() (types []string) {
	var all []struct {
		OperationType string `json:"operationType"`
	}
	_ = json.Unmarshal(r.body, &all)
	for _, o := range all {
		types = append(types, o.OperationType)
	}
	return types
}

// isOfContainer reports whether the request is of a container rather than of its items: a query, or a create.
func (r *request) isOfContainer() bool {
	return strings.Contains(r.URL.Path, "/colls/") && !r.isItem() && !r.isBatch()
}

func (r *request) isRead() bool { return !r.isWrite() && strings.Contains(r.URL.Path, "/docs") }

func (r *request) isPointRead() bool { return r.isItem() && r.Method == http.MethodGet }

func (r *request) isItemWrite() bool { return r.isItem() && r.isWrite() }

func (r *request) isCreate() bool {
	return r.Method == http.MethodPost && !r.isQuery() && !r.isBatch() && !r.is("X-Ms-Documentdb-Is-Upsert")
}

func (r *request) isConditional() bool {
	return r.isItemWrite() &&
		(r.Header.Get("If-Match") != "" ||
			r.Method == http.MethodPatch && bytes.Contains(r.body, []byte(`"condition"`)))
}

func all(*request) bool { return true }

// has reports whether a request is a batch with an operation of one of the types.
func has(types ...string) func(*request) bool {
	return func(r *request) bool { return r.isBatch() && r.first(types) >= 0 }
}

// first returns the index of the first operation that has one of the types, or -1.
func (r *request) first(types []string) int {
	return slices.IndexFunc(r.types(), func(operation string) bool { return slices.Contains(types, operation) })
}

// send sends the request.
func (r *request) send(to policy.Transporter) (*http.Response, error) {
	r.Body = io.NopCloser(bytes.NewReader(r.body))
	return to.Do(r.Request)
}

// response returns a response that the account has not sent.
func (r *request) response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Header: http.Header{"X-Ms-Request-Charge": {"1"}}, Request: r.Request,
		Body: io.NopCloser(strings.NewReader(body))}
}

// retryAfter is the retry-after of a 429.
const retryAfter = 5 * time.Millisecond

// respond returns a status and a substatus without executing the request.
func respond(status, substatus int) func(policy.Transporter, *request) (*http.Response, error) {
	return func(_ policy.Transporter, r *request) (*http.Response, error) {
		return r.respond(Response{Status: status, Substatus: substatus, RetryAfter: retryAfter}), nil
	}
}

// failOperation fails the first operation of a batch that has one of the types.
func failOperation(status int, types ...string) func(policy.Transporter, *request) (*http.Response, error) {
	return func(_ policy.Transporter, r *request) (*http.Response, error) {
		with := Response{Status: status, RetryAfter: retryAfter, Operation: r.first(types)}
		return r.failOperation(with, len(r.types())), nil
	}
}

// conflictInBatch fails the first create of a batch, or the first operation if it has none.
func conflictInBatch(to policy.Transporter, r *request) (*http.Response, error) {
	if r.first([]string{"Create"}) < 0 {
		return failOperation(http.StatusConflict, operations...)(to, r)
	}
	return failOperation(http.StatusConflict, "Create")(to, r)
}

// errReset is the error of a broken connection.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

func loseRequest(policy.Transporter, *request) (*http.Response, error) { return nil, errReset }

// loseResponse executes a write and loses its response.
func loseResponse(to policy.Transporter, r *request) (*http.Response, error) {
	resp, err := r.send(to)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	return nil, errReset
}

// Case is a fault of the n-th request of an operation. The zero value is no fault.
type Case struct {
	N int
	Fault
}

// String names the case in the errors of tests.
func (c Case) String() string {
	if c.N == 0 {
		return "no fault"
	}
	return fmt.Sprintf("request %d: %s", c.N, c.Name)
}

// Transport fails a request of an operation, between Begin and End.
type Transport struct {
	To policy.Transporter

	mu     sync.Mutex
	begun  *Case                    // guarded by mu; nil: not between Begin and End
	counts func(*http.Request) bool // guarded by mu; nil: all
	sent   []*request               // guarded by mu; the requests of the operation
	failed string                   // guarded by mu; the request that has failed, or ""
}

// Begin makes the transport count requests, those for which counts holds unless it is nil, and fail the one of
// the case.
func (t *Transport) Begin(c Case, counts func(*http.Request) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun, t.counts, t.sent, t.failed = &c, counts, nil, ""
}

// End ends what Begin has begun.
func (t *Transport) End() Requests {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = nil
	return Requests{t.sent, t.failed}
}

// Requests are the requests of an operation.
type Requests struct {
	sent []*request

	Failed string // the request that has failed, or ""
}

// Count is the number of requests.
func (r Requests) Count() int { return len(r.sent) }

// Do implements policy.Transporter.
func (t *Transport) Do(r *http.Request) (*http.Response, error) {
	read := &request{Request: r}
	if r.Body != nil {
		var err error
		if read.body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(read.body))
	}
	if c := t.due(read); c != nil {
		return c.fail(t.To, read)
	}
	return read.send(t.To)
}

// due counts a request, and returns the case that fails it, or nil.
func (t *Transport) due(r *request) *Case {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == nil || t.counts != nil && !t.counts(r.Request) {
		return nil
	}
	t.sent = append(t.sent, r)
	if len(t.sent) != t.begun.N || !t.begun.applies(r) {
		return nil
	}
	t.failed = r.Method + " " + r.URL.Path
	if r.isQuery() || r.isBatch() {
		t.failed += " " + string(r.body)
	}
	return t.begun
}

// shortSample is the number of requests that fail with -short, as with the race detector, with which sweeps take
// minutes.
const shortSample = 1

// Sweep calls run without a fault, and then for each of the requests that run has returned, with its faults: all that
// say something wrong or lose the response to a write, one of those that only fail the request, and one of those after
// which the client repeats it. The requests take turns with these. run calls Begin, does the operation, calls End, and
// returns its result. With -short it is a Sample.
func Sweep(run func(Case) Requests) { Sample(run, math.MaxInt) }

// Sample is Sweep for work with many requests: n of them, evenly spread, fail. With -short n is at most shortSample.
func Sample(run func(Case) Requests, n int) {
	if testing.Short() {
		n = min(n, shortSample)
	}
	sent := run(Case{}).sent
	n = min(n, len(sent))
	for k := range n {
		i := (2*k + 1) * len(sent) / (2 * n)
		var failed, repeated bool
		for j := range Faults {
			f := Faults[(i+j)%len(Faults)]
			if !f.applies(sent[i]) || f.fails() && failed || f.repeated() && repeated {
				continue
			}
			failed, repeated = failed || f.fails(), repeated || f.repeated()
			run(Case{i + 1, f})
		}
	}
}

// fails reports whether the request has an error that is true, and no effect.
func (f *Fault) fails() bool { return len(f.Codes) > 0 && !f.Misleads && !f.takesEffect }

// repeated reports whether the client repeats the request.
func (f *Fault) repeated() bool { return len(f.Codes) == 0 }
