package limit

import (
	"context"
	"sync"
)

// ClientSlots gives each client one slot, such as to render a text: a client with many requests does not delay others.
// The zero value is ready for use.
type ClientSlots struct {
	mu      sync.Mutex
	clients map[string]*clientSlot // guarded by mu; those that have or await their slot
}

type clientSlot struct {
	taken chan struct{} // has an element while a request has the slot
	users int           // requests that have or await the slot; guarded by ClientSlots.mu
}

// Acquire waits until no other request of the client has its slot, and returns the error of ctx if that ends before.
// The caller releases the slot. The client "" has any number of slots.
func (s *ClientSlots) Acquire(ctx context.Context, client string) (release func(), err error) {
	if client == "" {
		return func() {}, nil
	}
	slot := s.join(client)
	select {
	case slot.taken <- struct{}{}:
		return func() {
			<-slot.taken
			s.leave(client, slot)
		}, nil
	case <-ctx.Done():
		s.leave(client, slot)
		return nil, ctx.Err()
	}
}

func (s *ClientSlots) join(client string) *clientSlot {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.clients[client]
	if slot == nil {
		if s.clients == nil {
			s.clients = map[string]*clientSlot{}
		}
		slot = &clientSlot{taken: make(chan struct{}, 1)}
		s.clients[client] = slot
	}
	slot.users++
	return slot
}

func (s *ClientSlots) leave(client string, slot *clientSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.users--; slot.users == 0 {
		delete(s.clients, client)
	}
}
