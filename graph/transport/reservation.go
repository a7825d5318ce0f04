package transport

import (
	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/limit"
	"byline/store/cosmos"
)

// Every response has a limit.Reservation, from before its operation executes until the client has received
// it. It grows by what is read from Cosmos DB (package cosmos, by readMemory), and by what is built and encoded
// (package graph, by Request.Memory). When it cannot grow, reads and fields fail, and package graph makes the response
// an error.

// reserve begins the memory of a response. The caller calls sent in any case.
func (r *Request) reserve(memory *limit.Memory, kind ast.Operation) (err error) {
	bytes := 0
	switch kind {
	case ast.Query:
		bytes = limit.QueryBytes
	case ast.Mutation:
		bytes = limit.MutationBytes
	}
	r.mutates = kind == ast.Mutation
	if r.Memory, err = memory.Reserve(r.Client(), bytes, r.mutates); err != nil {
		r.full = true
		return err
	}
	r.release = r.Memory.Release
	return nil
}

// share joins the memory of a response of so many bytes that other clients are sent, too.
func (r *Request) share(s *limit.Shared, bytes int) error {
	release, err := s.Join(r.Memory, bytes)
	if err != nil {
		r.full = true
		return err
	}
	r.release, r.shared = release, true
	return nil
}

// noMemory reports whether the response is refused because there was no memory for it. The error of a mutation, which
// has been executed, has the ids of what it has written.
func (r *Request) noMemory() bool {
	return r.full || !r.mutates && r.Memory.Err() == limit.ErrTooManyResponses
}

// send returns a response as JSON, in pieces, and releases what was reserved besides.
func (r *Request) send(response *graphql.Response) [][]byte {
	all := pieces(response)
	if r.shared {
		return all
	}
	n := cap(response.Data) - len(response.Data) + len("\n")
	for _, p := range all {
		n += len(p)
	}
	r.Memory.Resize(n)
	return all
}

// sent releases the memory of a response that has been sent, or could not be.
func (r *Request) sent() {
	if r.release != nil {
		r.release()
	}
	r.Memory, r.release, r.shared, r.full = nil, nil, false, false
}

// readMemory is the memory of the reads of a response.
type readMemory struct{ *limit.Reservation }

var _ cosmos.Memory = readMemory{}

// Fork implements cosmos.Memory.
func (m readMemory) Fork() (cosmos.Memory, func()) {
	forked := m.Reservation.Fork()
	return readMemory{forked}, forked.Release
}
