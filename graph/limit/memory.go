package limit

import (
	"bytes"
	"io"

	"golang.org/x/sync/semaphore"

	"byline/graph/refusal"
)

const (
	MaxBody   = 1 << 20  // bytes of a request body or message
	SmallBody = 16 << 10 // bytes; smaller ones are not limited in number

	SmallResponse = 128 << 10 // bytes; likewise: pages of the usual length are small
)

// Memory bounds the memory of request bodies and messages that have not arrived in full or
// are being parsed, and of responses that clients have not yet taken: connections are many,
// and a slow client holds either for long.
type Memory struct{ bodies, responses *semaphore.Weighted }

// NewMemory returns a Memory of which nothing is taken.
func NewMemory(c Capacity) *Memory {
	c = c.withDefaults()
	return &Memory{semaphore.NewWeighted(c.LargeBodies), semaphore.NewWeighted(c.LargeResponses)}
}

// Errors of requests that there is no memory for.
var (
	ErrTooManyBodies    = &refusal.Error{Code: refusal.Unavailable, Message: "too many large requests in progress; try again later", RetryAfter: refusal.DefaultRetryAfter}
	ErrTooManyResponses = &refusal.Error{Code: refusal.Unavailable, Message: "too many large responses in progress; request less data, or try again later", RetryAfter: refusal.DefaultRetryAfter}
)

// HoldResponse takes memory for a response of so many bytes, until release is called. It
// returns ErrTooManyResponses if there is not enough, but not for a mutation, which has been
// executed.
func (m *Memory) HoldResponse(size int, mutation bool) (release func(), err error) {
	n := int64(size)
	switch {
	case n < SmallResponse:
	case m.responses.TryAcquire(n):
		return func() { m.responses.Release(n) }, nil
	case !mutation:
		return func() {}, ErrTooManyResponses
	}
	return func() {}, nil
}

// ReadAll reads what has size bytes, -1 if that is unknown. release is to be called when they
// are no longer needed. It returns ErrTooManyBodies if there is not enough memory.
func (m *Memory) ReadAll(r io.Reader, size int64) (body []byte, release func(), err error) {
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
	if !m.bodies.TryAcquire(MaxBody) {
		return nil, nil, ErrTooManyBodies
	}
	release = func() { m.bodies.Release(MaxBody) }
	if _, err := buffer.ReadFrom(r); err != nil {
		release()
		return nil, nil, err
	}
	return buffer.Bytes(), release, nil
}
