package emulator

import "net/http"

// Kind is a kind of request.
type Kind string

// The kinds of requests. Metadata is everything that is not about items.
const (
	Read       Kind = "read"
	Create     Kind = "create"
	Upsert     Kind = "upsert"
	Replace    Kind = "replace"
	Patch      Kind = "patch"
	Delete     Kind = "delete"
	Batch      Kind = "batch"
	Query      Kind = "query"
	ChangeFeed Kind = "change feed"
	Metadata   Kind = "metadata"
)

// classify returns the kind of a request. Methods that items do not have are Metadata, too.
func (r *request) classify() Kind {
	n := len(r.segments)
	if n < 5 || r.segments[4] != "docs" {
		return Metadata
	}
	switch {
	case n == 6 && r.method == http.MethodGet:
		return Read
	case n == 6 && r.method == http.MethodPut:
		return Replace
	case n == 6 && r.method == http.MethodPatch:
		return Patch
	case n == 6 && r.method == http.MethodDelete:
		return Delete
	case n == 5 && r.method == http.MethodGet && r.get("A-Im") != "":
		return ChangeFeed
	case n == 5 && r.method == http.MethodGet:
		return Query
	case n != 5 || r.method != http.MethodPost:
		return Metadata
	case r.is("X-Ms-Cosmos-Is-Batch-Request"):
		return Batch
	case isQuery(r):
		return Query
	case r.is("X-Ms-Documentdb-Is-Upsert"):
		return Upsert
	}
	return Create
}
