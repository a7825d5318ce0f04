// Package graph is the GraphQL edge of the blog: the schema's resolvers on top
// of package store, and the HTTP, error, authentication and limit rules around
// them. NewHandler makes all of it into one http.Handler.
//
// It keeps no data and knows no Cosmos DB: everything is read and written through
// a store.Store, and every failure reaches the client through the one classifier
// in errors.go. It does not start listeners or goroutines that outlive a request.
//
// The handler may be used by any number of requests at once. Loaders and page
// memos live for one response (for one root field of a mutation) and are never
// shared between requests.
//
// The folders generated and model are made by gqlgen from schema.graphqls; nothing
// in them is written by hand.
package graph
