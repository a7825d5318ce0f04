package graph

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"byline/store/cosmos/itemcache"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/document"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store/blog"
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
			err: refusal.Input("", "the Accept header must allow %s or %s", mediaResponse, mediaJSON)})
		return
	}
	in, err := t.receive(w, r)
	if err != nil {
		t.writeError(w, r, media, err)
		return
	}
	defer in.release()
	caller := requestFrom(r.Context())
	defer caller.sent()
	if cached := t.cache.get(r, in); cached != nil {
		if err := caller.reserve(t.budget, ast.Query); err != nil {
			t.writeError(w, r, media, err)
		} else if t.share(w, r, media, cached) {
			t.cache.observe(r, cached)
			cached.write(w, r)
		}
		return
	}
	response, err := t.execute(r, in)
	if err != nil {
		t.writeError(w, r, media, err)
		return
	}
	if token := caller.session.Token(); token != "" {
		h.Set(sessionHeader, token)
	}
	if cached := t.cache.add(r, in, response); cached == nil {
		writeResponse(w, r, media, response)
	} else if t.share(w, r, media, cached) {
		cached.write(w, r)
	}
}

// share takes the memory of a response into that of a cached one, and refuses the request if there is not
// enough.
func (t httpTransport) share(w http.ResponseWriter, r *http.Request, media string, cached *cachedResponse) bool {
	err := requestFrom(r.Context()).share(&cached.held, len(cached.body))
	if err != nil {
		t.writeError(w, r, media, err)
	}
	return err == nil
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
	if err := t.authenticate(ctx, requestFrom(ctx), r.Header); err != nil {
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
		return nil, &httpError{status: http.StatusNotAcceptable, err: refusal.Input("", "subscribe over WebSocket, or with %s as the first media type in the Accept header", mediaEvents)}
	case ast.Query:
		caller := requestFrom(ctx)
		caller.readSet, caller.operation = &itemcache.ReadSet{}, strings.Clone(op.Operation.Name) // does not retain the document
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
func (t httpTransport) operation(r *http.Request, in requestBody) (_ *graphql.OperationContext, releaseSlot func(), err error) {
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

	op, errs := t.prepareOperation(ctx, params)
	if op.Operation != nil && op.Operation.Operation == ast.Mutation && r.Method == http.MethodGet {
		return nil, nil, &httpError{status: http.StatusMethodNotAllowed, allow: "POST", err: refusal.Input("", "GET is for queries only: use POST for a mutation")}
	}
	if errs != nil {
		return nil, nil, errs
	}
	return op, t.admission.Release, nil
}
