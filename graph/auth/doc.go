// Package auth authenticates callers. Authenticate reads the bearer token of a request
// and has a Verifier verify it: DemoVerifier for development, OIDC for the tokens of an
// OpenID Connect provider, whose keys it fetches and caches, and whose role claim makes a
// viewer a moderator.
//
// What a viewer may do is decided elsewhere: by the rules of mutations in package graph,
// and by conditions of the writes in package store.
//
// A Verifier is safe for concurrent use. NewOIDC does no I/O; OIDC.Run
// keeps the provider's keys up to date until its context ends. Without Run they are fetched
// when a token needs them.
package auth
