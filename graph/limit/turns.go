package limit

import (
	"context"
	"sync"
)

// Turns gives each client one turn at a time, such as to render a text: a client with many requests does not delay
// others. The zero value is ready for use.
type Turns struct {
	mu      sync.Mutex
	clients map[string]*turn // guarded by mu; those that have or await a turn
}

type turn struct {
	taken chan struct{} // has an element while a request has the turn
	users int           // requests that have or await the turn; guarded by Turns.mu
}

// Acquire waits until no other request of the client has the turn, and returns the error of ctx if that ends before.
// The caller releases the turn. The client "" has any number of turns.
func (t *Turns) Acquire(ctx context.Context, client string) (release func(), err error) {
	if client == "" {
		return func() {}, nil
	}
	of := t.join(client)
	select {
	case of.taken <- struct{}{}:
		return func() {
			<-of.taken
			t.leave(client, of)
		}, nil
	case <-ctx.Done():
		t.leave(client, of)
		return nil, ctx.Err()
	}
}

func (t *Turns) join(client string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.clients[client]
	if of == nil {
		if t.clients == nil {
			t.clients = map[string]*turn{}
		}
		of = &turn{taken: make(chan struct{}, 1)}
		t.clients[client] = of
	}
	of.users++
	return of
}

func (t *Turns) leave(client string, of *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of.users--; of.users == 0 {
		delete(t.clients, client)
	}
}
