// Package limit bounds what clients can take of a server: requests per second and request units per minute (Rate),
// operations that execute at a time, those admitted while the processors are overloaded, and events delivered at a
// time (Admission), open subscriptions (Subscriptions), events of a viewer (EventSlot), and the memory of large bodies
// (Bodies) and of responses (Memory). ClientKey returns the key by which the address of a request is limited.
//
// An exceeded limit is a *refusal.Error, for the client. Package transport decides what to count. All types are safe
// for concurrent use. No goroutines are started, except by the timers of Admission and EventSlot.
package limit
