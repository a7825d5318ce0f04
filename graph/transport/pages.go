package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
	"byline/graph/refusal"
)

// A page is rendered from responses to queries that are executed in this process. Its request counts once for the
// limits of its client, however many queries it has; they have the budgets of all queries.

// Admit begins a request of a page: it counts the request, and reserves memory for its response. The queries of the
// page are those of the request that it returns. The caller calls done once the response is sent. An error is a
// *QueryError.
func (h *Handler) Admit(w http.ResponseWriter, r *http.Request) (admitted *http.Request, done func(), err error) {
	client := limit.ClientKey(r, h.proxies)
	if isCrawler(r.UserAgent()) {
		client = crawlers
	}
	caller := newRequest(w, r, client)
	admitted = r.WithContext(caller.Begin(r.Context()))
	e := h.endpoint
	if err = e.admission.Shed(); err == nil {
		err = e.requests.AdmitAddress(client)
	}
	if err == nil {
		err = caller.reserve(e.memory, ast.Query)
	}
	if err != nil {
		return admitted, func() {}, e.refuse(admitted.Context(), err)
	}
	return admitted, caller.sent, nil
}

// crawlers is the client of all requests by crawlers: they share its limits, and execute one query at a time, so that
// readers do not wait for them.
const crawlers = "crawlers"

// isCrawler reports whether a User-Agent is that of a crawler, a feed reader, or a site that previews links: its name
// says so, or it has the address of a page about it, which browsers lack.
func isCrawler(agent string) bool {
	return slices.ContainsFunc([]string{"bot", "Bot", "crawl", "Crawl", "spider", "Spider", "+http"},
		func(mark string) bool { return strings.Contains(agent, mark) })
}

// crawlerWait is how long the query of a crawler waits for those of others.
const crawlerWait = 10 * time.Second

// Response is the response to a query without errors.
type Response struct {
	endpoint *endpoint
	cached   *cachedResponse
}

// Bytes returns the memory of the response.
func (r *Response) Bytes() int { return r.cached.body.Bytes() + r.cached.readSet.Bytes() }

// Body returns the response as JSON. The caller does not change it.
func (r *Response) Body() []byte { return r.cached.body.plain.bytes }

// Tag returns the entity tag: responses with the same tag are the same.
func (r *Response) Tag() string { return r.cached.tag }

// MaxAge returns for how long HTTP caches may serve what is made of the response, if it is current.
func (r *Response) MaxAge() time.Duration { return r.cached.maxAge() }

// Current reports whether the query would return the same response now, without a read. It counts as a cache hit.
func (r *Response) Current() bool {
	return r.endpoint.store.DeletionsKnown() && r.cached.readSet.Valid(r.endpoint.store.NewSession(""))
}

// QueryError is why there is no Response, or not the page of a request.
type QueryError struct {
	Code       refusal.Code
	Field      string // an argument; "": none
	Message    string
	RetryAfter string // seconds, as in the header; "" is not known
}

func (e *QueryError) Error() string { return string(e.Code) + ": " + e.Message }

// Query executes the query with an id for the client of an admitted request, who is anonymous. A refusal is a
// *QueryError. The memory of the response counts as that of the page, until it is sent.
func (h *Handler) Query(r *http.Request, id string, variables any) (*Response, error) {
	text, err := json.Marshal(variables)
	if err != nil {
		return nil, err
	}
	page, e := RequestOf(r.Context()), h.endpoint
	caller := &Request{ID: page.ID, address: page.address, Session: e.store.NewSession("")}
	q := url.Values{"documentId": {id}, "variables": {string(text)}}.Encode()
	r = (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: Path, RawQuery: q}, Header: http.Header{}}).
		WithContext(caller.Begin(r.Context()))
	defer caller.sent()
	in := requestBody{text: "?" + q}
	if cached := e.http.cache.get(r, in); cached != nil {
		e.http.cache.hit(r.Context(), cached.operation, cached.predicted)
		return e.respond(page, cached)
	}
	if caller.address == crawlers {
		ctx, cancel := context.WithTimeout(r.Context(), crawlerWait)
		defer cancel()
		release, err := h.crawlers.Acquire(ctx, crawlers)
		if err != nil {
			return nil, e.refuse(r.Context(), limit.ErrOverloaded)
		}
		defer release()
	}
	return guarded(r.Context(), e.recover, func() (*Response, error) {
		response, err := e.http.execute(r, in)
		if err != nil {
			return nil, e.refuse(r.Context(), err)
		}
		cached := e.http.cache.add(r, in, response)
		if cached == nil {
			return nil, newQueryError(response)
		}
		return e.respond(page, cached)
	})
}

// respond returns a response to the query of a page.
func (e *endpoint) respond(page *Request, cached *cachedResponse) (*Response, error) {
	if err := page.Memory.Grow(len(cached.body.plain.bytes)); err != nil {
		return nil, &QueryError{Code: refusal.Unavailable, Message: err.Error()}
	}
	return &Response{e, cached}, nil
}

// refuse returns the error of a query that was not executed.
func (e *endpoint) refuse(ctx context.Context, err error) error {
	var refused *httpError
	if errors.As(err, &refused) {
		err = refused.err
	}
	return newQueryError(e.dispatchError(ctx, err))
}

// newQueryError returns the first error of a response.
func newQueryError(response *graphql.Response) error {
	if len(response.Errors) == 0 {
		return &QueryError{Code: refusal.Internal, Message: "a response without data"}
	}
	field, _ := response.Errors[0].Extensions["field"].(string)
	return &QueryError{Code: refusal.CodeOf(response.Errors), Field: field, Message: response.Errors[0].Message,
		RetryAfter: retryAfter(response)}
}
