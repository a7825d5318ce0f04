package graph

import (
	"bytes"
	"cmp"
	"compress/gzip"
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

	"byline/graph/document"
	"byline/graph/limit"
	"byline/graph/refusal"
)

// readBody reads the body of a POST, which may be compressed with gzip. The caller calls release when it no
// longer needs the body.
func readBody(bodies limit.Bodies, w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, nil, &httpError{status: http.StatusUnsupportedMediaType, err: refusal.Input("", "the Content-Type must be %s, in UTF-8", mediaJSON)}
	}
	zipped, ok := isZipped(r.Header.Values("Content-Encoding"))
	if !ok {
		w.Header().Set("Accept-Encoding", "gzip") // RFC 9110, section 12.5.3
		return nil, nil, &httpError{status: http.StatusUnsupportedMediaType, err: refusal.Input("", "the Content-Encoding must be gzip or identity")}
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
	return nil, nil, badRequest("", "the request body is not valid gzip")
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
		return nil, nil, &httpError{status: http.StatusRequestTimeout, err: refusal.Input("", "the request body took too long to arrive")}
	}
	return nil, nil, badRequest("", "the body did not arrive")
}

// isJSON reports whether a Content-Type is that of JSON in UTF-8.
func isJSON(contentType string) bool {
	if contentType == mediaJSON {
		return true
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	charset := parameters["charset"]
	return err == nil && media == mediaJSON && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

func tooLarge() error {
	return &httpError{status: http.StatusRequestEntityTooLarge, err: refusal.Input("", "the request body must have at most %d bytes", limit.MaxBody)}
}

// readGet reads an operation from the URL.
func readGet(r *http.Request, params *graphql.RawParams) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badRequest("", "the query string of the URL is malformed")
	}
	// A document that is cached must not retain the URL.
	params.Query, params.OperationName = strings.Clone(q.Get("query")), q.Get("operationName")
	if !utf8.ValidString(params.Query) || !utf8.ValidString(params.OperationName) {
		return badRequest("", "the query string of the URL is not valid UTF-8")
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
				return badRequest(field.name, "%s must be a JSON object", field.name)
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
		return badRequest(field, "%s has the wrong type", field)
	}
	if strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "[") {
		return badRequest("", "batches (a list of operations) are not supported: send one operation per request")
	}
	return badRequest("", "the request body must be one JSON object in UTF-8 with a query")
}
