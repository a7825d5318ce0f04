package transport

import (
	"net/http"
	"sync/atomic"

	"byline/graph/coding"
	"byline/graph/limit"
	"byline/graph/refusal"
)

// Body is the body of a response that several clients are sent. It is compressed once, and while it is being sent its
// memory counts once. It is safe for concurrent use.
type Body struct {
	plain      encodedBody
	compressed [coding.Count]atomic.Pointer[encodedBody] // nil: no client has asked for it
}

// encodedBody is a body in one coding.
type encodedBody struct {
	coding *coding.Coding // nil: it is not compressed
	bytes  []byte

	held limit.Shared // the memory of bytes, while they are being sent
}

// NewBody returns a body, which owns its bytes.
func NewBody(bytes []byte) *Body { return &Body{plain: encodedBody{bytes: bytes}} }

// Bytes returns how many bytes the body has in all its codings so far.
func (b *Body) Bytes() int {
	n := cap(b.plain.bytes)
	for i := range b.compressed {
		if e := b.compressed[i].Load(); e != nil {
			n += cap(e.bytes)
		}
	}
	return n
}

// encoded returns the body in the coding that a client prefers. grown reports that it has been compressed for this
// call.
func (b *Body) encoded(r *http.Request) (e *encodedBody, grown bool) {
	chosen := coding.For(r.Header["Accept-Encoding"], len(b.plain.bytes))
	if chosen == nil {
		return &b.plain, false
	}
	kept := &b.compressed[chosen.Index]
	if e := kept.Load(); e != nil {
		return e, false
	}
	e = &encodedBody{coding: chosen, bytes: chosen.Compress(b.plain.bytes)}
	if !kept.CompareAndSwap(nil, e) {
		return kept.Load(), false // another request has been faster
	}
	return e, true
}

// Send sends the body, in the coding that the client prefers, to a client that a Handler has admitted; the caller sets
// Vary. An error, a *QueryError, means that nothing was sent, since there is no memory for it.
func (b *Body) Send(w http.ResponseWriter, r *http.Request, status int) error {
	e, _ := b.encoded(r)
	if err := RequestOf(r.Context()).share(&e.held, cap(e.bytes)); err != nil {
		return &QueryError{Code: refusal.Unavailable, Message: err.Error()}
	}
	e.write(w, status)
	return nil
}

// SendFixed sends a body that is always in memory, to any client.
func (b *Body) SendFixed(w http.ResponseWriter, r *http.Request, status int) {
	e, _ := b.encoded(r)
	e.write(w, status)
}

// write sends a body in its coding.
func (b *encodedBody) write(w http.ResponseWriter, status int) {
	if b.coding != nil {
		w.Header()["Content-Encoding"] = []string{b.coding.Name}
	}
	writeBody(w, status, b.bytes)
}
