// Package transport serves GraphQL operations over HTTP, WebSocket and event streams. It knows neither the blog's
// schema nor its resolvers: package graph gives it an executor, and finds out by RequestOf for whom a context
// executes.
//
// Every request passes New's handlers in handler.go: an id (request.go), headers and origins (origins.go), load
// shedding. A transport (http.go with response.go, websocket.go, eventstream.go) then authenticates the viewer, opens
// the session and reads the operation; a query over HTTP may get its response from the response cache
// (responsecache.go). execution.go admits the operation or event, waits for its slot, reserves the memory of its
// response (reservation.go), and dispatches it to the executor. Subscriptions open their streams by Subscribe
// (subscription.go), and share the responses to events (sharedevents.go).
//
// The package is safe for concurrent use. The only goroutines that outlive a request are those of WebSockets, for
// which Handler.Wait waits.
package transport
