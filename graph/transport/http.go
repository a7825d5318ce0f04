package transport

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/document"
	"byline/graph/limit"
	"byline/store/blog"
	"byline/store/cosmos/itemcache"
)

// The media types of responses.
const (
	mediaJSON     = "application/json"
	mediaResponse = "application/graphql-response+json"
	mediaEvents   = "text/event-stream"
)

// httpTransport is GraphQL over HTTP: GET for queries, POST for queries and
// mutations, one response for each request; and all operations as event streams, see
// serveEvents.
//
// An invalid HTTP request gets its 4xx status whatever the client accepts. An
// operation that is refused before it executes gets a response without
// data: 200 as application/json, and 4xx or 5xx as application/graphql-response+json,
// so that clients of the former find the error's code in the body rather than an
// opaque status. Once an operation executes, the status is 200.
type httpTransport struct {
	*transport
	cache *responseCache
}

// Do serves a request.
func (t httpTransport) Do(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if wantsEvents(r) {
		t.serveEvents(w, r.WithContext(graphql.StartOperationTrace(r.Context())))
		return
	}
	media, acceptable := prepare(h, r)
	if !acceptable {
		t.writeError(w, r, media, &httpError{status: http.StatusNotAcceptable,
			err: invalidRequest("the Accept header must allow %s or %s", mediaResponse, mediaJSON)})
		return
	}
	in, err := t.receive(w, r)
	if err != nil {
		t.writeError(w, r, media, err)
		return
	}
	defer in.release()
	caller := RequestOf(r.Context())
	defer caller.sent()
	if cached := t.cache.get(r, in); cached != nil {
		if err := caller.reserve(t.memory, ast.Query); err != nil {
			t.writeError(w, r, media, err)
		} else if t.writeCached(w, r, media, cached) {
			t.cache.hit(r.Context(), cached.operation, cached.predicted)
		}
		return
	}
	response, err := t.execute(r, in)
	if err != nil {
		t.writeError(w, r, media, err)
		return
	}
	if token := caller.Session.Token(); token != "" {
		h.Set(sessionHeader, token)
	}
	if cached := t.cache.add(r, in, response); cached == nil {
		writeResponse(w, r, media, response)
	} else {
		t.writeCached(w, r, media, cached)
	}
}

// writeCached takes the memory of a response into that of a cached one, which it sends. It refuses the request and
// returns false if there is not enough.
func (t httpTransport) writeCached(w http.ResponseWriter, r *http.Request, media string, cached *cachedResponse) bool {
	body := t.cache.encoded(cached, r)
	if err := RequestOf(r.Context()).share(&body.held, cap(body.bytes)); err != nil {
		t.writeError(w, r, media, err)
		return false
	}
	cached.write(w, r, body)
	return true
}

// requestBody is the text of a request.
type requestBody struct {
	text    string // the body of a POST, or the query string of a GET, with its question mark
	release func() // to be called when the text is no longer needed
}

// receive authenticates the viewer, opens the session, and reads the request.
func (t httpTransport) receive(w http.ResponseWriter, r *http.Request) (in requestBody, err error) {
	ctx := r.Context()
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return in, &httpError{status: http.StatusMethodNotAllowed, allow: "GET, POST",
			err: invalidRequest("use GET or POST")}
	}
	if err := t.requests.AdmitAddress(RequestOf(ctx).address); err != nil {
		return in, err
	}
	if err := t.signIn(ctx, RequestOf(ctx), r.Header); err != nil {
		return in, err
	}
	if err := t.requests.AdmitViewer(RequestOf(ctx).viewer); err != nil {
		return in, err
	}
	session, err := openSession(r.Header, t.store)
	if err != nil {
		return in, &httpError{status: http.StatusBadRequest, err: err}
	}
	RequestOf(ctx).Session = session
	if r.Method == http.MethodGet {
		return requestBody{"?" + r.URL.RawQuery, func() {}}, nil
	}
	body, done, err := readBody(t.bodies, w, r)
	return requestBody{string(body), done}, err
}

// execute parses and executes the operation. An error means that it was not executed.
func (t httpTransport) execute(r *http.Request, in requestBody) (*graphql.Response, error) {
	ctx := graphql.StartOperationTrace(r.Context())
	op, releaseSlot, err := t.operation(r.WithContext(ctx), in)
	if err != nil {
		return nil, err
	}
	switch op.Operation.Operation {
	case ast.Subscription:
		releaseSlot()
		return nil, &httpError{status: http.StatusNotAcceptable,
			err: invalidRequest("subscribe over WebSocket, or with %s as the first media type in the Accept header",
				mediaEvents)}
	case ast.Query:
		caller := RequestOf(ctx)
		caller.readSet = &itemcache.ReadSet{}
		caller.operation = strings.Clone(op.Operation.Name) // does not retain the document
	}
	all := t.dispatch(ctx, op, releaseSlot)
	response := all.next(all.ctx)
	if response == nil { // the executor does not begin once the context has ended
		return nil, &blog.Error{Code: blog.Canceled, Op: "execute", Err: context.Cause(ctx)}
	}
	return response, nil
}

// operation acquires a slot, and parses and validates the operation. Unless it returns an error, the
// caller calls releaseSlot.
func (t httpTransport) operation(
	r *http.Request, in requestBody,
) (_ *graphql.OperationContext, releaseSlot func(), err error) {
	ctx := r.Context()
	err = t.admission.Acquire(ctx)
	switch {
	case errors.Is(err, limit.ErrOverloaded):
		return nil, nil, &httpError{status: http.StatusServiceUnavailable, err: err}
	case err != nil:
		return nil, nil, err
	}
	defer func() {
		if releaseSlot == nil { // an error, or a panic
			t.admission.Release()
		}
	}()
	params := &graphql.RawParams{Headers: r.Header, ReadTime: graphql.TraceTiming{Start: graphql.Now()}}
	if r.Method == http.MethodGet {
		err = readGet(r, params)
	} else {
		err = readPost(in.text, params)
	}
	if err != nil {
		return nil, nil, err
	}
	if !document.Present(params) {
		return nil, nil, badRequest("query", blog.ReasonBlank, "is missing")
	}
	params.ReadTime.End = graphql.Now()
	caller := RequestOf(ctx)
	caller.size, caller.registers = len(in.text), params.Query != "" && params.Extensions[document.PersistedKey] != nil

	op, errs := t.prepareOperation(ctx, params)
	if op.Operation != nil && op.Operation.Operation == ast.Mutation && r.Method == http.MethodGet {
		return nil, nil, &httpError{status: http.StatusMethodNotAllowed, allow: "POST",
			err: invalidRequest("GET is for queries only: use POST for a mutation")}
	}
	if errs != nil {
		return nil, nil, errs
	}
	return op, t.admission.Release, nil
}

// readBody reads the body of a POST, which may be compressed with gzip. The caller calls release when it no
// longer needs the body.
func readBody(bodies limit.Bodies, w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, nil, &httpError{status: http.StatusUnsupportedMediaType,
			err: invalidRequest("the Content-Type must be %s, in UTF-8", mediaJSON)}
	}
	zipped, ok := isZipped(r.Header.Values("Content-Encoding"))
	if !ok {
		w.Header().Set("Accept-Encoding", "gzip") // RFC 9110, section 12.5.3
		return nil, nil, &httpError{status: http.StatusUnsupportedMediaType,
			err: invalidRequest("the Content-Encoding must be gzip or identity")}
	}
	if body, release, err = receiveBody(bodies, w, r); err != nil || !zipped {
		return body, release, err
	}
	defer release()
	return unzip(bodies, w, body)
}

// isZipped reports whether a body with the Content-Encoding is compressed with gzip; ok is false for other
// encodings and for several.
func isZipped(encoding []string) (zipped, ok bool) {
	switch strings.ToLower(strings.Join(encoding, ",")) {
	case "", "identity":
		return false, true
	case "gzip", "x-gzip":
		return true, true
	}
	return false, false
}

// unzip decompresses a body that has arrived, so that no slow client holds a decompressor. The limits are
// those of a body that is not compressed.
func unzip(bodies limit.Bodies, w http.ResponseWriter, zipped []byte) (body []byte, release func(), err error) {
	in, err := gzip.NewReader(bytes.NewReader(zipped))
	if err == nil {
		body, release, err = bodies.ReadAll(http.MaxBytesReader(w, io.NopCloser(in), limit.MaxBody), -1)
	}
	switch {
	case err == nil:
		return body, release, nil
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, nil, tooLarge()
	case errors.Is(err, limit.ErrTooManyBodies):
		return nil, nil, &httpError{status: http.StatusServiceUnavailable, err: err}
	}
	return nil, nil, badRequest("", blog.ReasonRequest, "the request body is not valid gzip")
}

// receiveBody reads the body as it arrives.
func receiveBody(bodies limit.Bodies, w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	if r.ContentLength > limit.MaxBody {
		return nil, nil, tooLarge()
	}
	in := r.Body
	if r.ContentLength < 0 { // otherwise net/http reads no more than that
		in = http.MaxBytesReader(w, in, limit.MaxBody)
	}
	body, release, err = bodies.ReadAll(in, r.ContentLength)
	switch {
	case err == nil:
		return body, release, nil
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, nil, tooLarge()
	case errors.Is(err, limit.ErrTooManyBodies):
		w.Header().Set("Connection", "close") // rather than read the rest of the body
		return nil, nil, &httpError{status: http.StatusServiceUnavailable, err: err}
	case errors.Is(err, os.ErrDeadlineExceeded): // the server's
		return nil, nil, &httpError{status: http.StatusRequestTimeout,
			err: invalidRequest("the request body took too long to arrive")}
	}
	return nil, nil, badRequest("", blog.ReasonRequest, "the body did not arrive")
}

// isJSON reports whether a Content-Type is that of JSON in UTF-8.
func isJSON(contentType string) bool {
	if contentType == mediaJSON {
		return true
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	return err == nil && media == mediaJSON && (charset == "" || charset == "utf-8" || charset == "utf8")
}

func tooLarge() error {
	return &httpError{status: http.StatusRequestEntityTooLarge,
		err: invalidRequest("the request body must have at most %d bytes", limit.MaxBody)}
}

// readGet reads an operation from the URL.
func readGet(r *http.Request, params *graphql.RawParams) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("", blog.ReasonRequest, "the query string of the URL is malformed")
	}
	// A document that is cached must not retain the URL.
	params.Query, params.OperationName = strings.Clone(q.Get("query")), q.Get("operationName")
	if !utf8.ValidString(params.Query) || !utf8.ValidString(params.OperationName) {
		return badRequest("", blog.ReasonRequest, "the query string of the URL is not valid UTF-8")
	}
	for _, field := range []struct {
		name string
		into *map[string]any
	}{{"variables", &params.Variables}, {"extensions", &params.Extensions}} {
		if text := q.Get(field.name); text != "" {
			switch err := document.Decode(text, (*document.Object)(field.into)); {
			case errors.Is(err, document.ErrUnpairedSurrogate):
				return &httpError{status: http.StatusBadRequest, err: document.ErrUnpairedSurrogate}
			case err != nil:
				return badRequest(field.name, blog.ReasonType, "must be a JSON object")
			}
		}
	}
	document.SetID(params, cmp.Or(q.Get("documentId"), q.Get("doc_id")))
	return nil
}

// readPost reads an operation from the body.
func readPost(body string, params *graphql.RawParams) error {
	err := document.ReadParams(body, params)
	var wrongType *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, document.ErrUnpairedSurrogate):
		return &httpError{status: http.StatusBadRequest, err: err}
	case errors.As(err, &wrongType) && wrongType.JSONPointer != "":
		field := string(wrongType.JSONPointer[1:]) // a member of the body: values in variables have any type
		return badRequest(field, blog.ReasonType, "has the wrong type")
	}
	if strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "[") {
		return badRequest("", blog.ReasonRequest, "batches (a list of operations) are not supported: send one operation per request")
	}
	return badRequest("", blog.ReasonRequest, "the request body must be one JSON object in UTF-8 with a query")
}
