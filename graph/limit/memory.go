package limit

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"byline/graph/refusal"
)

const (
	MaxBody   = 1 << 20  // bytes of a request body or message
	SmallBody = 16 << 10 // bytes; smaller bodies are not limited in number

	// smallResponse is the size in bytes below which responses may take all memory of responses.
	// Larger ones may take three quarters. Usual pages are small.
	smallResponse = 128 << 10
)

// Memory bounds the memory of request bodies and messages that are being received or parsed, and of
// responses and events that clients have not yet received: there are many connections, and a slow
// client holds either for long.
type Memory struct {
	bodies       *semaphore.Weighted
	responses    atomic.Int64 // bytes
	maxResponses int64
}

// NewMemory returns a Memory of which all is free.
func NewMemory(c Capacity) *Memory {
	c = c.withDefaults()
	return &Memory{bodies: semaphore.NewWeighted(c.LargeBodies), maxResponses: c.Responses}
}

// Errors of requests that there is no memory for.
var (
	ErrTooManyBodies    = &refusal.Error{Code: refusal.Unavailable, Message: "too many large requests in progress; try again later", RetryAfter: refusal.DefaultRetryAfter}
	ErrTooManyResponses = &refusal.Error{Code: refusal.Unavailable, Message: "too many responses in progress; request less data, or try again later", RetryAfter: refusal.DefaultRetryAfter}
)

// HoldResponse reserves memory for a response of size bytes until release is called. It returns
// ErrTooManyResponses if there is not enough, except for a mutation, which has been executed.
func (m *Memory) HoldResponse(size int, mutation bool) (release func(), err error) {
	n, most := int64(size), m.maxResponses
	if n >= smallResponse {
		most -= most / 4
	}
	if m.responses.Add(n) > most && !mutation {
		m.responses.Add(-n)
		return func() {}, ErrTooManyResponses
	}
	return func() { m.responses.Add(-n) }, nil
}

// Shared is the memory of a response that is sent to several clients and counts once. The zero value
// has no holders.
type Shared struct {
	mu      sync.Mutex
	holders int    // guarded by mu
	release func() // guarded by mu
}

// HoldShared is HoldResponse for one of the clients that share a response.
func (m *Memory) HoldShared(s *Shared, size int) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == 0 {
		if s.release, err = m.HoldResponse(size, false); err != nil {
			return s.release, err
		}
	}
	s.holders++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holders--; s.holders == 0 {
			s.release()
		}
	}, nil
}

// ReadAll reads a body of size bytes, -1 if that is unknown. The caller calls release when it no
// longer needs the body. ReadAll returns ErrTooManyBodies if there is not enough memory.
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
