package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/store"
	"byline/store/cosmos"
)

// The media types of answers.
const (
	mediaJSON     = "application/json"
	mediaResponse = "application/graphql-response+json"
	mediaEvents   = "text/event-stream"
)

// httpTransport is GraphQL over HTTP: GET for queries, POST for queries and
// mutations, one answer for each request; and all operations as event streams, see
// serveEvents.
//
// What is wrong with the HTTP request itself has its 4xx status whatever the client
// accepts. An operation that is refused before it executes is answered without
// data: 200 as application/json, and 4xx or 5xx as application/graphql-response+json,
// so that clients of the former find the error's code in the body rather than an
// opaque status. Once an operation executes, the status is 200.
type httpTransport struct {
	store     *store.Store
	verifier  Verifier
	streams   context.Context // event streams end when it does
	rates     rates
	bodies    *bodies
	admission *admission
	answers   *answers
}

// Do answers a request.
func (t httpTransport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	h := w.Header()
	if wantsEvents(r) {
		t.serveEvents(w, r.WithContext(graphql.StartOperationTrace(r.Context())), exec)
		return
	}
	media, acceptable := prepare(h, r)
	if !acceptable {
		writeError(w, r, exec, media, &httpError{status: http.StatusNotAcceptable,
			err: refuse("", "the Accept header must allow %s or %s", mediaResponse, mediaJSON)})
		return
	}
	in, err := t.receive(w, r)
	if err != nil {
		writeError(w, r, exec, media, err)
		return
	}
	defer in.done()
	if a := t.answers.recall(r, in); a != nil {
		if taken, ok := t.hold(w, r, exec, media, len(a.body), false); ok {
			defer taken()
			t.answers.observe(r, a)
			a.write(w, r)
		}
		return
	}
	response, err := t.execute(r, exec, in)
	if err != nil {
		writeError(w, r, exec, media, err)
		return
	}
	asker := requestFrom(r.Context())
	taken, ok := t.hold(w, r, exec, media, len(response.Data), asker.readSet == nil)
	if !ok {
		return
	}
	defer taken()
	if token := asker.session.Token(); token != "" {
		h.Set(sessionHeader, token)
	}
	if a := t.answers.keep(r, in, response); a != nil {
		a.write(w, r)
		return
	}
	writeResponse(w, media, response)
}

// hold makes room for an answer that is about to be given. If there is none it says so.
func (t httpTransport) hold(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, media string, size int, mutation bool) (taken func(), ok bool) {
	taken, err := t.bodies.holdAnswer(requestFrom(r.Context()), size, mutation)
	if err != nil {
		writeError(w, r, exec, media, &httpError{status: http.StatusServiceUnavailable, err: err})
	}
	return taken, err == nil
}

// writeError answers with an error that came before execution.
func writeError(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, media string, err error) {
	var refused *httpError
	if errors.As(err, &refused) {
		err = refused.err
	}
	response := dispatchError(r.Context(), exec, err)
	if refused == nil {
		writeResponse(w, media, response)
		return
	}
	if refused.allow != "" {
		w.Header().Set("Allow", refused.allow)
	}
	write(w, refused.status, response)
}

// writeResponse answers with a response, under the status that the media type has
// for it.
func writeResponse(w http.ResponseWriter, media string, response *graphql.Response) {
	status := http.StatusOK
	if response.Data == nil {
		code := codeOf(response)
		if code == unauthenticated {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		if media == mediaResponse {
			status = code.status()
		}
	}
	write(w, status, response)
}

// vary is what answers differ by beside the URL.
const vary = "Accept, Authorization, " + sessionHeader + ", " + costHeader

// Values of headers, which all answers share. Nobody changes them.
var (
	contentTypes = map[string][]string{mediaJSON: {mediaJSON + "; charset=utf-8"}, mediaResponse: {mediaResponse + "; charset=utf-8"}}
	noStore      = []string{"no-store"}
)

// prepare sets the headers that every answer has.
func prepare(h http.Header, r *http.Request) (media string, acceptable bool) {
	media, acceptable = negotiate(r.Header.Values("Accept"))
	h["Content-Type"] = contentTypes[media]
	h["Vary"] = append(h["Vary"], vary) // to what CORS has said
	h["Cache-Control"] = noStore
	return media, acceptable
}

// httpError is something wrong with the HTTP request, whatever it asks for.
type httpError struct {
	status int
	allow  string // the methods, with 405
	err    error
}

func (e *httpError) Error() string { return e.err.Error() }

func badRequest(field, format string, args ...any) error {
	return &httpError{status: http.StatusBadRequest, err: refuse(field, format, args...)}
}

// received is what has arrived of a request that may be answered.
type received struct {
	text string // the body of a POST, or the query string of a GET, with its question mark
	done func() // to be called when nothing of it is needed any more
}

// receive signs the viewer in, opens their session, and takes the request in.
func (t httpTransport) receive(w http.ResponseWriter, r *http.Request) (in received, err error) {
	ctx := r.Context()
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return in, &httpError{status: http.StatusMethodNotAllowed, allow: "GET, POST", err: refuse("", "use GET or POST")}
	}
	if err := t.rates.admitAddress(ctx); err != nil {
		return in, err
	}
	if err := authenticate(ctx, r.Header, t.verifier); err != nil {
		return in, err
	}
	if err := t.rates.admitViewer(ctx); err != nil {
		return in, err
	}
	session, err := openSession(r.Header, t.store)
	if err != nil {
		return in, &httpError{status: http.StatusBadRequest, err: err}
	}
	requestFrom(ctx).session = session
	if r.Method == http.MethodGet {
		return received{"?" + r.URL.RawQuery, func() {}}, nil
	}
	body, done, err := t.bodies.read(w, r)
	return received{string(body), done}, err
}

// execute reads the operation and executes it. An error means that it did not
// come to that.
func (t httpTransport) execute(r *http.Request, exec graphql.GraphExecutor, in received) (*graphql.Response, error) {
	ctx := graphql.StartOperationTrace(r.Context())
	op, leave, err := t.operation(r.WithContext(ctx), exec, in)
	if err != nil {
		return nil, err
	}
	switch op.Operation.Operation {
	case ast.Subscription:
		leave()
		return nil, &httpError{status: http.StatusNotAcceptable, err: refuse("", "subscribe over WebSocket, or with %s as the first media type in the Accept header", mediaEvents)}
	case ast.Query:
		asker := requestFrom(ctx)
		asker.readSet, asker.operation = &cosmos.ReadSet{}, strings.Clone(op.Operation.Name) // which is part of the document
	}
	all := dispatch(ctx, exec, op, leave)
	response := all.next(all.ctx)
	if response == nil { // the executor does not begin once the context has ended
		return nil, &store.Error{Code: store.Canceled, Op: "execute", Err: context.Cause(ctx)}
	}
	return response, nil
}

// operation reads the operation, and waits for its turn to execute: leave gives that
// back.
func (t httpTransport) operation(r *http.Request, exec graphql.GraphExecutor, in received) (_ *graphql.OperationContext, leave func(), err error) {
	ctx := r.Context()
	err = t.admission.enter(ctx)
	switch {
	case errors.Is(err, errOverloaded):
		return nil, nil, &httpError{status: http.StatusServiceUnavailable, err: err}
	case err != nil:
		return nil, nil, err
	}
	defer func() {
		if leave == nil { // an error, or a panic
			t.admission.leave()
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
	if !hasDocument(params) {
		return nil, nil, badRequest("query", "query is missing")
	}
	params.ReadTime.End = graphql.Now()
	asker := requestFrom(ctx)
	asker.size, asker.registers = len(in.text), params.Query != "" && params.Extensions[persistedKey] != nil

	op, errs := prepareOperation(ctx, exec, params)
	if op.Operation != nil && op.Operation.Operation == ast.Mutation && r.Method == http.MethodGet {
		return nil, nil, &httpError{status: http.StatusMethodNotAllowed, allow: "POST", err: refuse("", "GET is for queries only: use POST for a %s", op.Operation.Operation)}
	}
	if errs != nil {
		return nil, nil, errs
	}
	return op, t.admission.leave, nil
}

// prepareOperation finds the operation that is asked for and checks it.
func prepareOperation(ctx context.Context, exec graphql.GraphExecutor, params *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	op, errs := exec.CreateOperationContext(ctx, params)
	if errs != nil && op.Operation != nil { // the executor reports the first invalid variable alone
		if all := variableErrors(inputTypes(), op.Operation, params.Variables); all != nil {
			return op, all
		}
	}
	if op.Doc == nil || op.Operation != nil || params.OperationName != "" {
		return op, errs
	}
	// The executor says that an operation without a name is not found.
	message := "the document has several operations: set operationName to the one to execute"
	if len(op.Doc.Operations) == 0 {
		message = "the document has no operation"
	}
	return op, gqlerror.List{gqlerror.Wrap(&refusal{code: validationFailed, message: message})}
}

// readGet reads an operation from the URL.
func readGet(r *http.Request, params *graphql.RawParams) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("", "the query string of the URL is malformed")
	}
	// The text may be part of the URL's, and be kept when the URL should be gone.
	params.Query, params.OperationName = strings.Clone(q.Get("query")), q.Get("operationName")
	if !utf8.ValidString(params.Query) || !utf8.ValidString(params.OperationName) {
		return badRequest("", "the query string of the URL is not valid UTF-8")
	}
	for _, field := range []struct {
		name string
		into *map[string]any
	}{{"variables", &params.Variables}, {"extensions", &params.Extensions}} {
		if text := q.Get(field.name); text != "" {
			switch err := decode(text, (*inputs)(field.into)); {
			case errors.Is(err, errHalfCharacter):
				return &httpError{status: http.StatusBadRequest, err: errHalfCharacter}
			case err != nil:
				return badRequest(field.name, "%s must be a JSON object", field.name)
			}
		}
	}
	nameDocument(params, cmp.Or(q.Get("documentId"), q.Get("doc_id")))
	return nil
}

// readPost reads an operation from the body.
func readPost(body string, params *graphql.RawParams) error {
	err := readParams(body, params)
	var wrongType *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHalfCharacter):
		return &httpError{status: http.StatusBadRequest, err: err}
	case errors.As(err, &wrongType) && wrongType.JSONPointer != "":
		field := string(wrongType.JSONPointer[1:]) // a member of the body: what is in inputs has any type
		return badRequest(field, "%s has the wrong type", field)
	}
	if strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "[") {
		return badRequest("", "batches (a list of operations) are not supported: send one operation per request")
	}
	return badRequest("", "the request body must be one JSON object in UTF-8 with a query")
}

// readParams reads an operation as JSON.
func readParams(text string, params *graphql.RawParams) error {
	var body struct {
		Query         string `json:"query"`
		OperationName string `json:"operationName"`
		Variables     inputs `json:"variables"`
		Extensions    inputs `json:"extensions"`
		DocumentID    string `json:"documentId"`
		DocID         string `json:"doc_id"` // Relay's name for it
	}
	if err := decode(text, &body); err != nil {
		return err
	}
	params.Query, params.OperationName, params.Variables, params.Extensions = body.Query, body.OperationName, body.Variables, body.Extensions
	nameDocument(params, cmp.Or(body.DocumentID, body.DocID))
	return nil
}

// decode reads one JSON value, and makes sure that nothing follows it. Of the members of
// one name the last counts: a decoder that knew of the others would remember all names.
func decode(text string, into any) error {
	if err := checkText(text); err != nil {
		return err
	}
	return jsonv2.Unmarshal([]byte(text), into, jsontext.AllowDuplicateNames(true))
}

// inputs are the members of a JSON object. A number is an int64, or a float64 if it is no
// such integer, at most the largest: the executor would take a json.Number for a String.
type inputs map[string]any

var errNoObject = errors.New("not a JSON object")

// UnmarshalJSONFrom implements jsonv2.UnmarshalerFrom.
func (i *inputs) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := readInput(d)
	if err != nil {
		return err
	}
	object, ok := value.(map[string]any)
	if value != nil && !ok {
		return errNoObject
	}
	*i = object
	return nil
}

func readInput(d *jsontext.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return n, nil
		}
		return t.Float(), nil
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			value, err := readInput(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := d.ReadToken()
		return list, err
	case '{':
		object := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // before the next token is read
			if object[key], err = readInput(d); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return object, err
	}
	return nil, nil
}

// negotiate chooses the media type of the answer: what the client likes best, and
// of equals what it names first. Without an Accept header, and where a wildcard
// leaves the choice, it is application/json. Of what names a type and what matches it
// by a wildcard, the former counts (RFC 9110, section 12.5.1). The second result is false
// if the client wants neither.
func negotiate(accept []string) (media string, acceptable bool) {
	if len(accept) == 0 {
		return mediaJSON, true
	}
	var json, response liking
	for i, item := range strings.Split(strings.Join(accept, ","), ",") {
		name, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		l := liking{quality: 1, place: i}
		if q, ok := parameters["q"]; ok {
			l.quality, _ = strconv.ParseFloat(q, 64)
		}
		switch name {
		case "*/*":
			l.precision = anything
			json.hear(l)
			response.hear(l)
		case "application/*":
			l.precision = likewise
			json.hear(l)
			response.hear(l)
		case mediaJSON:
			l.precision = named
			json.hear(l)
		case mediaResponse:
			l.precision = named
			response.hear(l)
		}
	}
	media = mediaJSON
	if response.quality > json.quality || response.quality == json.quality && response.precision == named && response.place < json.place {
		media = mediaResponse
	}
	return media, json.quality > 0 || response.quality > 0 || strings.TrimSpace(strings.Join(accept, "")) == ""
}

// liking is what a client says of a media type. The zero value is nothing.
type liking struct {
	quality   float64
	precision int // of the name that says so
	place     int // among all that it says
}

// Precisions of names.
const (
	anything = 1 + iota // */*
	likewise            // application/*
	named
)

// hear takes note of what the client says, unless it has been as precise.
func (l *liking) hear(said liking) {
	if said.precision > l.precision {
		*l = said
	}
}

// codeOf is the code of an answer's first error.
func codeOf(response *graphql.Response) errorCode {
	if len(response.Errors) == 0 {
		return internal
	}
	code, _ := response.Errors[0].Extensions["code"].(string)
	return errorCode(code)
}

// write sends the answer. Its header says when to come back if an error does.
func write(w http.ResponseWriter, status int, response *graphql.Response) {
	for _, err := range response.Errors {
		if ms, ok := err.Extensions["retryAfterMs"].(int64); ok {
			w.Header().Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10)) // whole seconds
			break
		}
	}
	writeBody(w, status, encode(response))
}

// encode returns the response as a line of JSON, in the memory of its data if there is
// room: who encodes a response has no further use for it.
func encode(response *graphql.Response) []byte {
	if response.Data != nil && len(response.Errors) == 0 && len(response.Extensions) == 0 {
		return append(slices.Insert([]byte(response.Data), 0, []byte(`{"data":`)...), "}\n"...)
	}
	return append(appendResponse(nil, response), '\n')
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody is left to tell
}

// appendResponse appends the response as JSON: errors, extensions and data, so that a
// reader finds the short entries before the long one. Data is JSON already; if it is nil,
// the response has no such entry.
func appendResponse(dst []byte, response *graphql.Response) []byte {
	start := len(dst)
	dst = slices.Grow(dst, len(response.Data)+len(`{"data":}`)+1)
	if len(response.Errors) > 0 {
		dst = appendJSON(append(dst, `,"errors":`...), response.Errors)
	}
	if len(response.Extensions) > 0 {
		dst = appendJSON(append(dst, `,"extensions":`...), response.Extensions)
	}
	if response.Data != nil {
		dst = append(append(dst, `,"data":`...), response.Data...)
	}
	if len(dst) == start {
		dst = append(dst, '{')
	} else {
		dst[start] = '{' // in place of the first comma
	}
	return append(dst, '}')
}

func appendJSON(b []byte, v any) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err) // errors and extensions are made here, of types that JSON knows
	}
	return append(b, encoded...)
}
