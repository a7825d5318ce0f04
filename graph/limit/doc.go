// Package limit bounds what clients can take of a server: requests per second and request
// units per minute (Rate), operations that execute at a time and those admitted while the
// processors are overloaded (Admission), events delivered at a time (Delivery), open subscriptions
// (Subscriptions), concurrent events of a viewer (EventSlot), and the memory of large bodies and
// responses (Memory). ClientKey says what a request's address counts as.
//
// A limit that is exceeded is a *refusal.Error, for the client. Nothing here knows HTTP
// routes or GraphQL documents; package graph decides what counts as what.
//
// All types are safe for concurrent use. Nothing here starts a goroutine, but for timers
// of Admission, Delivery and EventSlot.
package limit
