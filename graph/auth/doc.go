// Package auth finds out who is calling. Authenticate reads the bearer token of a request
// and has a Verifier verify it: DemoVerifier for development, OIDC for the tokens of an
// OpenID Connect provider, whose keys it fetches and caches, and which names the moderators.
//
// What a viewer may do is decided elsewhere: by the rules of mutations in package graph,
// and by conditions of the writes in package store.
//
// A Verifier is used by any number of requests at once. NewOIDC does no I/O; OIDC.Run
// keeps the provider's keys up to date until its context ends. Without Run they are fetched
// when a token needs them.
package auth
