package graph

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/store"
)

const maxBody = 1 << 20 // bytes

// The media types of answers.
const (
	mediaJSON     = "application/json"
	mediaResponse = "application/graphql-response+json"
)

// httpTransport is GraphQL over HTTP: GET for queries, POST for queries and
// mutations, one answer for each request.
//
// What is wrong with the HTTP request itself has its 4xx status whatever the client
// accepts. An operation that is refused before it executes is answered without
// data: 200 as application/json, and 4xx or 5xx as application/graphql-response+json,
// so that clients of the former find the error's code in the body rather than an
// opaque status. Once an operation executes, the status is 200.
type httpTransport struct{ verifier Verifier }

var _ graphql.Transport = httpTransport{}

// Supports implements graphql.Transport: everything that does not upgrade.
func (httpTransport) Supports(r *http.Request) bool { return r.Header.Get("Upgrade") == "" }

// Do implements graphql.Transport.
func (t httpTransport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	h := w.Header()
	media, acceptable := begin(h, r)

	var response *graphql.Response
	var err error
	if acceptable {
		response, err = t.execute(w, r, exec)
	} else {
		err = &httpError{status: http.StatusNotAcceptable, err: refuse("", "the answer is %s or %s, and the Accept header wants neither", mediaResponse, mediaJSON)}
	}
	status := http.StatusOK
	var refused *httpError
	switch {
	case err != nil:
		if errors.As(err, &refused) {
			status, err = refused.status, refused.err
			if refused.allow != "" {
				h.Set("Allow", refused.allow)
			}
		}
		var list gqlerror.List
		if !errors.As(err, &list) {
			list = gqlerror.List{gqlerror.Wrap(err)}
		}
		response = exec.DispatchError(r.Context(), list)
		fallthrough
	case response.Data == nil:
		code := codeOf(response)
		if code == unauthenticated {
			h.Set("WWW-Authenticate", "Bearer")
		}
		if refused == nil && media == mediaResponse {
			status = code.status()
		}
	}
	write(w, status, response)
}

// begin sets the headers that every answer has.
func begin(h http.Header, r *http.Request) (media string, acceptable bool) {
	media, acceptable = negotiate(r.Header.Values("Accept"))
	h.Set("Content-Type", media+"; charset=utf-8")
	h.Set("Vary", "Accept, Authorization")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
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

// execute reads the operation and executes it. An error means that it did not
// come to that.
func (t httpTransport) execute(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) (*graphql.Response, error) {
	ctx := r.Context()
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return nil, &httpError{status: http.StatusMethodNotAllowed, allow: "GET, POST", err: refuse("", "use GET or POST")}
	}
	if err := authenticate(ctx, r.Header, t.verifier); err != nil {
		return nil, err
	}
	params := &graphql.RawParams{Headers: r.Header, ReadTime: graphql.TraceTiming{Start: graphql.Now()}}
	read := readPost
	if r.Method == http.MethodGet {
		read = readGet
	}
	if err := read(w, r, params); err != nil {
		return nil, err
	}
	if params.Query == "" {
		return nil, badRequest("query", "query is missing")
	}
	for name, value := range params.Variables {
		params.Variables[name] = plainNumbers(value)
	}
	params.ReadTime.End = graphql.Now()

	op, errs := exec.CreateOperationContext(ctx, params)
	if op.Operation != nil && op.Operation.Operation != ast.Query && r.Method == http.MethodGet {
		return nil, &httpError{status: http.StatusMethodNotAllowed, allow: "POST", err: refuse("", "GET is for queries: use POST for a %s", op.Operation.Operation)}
	}
	if errs != nil {
		return nil, errs[:min(len(errs), maxErrors)]
	}
	next, ctx := exec.DispatchOperation(ctx, op)
	response := next(ctx)
	if response == nil { // the executor does not begin once the context has ended
		return nil, &store.Error{Code: store.Canceled, Op: "execute", Err: context.Cause(ctx)}
	}
	return response, nil
}

// readGet reads an operation from the URL.
func readGet(_ http.ResponseWriter, r *http.Request, params *graphql.RawParams) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("", "the query string of the URL is malformed")
	}
	params.Query, params.OperationName = q.Get("query"), q.Get("operationName")
	for _, field := range []struct {
		name string
		into *map[string]any
	}{{"variables", &params.Variables}, {"extensions", &params.Extensions}} {
		if text := q.Get(field.name); text != "" {
			if err := decode(strings.NewReader(text), field.into); err != nil {
				return badRequest(field.name, "%s must be a JSON object", field.name)
			}
		}
	}
	return nil
}

// readPost reads an operation from the body.
func readPost(w http.ResponseWriter, r *http.Request, params *graphql.RawParams) error {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := parameters["charset"]; err != nil || media != mediaJSON || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return &httpError{status: http.StatusUnsupportedMediaType, err: refuse("", "the Content-Type must be %s, in UTF-8", mediaJSON)}
	}
	if r.ContentLength > maxBody {
		return tooLarge()
	}
	body := struct {
		Query         *string         `json:"query"`
		OperationName *string         `json:"operationName"`
		Variables     *map[string]any `json:"variables"`
		Extensions    *map[string]any `json:"extensions"`
	}{&params.Query, &params.OperationName, &params.Variables, &params.Extensions}
	err = decode(http.MaxBytesReader(w, r.Body, maxBody), &body)
	var wrongType *json.UnmarshalTypeError
	var overflow *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &overflow):
		return tooLarge()
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return badRequest(wrongType.Field, "%s has the wrong type", wrongType.Field)
	default:
		return badRequest("", "the body must be a JSON object with a query, and nothing after it")
	}
}

func tooLarge() error {
	return &httpError{status: http.StatusRequestEntityTooLarge, err: refuse("", "the body may have at most %d bytes", maxBody)}
}

// decode reads one JSON value, and makes sure that nothing follows it.
func decode(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	switch _, err := d.Token(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	return errors.New("more than one JSON value")
}

// plainNumbers replaces json.Number, which the executor would take for a String, by
// int64, or float64 for what is no such integer.
func plainNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return value
}

// negotiate chooses the media type of the answer: what the client likes best, and
// of equals what it names first. Without an Accept header, and where a wildcard
// leaves the choice, it is application/json. The second result is false if the
// client wants neither.
func negotiate(accept []string) (media string, acceptable bool) {
	best := 0.0
	for _, item := range strings.Split(strings.Join(accept, ","), ",") {
		name, parameters, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		switch name {
		case mediaJSON, mediaResponse:
		case "*/*", "application/*":
			name = mediaJSON
		default:
			continue
		}
		quality := 1.0
		if q, ok := parameters["q"]; ok {
			quality, _ = strconv.ParseFloat(q, 64)
		}
		if quality > best {
			media, best = name, quality
		}
	}
	if media == "" {
		return mediaJSON, strings.TrimSpace(strings.Join(accept, "")) == ""
	}
	return media, true
}

// codeOf is the code of an answer's first error.
func codeOf(response *graphql.Response) errorCode {
	if len(response.Errors) == 0 {
		return internal
	}
	code, _ := response.Errors[0].Extensions["code"].(string)
	return errorCode(code)
}

// write sends the answer. Data is JSON already and goes out as it is; a nil Data
// means that there is none, and then the answer has no such entry.
func write(w http.ResponseWriter, status int, response *graphql.Response) {
	var before, after []byte
	if len(response.Errors) > 0 {
		before = appendJSON([]byte(`"errors":`), response.Errors)
		if response.Data != nil {
			before = append(before, ',')
		}
	}
	if response.Data != nil {
		before = append(before, `"data":`...)
	}
	if len(response.Extensions) > 0 {
		after = appendJSON([]byte(`,"extensions":`), response.Extensions)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len("{}\n")+len(before)+len(response.Data)+len(after)))
	w.WriteHeader(status)
	for _, part := range [][]byte{[]byte("{"), before, response.Data, after, []byte("}\n")} {
		_, _ = w.Write(part) // nobody is left to tell
	}
}

func appendJSON(b []byte, v any) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err) // errors and extensions are made here, of types that JSON knows
	}
	return append(b, encoded...)
}
