package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// gateway executes queries for anonymous readers, in this process.
type gateway struct {
	handler http.Handler // of the whole gateway
	path    string       // of GraphQL
}

// response is the response to a query, as an HTTP client would receive it.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }

// forwarded are the headers of a page's request that its queries have, too: by them the gateway finds the client's
// address, to limit it, and the id of the request.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Request-Id"}

// result is a successful response.
type result struct {
	tag  string // its entity tag: another response with this tag is the same; "" if it must not be cached
	age  string // its Cache-Control
	body []byte
}

// query executes the document with an id, for the client of a request.
func (g gateway) query(r *http.Request, id string, variables any) (result, error) {
	text, err := json.Marshal(variables)
	if err != nil {
		return result{}, err
	}
	q := url.Values{"documentId": {id}, "variables": {string(text)}}
	in := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: g.path, RawQuery: q.Encode()},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: r.Host, RemoteAddr: r.RemoteAddr,
		Header: http.Header{"Accept": {"application/graphql-response+json"}}}).WithContext(r.Context())
	for _, name := range forwarded {
		if values := r.Header[name]; values != nil {
			in.Header[name] = values
		}
	}
	out := &response{header: http.Header{}, status: http.StatusOK}
	g.handler.ServeHTTP(out, in)
	got := result{tag: out.header.Get("ETag"), age: out.header.Get("Cache-Control"), body: out.body.Bytes()}
	if got.tag != "" {
		return got, nil // only a response without errors has one
	}
	var of struct {
		Errors []struct {
			Message    string
			Extensions struct{ Code string }
		}
	}
	if err := json.Unmarshal(got.body, &of); err != nil {
		return got, fmt.Errorf("query %s: status %d: %w", id, out.status, err)
	}
	if len(of.Errors) > 0 {
		first := of.Errors[0]
		return got, &queryError{code: first.Extensions.Code, message: first.Message,
			retryAfter: out.header.Get("Retry-After")}
	}
	return got, nil
}

// data decodes the data of a response.
func (r result) data() (*data, error) {
	var of struct{ Data data }
	err := json.Unmarshal(r.body, &of)
	return &of.Data, err
}

// queryError is the first error of a response.
type queryError struct{ code, message, retryAfter string }

func (e *queryError) Error() string { return e.code + ": " + e.message }

// temporary reports whether the same query may succeed later.
func (e *queryError) temporary() bool {
	return e.code == "UNAVAILABLE" || e.code == "THROTTLED"
}
