package graph

//go:generate go tool gqlgen generate

import "byline/store"

// Resolver resolves the fields that a plain read of a struct cannot.
type Resolver struct {
	store *store.Store
}
