package limit

import (
	"bytes"
	"io"

	"golang.org/x/sync/semaphore"

	"byline/graph/refusal"
)

const (
	MaxBody   = 1 << 20  // bytes of a request body or message
	SmallBody = 16 << 10 // bytes; smaller bodies are not limited in number
)

// Bodies bounds the memory of request bodies and messages that are being received or parsed: there are many
// connections, and a slow client holds one for long.
type Bodies struct{ bytes *semaphore.Weighted }

// NewBodies returns Bodies of which all memory is free.
func NewBodies(c Capacity) Bodies {
	return Bodies{semaphore.NewWeighted(c.withDefaults().LargeBodies)}
}

// ErrTooManyBodies is the error of a request that there is no memory for.
var ErrTooManyBodies = &refusal.Error{Code: refusal.Unavailable,
	Message: "too many large requests in progress; try again later", RetryAfter: refusal.DefaultRetryAfter}

// ReadAll reads a body of size bytes, -1 if that is unknown. The caller calls release when it no
// longer needs the body. ReadAll returns ErrTooManyBodies if there is not enough memory.
func (b Bodies) ReadAll(r io.Reader, size int64) (body []byte, release func(), err error) {
	if size >= 0 && size < SmallBody {
		body = make([]byte, size)
		_, err = io.ReadFull(r, body)
		return body, func() {}, err
	}
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(size, 0)+bytes.MinRead, SmallBody)))
	if _, err := buffer.ReadFrom(io.LimitReader(r, SmallBody)); err != nil {
		return nil, nil, err
	}
	if buffer.Len() < SmallBody {
		return buffer.Bytes(), func() {}, nil
	}
	if !b.bytes.TryAcquire(MaxBody) {
		return nil, nil, ErrTooManyBodies
	}
	release = func() { b.bytes.Release(MaxBody) }
	if _, err := buffer.ReadFrom(r); err != nil {
		release()
		return nil, nil, err
	}
	return buffer.Bytes(), release, nil
}
