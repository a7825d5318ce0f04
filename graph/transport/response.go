package transport

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"byline/graph/coding"
	"byline/graph/cost"
	"byline/graph/refusal"
	"byline/store/blog"
)

// writeError responds to a request that failed before execution.
func (t *transport) writeError(w http.ResponseWriter, r *http.Request, media string, err error) {
	var refused *httpError
	if errors.As(err, &refused) {
		err = refused.err
	}
	response := t.dispatchError(r.Context(), err)
	if refused == nil {
		writeResponse(w, r, media, response)
		return
	}
	if refused.allow != "" {
		w.Header().Set("Allow", refused.allow)
	}
	write(w, r, refused.status, response)
}

// writeResponse sends a response with the status that the media type requires. It is 503 with both if there was no
// memory for the response.
func writeResponse(w http.ResponseWriter, r *http.Request, media string, response *graphql.Response) {
	status := http.StatusOK
	if response.Data == nil {
		code := refusal.CodeOf(response.Errors)
		if code == refusal.Unauthenticated {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		if media == mediaResponse {
			status = statusOf(code)
		}
		if RequestOf(r.Context()).noMemory() {
			status = http.StatusServiceUnavailable
		}
	}
	write(w, r, status, response)
}

// vary lists the request headers that responses depend on.
const vary = "Accept, Accept-Encoding, Authorization, " + sessionHeader + ", " + cost.Header

// Header values that all responses share. They are never modified.
var (
	contentTypes = map[string][]string{mediaJSON: {mediaJSON + "; charset=utf-8"},
		mediaResponse: {mediaResponse + "; charset=utf-8"}}
	noStore = []string{"no-store"}
	varies  = []string{vary}
)

// prepare negotiates the media type, and sets the headers that every response has. No cache stores the response to a
// POST, which gives no lifetime (RFC 9110, section 9.3.3): it needs no headers for caches.
func prepare(h http.Header, r *http.Request) (media string, acceptable bool) {
	media, acceptable = negotiate(r.Header.Values("Accept"))
	h["Content-Type"] = contentTypes[media]
	if r.Method == http.MethodPost {
		return media, acceptable
	}
	if set := h["Vary"]; set == nil {
		h["Vary"] = varies
	} else {
		h["Vary"] = append(set, vary) // to the value that CORS has set
	}
	h["Cache-Control"] = noStore
	return media, acceptable
}

// httpError is an invalid HTTP request. Its status does not depend on the media type.
type httpError struct {
	status int
	allow  string // the allowed methods, with 405
	err    error
}

func (e *httpError) Error() string { return e.err.Error() }

func badRequest(field string, reason blog.Reason, format string, args ...any) error {
	return &httpError{status: http.StatusBadRequest, err: refusal.Input(field, reason, format, args...)}
}

// invalidRequest returns the refusal of an HTTP request whose method, headers or body are at fault.
func invalidRequest(format string, args ...any) error {
	return refusal.Input("", blog.ReasonRequest, format, args...)
}

// statusOf is the HTTP status of a request that was refused with the code before
// execution began, when the client accepts application/graphql-response+json.
// (GraphQL over HTTP, section 6.4.2; with application/json it is always 200.)
func statusOf(c refusal.Code) int {
	switch c {
	case refusal.Unauthenticated:
		return http.StatusUnauthorized
	case refusal.Forbidden:
		return http.StatusForbidden
	case refusal.Throttled:
		return http.StatusTooManyRequests
	case refusal.Unavailable:
		return http.StatusServiceUnavailable
	case refusal.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// write sends a response, with Retry-After if an error has retryAfterMs.
func write(w http.ResponseWriter, r *http.Request, status int, response *graphql.Response) {
	if after := retryAfter(response); after != "" {
		w.Header().Set("Retry-After", after)
	}
	caller := RequestOf(r.Context())
	body := append(caller.send(response), []byte("\n"))
	chosen := coding.For(r.Header["Accept-Encoding"], length(body))
	if chosen == nil {
		writeBody(w, status, body...)
		return
	}
	e := &encodedBody{coding: chosen, bytes: chosen.Compress(body...)}
	caller.Memory.Resize(cap(e.bytes))
	e.write(w, status)
}

// retryAfter returns the value of the Retry-After header of a response, in seconds; "" for none.
func retryAfter(response *graphql.Response) string {
	for _, err := range response.Errors {
		if ms, ok := err.Extensions["retryAfterMs"].(int64); ok {
			return strconv.FormatInt((ms+999)/1000, 10) // whole seconds
		}
	}
	return ""
}

// length returns how many bytes there are in all pieces.
func length(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// encode returns a response without errors and extensions as a line of JSON. It may reuse the memory of
// response.Data: the caller no longer uses the response.
func encode(response *graphql.Response) []byte {
	return append(slices.Insert([]byte(response.Data), 0, []byte(`{"data":`)...), "}\n"...)
}

const (
	// sendTimeout is how long a client may take to receive a response, and each part of it at most writeTimeout: the
	// response takes memory until then.
	sendTimeout = 80 * time.Second

	partBytes = 64 << 10 // of a part; a shorter response has the server's timeout alone
)

// writeBody sends a body, which may be in pieces.
func writeBody(w http.ResponseWriter, status int, pieces ...[]byte) {
	n := length(pieces)
	w.Header()["Content-Length"] = []string{strconv.Itoa(n)}
	w.WriteHeader(status)
	control, until := http.NewResponseController(w), time.Now().Add(sendTimeout)
	for _, p := range pieces {
		for part := range slices.Chunk(p, partBytes) {
			if n > partBytes {
				_ = control.SetWriteDeadline(earlier(until, time.Now().Add(writeTimeout))) // it may not be supported
			}
			if _, err := w.Write(part); err != nil {
				return // the client is gone
			}
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// pieces returns a response as JSON: errors, extensions and data, so that a reader finds the short entries
// before the long one. If Data is nil, there is no data entry. Data, which clients may share, is a piece of its
// own.
func pieces(response *graphql.Response) [][]byte {
	head := []byte{}
	if len(response.Errors) > 0 {
		head = appendJSON(append(head, `,"errors":`...), response.Errors)
	}
	if len(response.Extensions) > 0 {
		head = appendJSON(append(head, `,"extensions":`...), response.Extensions)
	}
	if response.Data != nil {
		head = append(head, `,"data":`...)
	}
	if len(head) == 0 {
		head = append(head, ' ')
	}
	head[0] = '{' // in place of the first comma
	return [][]byte{head, response.Data, []byte("}")}
}

// longMessage is the length in bytes from which the pieces of a message are not joined.
const longMessage = 4 << 10

// joined concatenates pieces if they are short together, and otherwise returns them as they are.
func joined(all ...[]byte) [][]byte {
	if length(all) >= longMessage {
		return all
	}
	return [][]byte{slices.Concat(all...)}
}

func appendJSON(b []byte, v any) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err) // errors and extensions have types that can be marshaled
	}
	return append(b, encoded...)
}

// negotiate chooses the media type of the response: that with the highest quality, and of
// equals the one that Accept lists first. Without an Accept header, and if only a wildcard
// matches, it is application/json. The most precise media range determines the quality of a type
// (RFC 9110, section 12.5.1). acceptable is false if the client accepts neither.
func negotiate(accept []string) (media string, acceptable bool) {
	if len(accept) == 0 {
		return mediaJSON, true
	}
	var json, response preference
	place := 0
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		place++
		name, quality, ok := mediaRange(item)
		if !ok {
			continue
		}
		p := preference{quality: quality, place: place}
		switch name {
		case "*/*":
			p.precision = anyType
			json.refine(p)
			response.refine(p)
		case "application/*":
			p.precision = anySubtype
			json.refine(p)
			response.refine(p)
		case mediaJSON:
			p.precision = exactType
			json.refine(p)
		case mediaResponse:
			p.precision = exactType
			response.refine(p)
		}
	}
	media = mediaJSON
	if response.quality > json.quality ||
		response.quality == json.quality && response.precision == exactType && response.place < json.place {
		media = mediaResponse
	}
	return media, json.quality > 0 || response.quality > 0 || strings.TrimSpace(strings.Join(accept, "")) == ""
}

// preference is how much a client prefers a media type. The zero value is not acceptable.
type preference struct {
	quality   float64
	precision int // of the media range
	place     int // of the media range in Accept
}

// Precisions of media ranges.
const (
	anyType    = 1 + iota // */*
	anySubtype            // application/*
	exactType
)

// refine applies a media range, unless a more or equally precise one has been applied.
func (p *preference) refine(r preference) {
	if r.precision > p.precision {
		*p = r
	}
}

// mediaRange parses an element of an Accept header. It parses the usual ones itself, since package
// mime allocates.
func mediaRange(item string) (name string, quality float64, ok bool) {
	name, parameter, more := strings.Cut(item, ";")
	switch name = strings.TrimSpace(name); name {
	case "*/*", "application/*", mediaJSON, mediaResponse, mediaEvents:
		if !more {
			return name, 1, true
		}
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
			if quality, err := strconv.ParseFloat(q, 64); err == nil {
				return name, quality, true
			}
		}
	}
	name, parameters, err := mime.ParseMediaType(item)
	if err != nil {
		return "", 0, false
	}
	quality = 1
	if q, ok := parameters["q"]; ok {
		quality, _ = strconv.ParseFloat(q, 64)
	}
	return name, quality, true
}
