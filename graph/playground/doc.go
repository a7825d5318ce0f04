// Package playground serves a page where developers explore the GraphQL API: at / an editor with examples
// that can be executed at once, and its files below Prefix.
//
// The page loads GraphiQL from a CDN, pinned by version and hashes. If the CDN does not respond within two seconds, or
// Options.CDN is false, it uses the GraphQL Playground that the server embeds. What both lack is in the page itself:
// the examples and their addresses, the viewer, and the cost. page/page.js is where to start reading.
//
// The package knows neither the schema nor the store. It starts nothing; its handler is safe for concurrent use.
package playground
