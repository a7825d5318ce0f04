package graph

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/document"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
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
	store     *store.Store
	verifier  auth.Verifier
	streams   context.Context // event streams end when it does
	requests  limit.Requests
	memory    *limit.Memory
	admission *limit.Admission
	cache     *responseCache
}

// Do serves a request.
func (t httpTransport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	h := w.Header()
	if wantsEvents(r) {
		t.serveEvents(w, r.WithContext(graphql.StartOperationTrace(r.Context())), exec)
		return
	}
	media, acceptable := prepare(h, r)
	if !acceptable {
		writeError(w, r, exec, media, &httpError{status: http.StatusNotAcceptable,
			err: refusal.Input("", "the Accept header must allow %s or %s", mediaResponse, mediaJSON)})
		return
	}
	in, err := t.receive(w, r)
	if err != nil {
		writeError(w, r, exec, media, err)
		return
	}
	defer in.release()
	if cached := t.cache.get(r, in); cached != nil {
		requestFrom(r.Context()).shared = &cached.held
		if release, ok := t.hold(w, r, exec, media, len(cached.body), false); ok {
			defer release()
			t.cache.observe(r, cached)
			cached.write(w, r)
		}
		return
	}
	response, err := t.execute(r, exec, in)
	if err != nil {
		writeError(w, r, exec, media, err)
		return
	}
	caller := requestFrom(r.Context())
	release, ok := t.hold(w, r, exec, media, len(response.Data), caller.readSet == nil)
	if !ok {
		return
	}
	defer release()
	if token := caller.session.Token(); token != "" {
		h.Set(sessionHeader, token)
	}
	if cached := t.cache.add(r, in, response); cached != nil {
		cached.write(w, r)
		return
	}
	writeResponse(w, media, response)
}

// hold reserves memory for a response, and refuses the request if there is not enough.
func (t httpTransport) hold(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, media string, size int, mutation bool) (release func(), ok bool) {
	release, err := requestFrom(r.Context()).hold(t.memory, size, mutation)
	if err != nil {
		writeError(w, r, exec, media, &httpError{status: http.StatusServiceUnavailable, err: err})
	}
	return release, err == nil
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
		return in, &httpError{status: http.StatusMethodNotAllowed, allow: "GET, POST", err: refusal.Input("", "use GET or POST")}
	}
	if err := t.requests.AdmitAddress(requestFrom(ctx).address); err != nil {
		return in, err
	}
	if err := requestFrom(ctx).authenticate(ctx, r.Header, t.verifier); err != nil {
		return in, err
	}
	if err := t.requests.AdmitViewer(requestFrom(ctx).viewer); err != nil {
		return in, err
	}
	session, err := openSession(r.Header, t.store)
	if err != nil {
		return in, &httpError{status: http.StatusBadRequest, err: err}
	}
	requestFrom(ctx).session = session
	if r.Method == http.MethodGet {
		return requestBody{"?" + r.URL.RawQuery, func() {}}, nil
	}
	body, done, err := readBody(t.memory, w, r)
	return requestBody{string(body), done}, err
}

// execute parses and executes the operation. An error means that it was not executed.
func (t httpTransport) execute(r *http.Request, exec graphql.GraphExecutor, in requestBody) (*graphql.Response, error) {
	ctx := graphql.StartOperationTrace(r.Context())
	op, releaseSlot, err := t.operation(r.WithContext(ctx), exec, in)
	if err != nil {
		return nil, err
	}
	switch op.Operation.Operation {
	case ast.Subscription:
		releaseSlot()
		return nil, &httpError{status: http.StatusNotAcceptable, err: refusal.Input("", "subscribe over WebSocket, or with %s as the first media type in the Accept header", mediaEvents)}
	case ast.Query:
		caller := requestFrom(ctx)
		caller.readSet, caller.operation = &cosmos.ReadSet{}, strings.Clone(op.Operation.Name) // does not retain the document
	}
	all := dispatch(ctx, exec, op, releaseSlot)
	response := all.next(all.ctx)
	if response == nil { // the executor does not begin once the context has ended
		return nil, &blog.Error{Code: blog.Canceled, Op: "execute", Err: context.Cause(ctx)}
	}
	return response, nil
}

// operation acquires a slot, and parses and validates the operation. Unless it returns an error, the
// caller calls releaseSlot.
func (t httpTransport) operation(r *http.Request, exec graphql.GraphExecutor, in requestBody) (_ *graphql.OperationContext, releaseSlot func(), err error) {
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
		return nil, nil, badRequest("query", "query is missing")
	}
	params.ReadTime.End = graphql.Now()
	caller := requestFrom(ctx)
	caller.size, caller.registers = len(in.text), params.Query != "" && params.Extensions[document.PersistedKey] != nil

	op, errs := prepareOperation(ctx, exec, params)
	if op.Operation != nil && op.Operation.Operation == ast.Mutation && r.Method == http.MethodGet {
		return nil, nil, &httpError{status: http.StatusMethodNotAllowed, allow: "POST", err: refusal.Input("", "GET is for queries only: use POST for a mutation")}
	}
	if errs != nil {
		return nil, nil, errs
	}
	return op, t.admission.Release, nil
}

// prepareOperation finds and validates the operation that a request names.
func prepareOperation(ctx context.Context, exec graphql.GraphExecutor, params *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	op, errs := exec.CreateOperationContext(ctx, params)
	if errs != nil && op.Operation != nil { // the executor reports the first invalid variable alone
		if all := document.VariableErrors(inputTypes(), op.Operation, params.Variables); all != nil {
			return op, all
		}
	}
	if op.Doc == nil || op.Operation != nil || params.OperationName != "" {
		return op, errs
	}
	// The executor's error would be that the operation is not found.
	message := "the document has several operations: set operationName to the one to execute"
	if len(op.Doc.Operations) == 0 {
		message = "the document has no operation"
	}
	return op, gqlerror.List{gqlerror.Wrap(&refusal.Error{Code: refusal.ValidationFailed, Message: message})}
}
