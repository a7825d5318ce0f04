// Package limit bounds what clients can take of a server: requests per second and request units per minute (Rate),
// operations that execute at a time and those admitted while the processors are overloaded (Admission), open subscriptions
// (Subscriptions), events of a viewer (EventSlot), and the memory of large bodies (Bodies) and of responses (Memory).
//
// An exceeded limit is a *refusal.Error, for the client. The package knows neither HTTP routes nor GraphQL documents;
// package transport decides what to count. All types are safe for concurrent use. No goroutines are started, except by the
// timers of Admission and EventSlot.
package limit
