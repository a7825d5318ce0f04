package limit

import (
	"sync"
	"sync/atomic"

	"byline/graph/refusal"
)

const (
	// MaxResponse is how many bytes the data of a response may have.
	MaxResponse = 32 << 20

	// QueryBytes and MutationBytes are what is reserved for a response before its operation executes. The
	// payload of a mutation has that much in any case, since what it has written cannot be refused any more.
	QueryBytes    = 4 << 10
	MutationBytes = 32 << 10

	// Sizes of the responses to a client, in bytes: see Memory.
	smallResponse = 128 << 10
	largeResponse = 2 << 20

	// growth is the step by which a Reservation grows.
	growth = 4 << 10
)

// ErrTooManyResponses is the error of a response that there is no memory for.
var ErrTooManyResponses = &refusal.Error{Code: refusal.Unavailable,
	Message:    "too many responses in progress; request less data, or try again later",
	RetryAfter: refusal.DefaultRetryAfter}

// ErrTooLarge is the error of a response that has more than MaxResponse, or takes more memory than there is for
// one.
var ErrTooLarge = &refusal.Error{Code: refusal.QueryTooExpensive,
	Message: "the response is too large: request less data"}

// Memory is that of all responses and events: of what is read and built for them, until their clients have received
// them. How much may be in use for a response to grow depends on how much its client has in all its responses:
//
//   - less than smallResponse: 15/16; mutations alone have the rest.
//   - less than largeResponse: 5/6, so that there is room for small ones.
//   - more: two thirds, so that a few clients that do not read what they have asked for leave room for others. A client
//     comes to have as much only while half of the memory is free, so that those that have can grow to their end.
type Memory struct {
	bytes int64
	used  atomic.Int64

	mu      sync.Mutex
	clients map[string]*memoryClient // guarded by mu
}

// memoryClient is a client with responses.
type memoryClient struct {
	held         atomic.Int64 // bytes
	reservations int          // guarded by Memory.mu
}

// NewMemory returns a Memory of which all is free.
func NewMemory(c Capacity) *Memory {
	return &Memory{bytes: c.withDefaults().Responses, clients: map[string]*memoryClient{}}
}

// Used returns how many bytes are reserved.
func (m *Memory) Used() int64 { return m.used.Load() }

// Reserve begins the memory of a response to a client, with bytes of it. Each response to the client "" counts as one
// of another client.
func (m *Memory) Reserve(client string, bytes int, mutation bool) (*Reservation, error) {
	r := m.open(client, mutation)
	if err := r.take(int64(bytes)); err != nil {
		r.Release()
		return nil, err
	}
	r.spare = r.held
	return r, nil
}

func (m *Memory) open(client string, mutation bool) *Reservation {
	r := &Reservation{memory: m, name: client, mutation: mutation}
	if client == "" {
		r.client = &memoryClient{}
		return r
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.client = m.clients[client]; r.client == nil {
		r.client = &memoryClient{}
		m.clients[client] = r.client
	}
	r.client.reservations++
	return r
}

func (m *Memory) close(r *Reservation) {
	if r.name == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.client.reservations--; r.client.reservations == 0 {
		delete(m.clients, r.name)
	}
}

// Reservation is the memory of one response. Once it could not grow it is refused: the response becomes an
// error. A nil Reservation has no limit. It is safe for concurrent use.
type Reservation struct {
	memory   *Memory
	client   *memoryClient
	name     string // of the client
	mutation bool

	mu       sync.Mutex
	held     int64  // guarded by mu; bytes
	spare    int64  // guarded by mu; of held, what Grow has not given out yet
	refused  error  // guarded by mu
	stop     func() // guarded by mu; nil: nothing
	released bool   // guarded by mu
}

// OnRefuse has stop called once the response is refused.
func (r *Reservation) OnRefuse(stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop = stop
}

// refuseLocked refuses the response. r.mu is held.
func (r *Reservation) refuseLocked(err error) {
	r.refused = err
	if r.stop != nil {
		r.stop()
	}
}

// fits reports whether the response may have grown by n bytes, with which so many are in use.
func (r *Reservation) fits(n, used int64) bool {
	all := r.memory.bytes
	switch held := r.client.held.Load(); {
	case r.mutation && r.held < smallResponse:
		return used <= all
	case held < smallResponse:
		return used <= all-all/16
	case held < largeResponse:
		return used <= all-all/6
	case held-n >= largeResponse:
		return used <= r.memory.large()
	default:
		return used <= max(all/2, min(held, r.memory.large()))
	}
}

// large returns how many bytes may be in use for large responses to grow.
func (m *Memory) large() int64 { return m.bytes - m.bytes/3 }

// take reserves n bytes more. r.mu is held, unless r is new.
func (r *Reservation) take(n int64) error {
	used := r.add(n)
	if r.fits(n, used) {
		return nil
	}
	r.add(-n)
	if r.held+n > r.memory.large() {
		return ErrTooLarge
	}
	return ErrTooManyResponses
}

// add counts n bytes more, and returns how many are in use. r.mu is held, unless r is new.
func (r *Reservation) add(n int64) (used int64) {
	r.held += n
	r.client.held.Add(n)
	return r.memory.used.Add(n)
}

// Grow reserves bytes before they are used. If there are not as many, it returns ErrTooManyResponses, or ErrTooLarge
// if there never are, and refuses the response. It returns an error as well once the response is refused or
// released.
func (r *Reservation) Grow(bytes int) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.refused != nil:
		return r.refused
	case r.released:
		return ErrTooManyResponses
	}
	n := int64(bytes)
	if n > r.spare {
		step := (n - r.spare + growth - 1) / growth * growth
		if err := r.take(step); err != nil {
			r.refuseLocked(err)
			return err
		}
		r.spare += step
	}
	r.spare -= n
	return nil
}

// Add reserves bytes that are in use already.
func (r *Reservation) Add(bytes int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.released {
		r.add(int64(bytes))
	}
}

// Fork returns memory for a read that several responses wait for.
func (r *Reservation) Fork() *Reservation { return r.memory.open(r.name, false) }

// Refuse refuses the response, unless it has been refused.
func (r *Reservation) Refuse(err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		r.refuseLocked(err)
	}
}

// Err returns why the response is refused; nil if it is not.
func (r *Reservation) Err() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// Resize reserves exactly so many bytes: of a response that has been built. The rest is no longer used.
func (r *Reservation) Resize(bytes int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.released {
		r.resizeLocked(int64(bytes))
	}
}

func (r *Reservation) resizeLocked(bytes int64) {
	r.add(bytes - r.held)
	r.spare = 0
}

// fit is Resize, and returns an error if there are not as many bytes.
func (r *Reservation) fit(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes > r.held {
		if err := r.take(bytes - r.held); err != nil {
			return err
		}
	}
	r.resizeLocked(bytes)
	return nil
}

// Release releases all bytes. Later calls have no effect.
func (r *Reservation) Release() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.released {
		r.add(-r.held)
		r.spare, r.released = 0, true
		r.memory.close(r)
	}
}

// Shared is the memory of a response that is sent to several clients and counts once. The zero value has no
// holders.
type Shared struct {
	mu      sync.Mutex
	holders int          // guarded by mu
	held    *Reservation // guarded by mu
}

// Join takes the memory of a client's response, bytes of which are to be sent from here on, into the shared
// one.
func (s *Shared) Join(r *Reservation, bytes int) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders > 0 {
		r.Release()
	} else if err := r.fit(int64(bytes)); err != nil {
		return nil, err
	} else {
		s.held = r
	}
	s.holders++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holders--; s.holders == 0 {
			s.held.Release()
		}
	}, nil
}
