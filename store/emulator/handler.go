package emulator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
)

// maxRequestBytes bounds the body that is read. It is above the limits of the protocol, which have
// errors of their own.
const maxRequestBytes = 4 << 20

// request is a routed request.
type request struct {
	ctx      context.Context
	method   string
	header   http.Header
	body     []byte
	segments []string       // of the path, decoded
	slot     backgroundSlot // that the request holds, or nil
}

// origin says how a request reached the engine.
type origin struct {
	endpoint string // of the account in responses
	compute  bool   // through the compute gateway, which accepts any id
}

// get returns a header by its canonical name.
func (r *request) get(name string) string { return headerValue(r.header, name) }

func headerValue(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// unsupportedHeaders change what a request does or what its response says in ways the engine does not implement.
// SDKs send them only at the application's request.
var unsupportedHeaders = []string{
	"X-Ms-Cosmos-Changefeed-Wire-Format-Version",
	"X-Ms-Cosmos-Is-Client-Encrypted",
	"X-Ms-Cosmos-Migrate-Offer-To-Autopilot",
	"X-Ms-Cosmos-Migrate-Offer-To-Manual-Throughput",
	"X-Ms-Cosmos-Populateindexmetrics-V2",
	"X-Ms-Documentdb-Populatepartitionstatistics",
	"X-Ms-Documentdb-Populatequotainfo",
	"X-Ms-Documentdb-Post-Trigger-Include",
	"X-Ms-Documentdb-Pre-Trigger-Include",
	"X-Ms-End-Id",
	"X-Ms-Enumeration-Direction",
	"X-Ms-Exclude-System-Properties",
	"X-Ms-Offer-Is-Ru-Per-Minute-Throughput-Enabled",
	"X-Ms-Offer-Type",
	"X-Ms-Start-Id",
}

// maxSessionToken is the longest session token, in bytes. The service limits the total size of the headers;
// only the session token of a container with many ranges reaches it.
const maxSessionToken = 8 << 10

// checkHeaders refuses a request with a header that the engine would otherwise ignore.
func (r *request) checkHeaders() error {
	refuse := func(name string) error {
		return apierror.BadRequest("The value '%s' of the header '%s' is not supported.", r.get(name),
			strings.ToLower(name))
	}
	for _, name := range unsupportedHeaders {
		if v := r.get(name); v != "" && !strings.EqualFold(v, "false") {
			return refuse(name)
		}
	}
	if v := r.get("X-Ms-Indexing-Directive"); v != "" && !strings.EqualFold(v, "Default") &&
		!strings.EqualFold(v, "Include") {
		return refuse("X-Ms-Indexing-Directive")
	}
	if r.method != http.MethodGet && r.get("If-None-Match") != "" {
		return refuse("If-None-Match")
	}
	return nil
}

func (r *request) is(name string) bool { return strings.EqualFold(r.get(name), "true") }

// notModified reports whether a conditional read of a resource with this ETag gets 304.
// If-None-Match: * matches every existing resource.
func (r *request) notModified(etag string) bool {
	match := r.get("If-None-Match")
	return match == etag || match == "*"
}

// checkIfMatch compares the If-Match header of a write with the ETag of the resource.
func checkIfMatch(match, etag string) error {
	if match != "" && match != "*" && match != etag {
		return apierror.PreconditionFailed()
	}
	return nil
}

func (r *request) minimal() bool { return strings.EqualFold(r.get("Prefer"), "return=minimal") }

// response is a response. Zero fields are omitted.
type response struct {
	status       int
	body         []byte
	charge       float64
	etag         string // with its quotes
	session      string
	lsn          uint64
	partition    *partition
	payers       []*partition // share the charge equally; if empty, partition pays
	container    *container
	items        int // item count, set if counted
	counted      bool
	continuation string
	substatus    int
	extra        []string // further headers: alternating canonical names and values
}

// at sets the LSN of the response and the session token for it.
func (resp *response) at(e *Engine, lsn uint64) *response {
	resp.lsn, resp.session = lsn, sessionToken(resp.partition, lsn)
	return resp
}

// bufferedBody is a response body in memory.
type bufferedBody struct {
	*bytes.Reader
	all []byte
}

// Bytes returns the whole body, which must not be changed.
func (b bufferedBody) Bytes() []byte { return b.all }

// Close implements io.Closer.
func (bufferedBody) Close() error { return nil }

// Do serves one request in process; it implements policy.Transporter. Its only error is that of the
// request's context.
func (e *Engine) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if ctxErr := r.Context().Err(); ctxErr != nil {
		return nil, ctxErr
	}
	resp := e.serve(r, body, err, origin{endpoint: "http://" + r.URL.Host + "/"})
	if resp == nil {
		return nil, context.Cause(r.Context())
	}
	h := make(http.Header, 14) // a map of the next size takes twice the memory
	resp.writeHeader(h, r, e.o.Clock())
	if len(resp.body) > 0 {
		h["Content-Length"] = []string{strconv.Itoa(len(resp.body))}
	}
	return &http.Response{
		Status:     statusLine(resp.status),
		StatusCode: resp.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        h,
		Body:          bufferedBody{bytes.NewReader(resp.body), resp.body},
		ContentLength: int64(len(resp.body)),
		Request:       r,
	}, nil
}

// ServeHTTP serves one request from the network. Like the service's routing gateway, it refuses ids
// that clients and servers decode differently in a URL; ComputeGateway does not.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.serveHTTP(w, r, false) }

// ComputeGateway returns a handler of the same account that accepts every id, like the service's
// compute gateway.
func (e *Engine) ComputeGateway() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serveHTTP(w, r, true) })
}

func (e *Engine) serveHTTP(w http.ResponseWriter, r *http.Request, compute bool) {
	body, err := readBody(r)
	resp := e.serve(r, body, err, origin{endpoint: endpointOf(r), compute: compute})
	if resp == nil { // returning would send an empty 200
		panic(http.ErrAbortHandler)
	}
	h := make(http.Header, 14)
	resp.writeHeader(h, r, e.o.Clock())
	for name, values := range h {
		w.Header()[wireName(name)] = values
	}
	w.WriteHeader(resp.status)
	if len(resp.body) > 0 {
		w.Write(resp.body) // an error means that the client is gone
	}
}

// wireName returns the name of a response header as the service writes it over HTTP/1.1: the protocol's own in
// lower case, in which some SDKs look them up, and those that net/http knows as HTTP does.
func wireName(canonical string) string {
	if canonical == "Date" || canonical == "Content-Type" {
		return canonical
	}
	return strings.ToLower(canonical)
}

// endpointOf returns the account's endpoint as the client sees it: the host of the request, but
// 127.0.0.1 for localhost, as in Microsoft's emulator.
func endpointOf(r *http.Request) string {
	scheme, host := "http://", r.Host
	if r.TLS != nil {
		scheme = "https://"
	}
	if port, ok := strings.CutPrefix(host, "localhost:"); ok {
		host = "127.0.0.1:" + port
	}
	return scheme + host + "/"
}

func statusLine(code int) string {
	if code == http.StatusOK {
		return "200 OK"
	}
	return strconv.Itoa(code) + " " + http.StatusText(code)
}

// readBody reads a request's body. Its error is an apiError.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	if r.ContentLength > maxRequestBytes {
		return nil, apierror.TooLarge()
	}
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	}
	if err != nil {
		return nil, apierror.BadRequest("The body of the request could not be read.")
	}
	if len(body) > maxRequestBytes {
		return nil, apierror.TooLarge()
	}
	return body, nil
}

// serve runs one request. bodyErr is the error of reading its body. It returns nil only if the
// request's context has ended and nothing was changed.
func (e *Engine) serve(r *http.Request, body []byte, bodyErr error, from origin) (resp *response) {
	defer func() {
		if p := recover(); p != nil {
			e.o.Logger.Error("request panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack",
				string(debug.Stack()))
			resp = errorResponse(apierror.Unavailable("The engine could not complete the request."))
		}
	}()
	e.life.RLock()
	defer e.life.RUnlock()
	if e.closed {
		return errorResponse(apierror.Unavailable("The engine is closed."))
	}
	resp, err := e.route(r, body, bodyErr, from)
	if err == nil {
		e.pay(resp)
		return resp
	}
	var api *apierror.Error
	switch {
	case errors.As(err, &api):
		out := errorResponse(api)
		if resp != nil { // partition and session of the failed operation
			out.container, out.partition, out.session, out.lsn = resp.container, resp.partition, resp.session, resp.lsn
			out.payers = resp.payers
			e.pay(out)
		}
		return out
	case r.Context().Err() != nil:
		return nil
	}
	e.o.Logger.Error("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	return errorResponse(apierror.Unavailable("The engine could not complete the request."))
}

func errorResponse(err *apierror.Error) *response {
	resp := &response{status: err.Status, body: err.Body(), charge: err.Charge, substatus: err.Substatus}
	if err.Wait > 0 {
		resp.extra = []string{"X-Ms-Retry-After-Ms", strconv.FormatInt(err.Wait.Milliseconds(), 10)}
	}
	return resp
}

// Headers of every response. The slices are shared, without spare capacity, so that append copies
// them.
var (
	jsonContentType = []string{"application/json"}
	serviceVersion  = []string{"version=2.14.0.0"}
	gatewayVersion  = []string{"2.0.0"}
	schemaVersion   = []string{"1.19"}
)

func (resp *response) writeHeader(h http.Header, r *http.Request, now time.Time) {
	values := make([]string, 0, 13) // one allocation for all
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Date", now.UTC().Format(http.TimeFormat))
	if len(resp.body) > 0 {
		h["Content-Type"] = jsonContentType
	}
	h["X-Ms-Serviceversion"] = serviceVersion
	h["X-Ms-Gatewayversion"] = gatewayVersion
	h["X-Ms-Schemaversion"] = schemaVersion
	if id := r.Header["X-Ms-Activity-Id"]; len(id) == 1 {
		set("X-Ms-Activity-Id", id[0])
	} else {
		set("X-Ms-Activity-Id", newActivityID())
	}
	set("X-Ms-Request-Charge", charge.Format(resp.charge))
	if resp.etag != "" {
		set("Etag", resp.etag)
	}
	if resp.session != "" {
		set("X-Ms-Session-Token", resp.session)
		set("Lsn", strconv.FormatUint(resp.lsn, 10))
	}
	if resp.partition != nil {
		set("X-Ms-Documentdb-Partitionkeyrangeid", resp.partition.ID())
	}
	if c := resp.container; c != nil {
		set("X-Ms-Alt-Content-Path", c.altPath)
		set("X-Ms-Content-Path", c.rid)
	}
	if resp.counted {
		set("X-Ms-Item-Count", strconv.Itoa(resp.items))
	}
	if resp.continuation != "" {
		set("X-Ms-Continuation", resp.continuation)
	}
	if resp.substatus != 0 {
		set("X-Ms-Substatus", strconv.Itoa(resp.substatus))
	}
	if resp.status == http.StatusRequestEntityTooLarge {
		set("X-Ms-Cosmos-Max-Content-Length", strconv.Itoa(maxItemBytes))
	}
	for i := 0; i+1 < len(resp.extra); i += 2 {
		set(resp.extra[i], resp.extra[i+1])
	}
}

func newActivityID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	s := hex.EncodeToString(b[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}
