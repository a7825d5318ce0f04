// Package limit bounds what clients can take of a server: requests per second and request units per minute (Rate),
// operations that execute at a time, those admitted while the processors are overloaded, and events delivered at a
// time (Admission), open subscriptions (Subscriptions), events of a viewer (EventSlot), texts that are rendered for
// one (ClientSlots), and the memory of large bodies (Bodies) and responses (Memory). ClientKey returns the key of an
// address.
//
// An exceeded limit is a *refusal.Error, for the client. All types are safe for concurrent use. Only the timers of
// Admission and EventSlot start goroutines.
package limit
