// Package graph is the GraphQL edge of the blog: the schema's resolvers on top of package
// store, and the transports, error codes, authorization, caching and tracing around them.
// NewHandler makes all of it into one http.Handler.
//
// What stands alone has a package below: who is calling (auth), documents (document), request
// units (cost), rates and capacity (limit), the table of schema fields (fields), and the error
// of a refused operation (refusal).
//
// It stores no data and knows no Cosmos DB: everything is read and written through a
// store.Store, and every failure reaches the client through the one classifier in errors.go.
// It does not start listeners. The only goroutines that outlive a request are those of
// WebSockets, for which Handler.Wait waits.
//
// The handler is safe for concurrent use. Loaders and memos live for one response (for one root
// field of a mutation) and are never shared between requests.
//
// The folders generated and model are made by gqlgen from schema.graphqls; nothing in them is
// written by hand.
package graph
