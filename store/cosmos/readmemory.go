package cosmos

import "context"

// Memory is the memory of a caller, for what is read for it.
type Memory interface {
	// Grow reserves bytes before they are read. The read fails with its error.
	Grow(bytes int) error

	// Add reserves bytes that a write has returned.
	Add(bytes int)

	// Fork returns memory for a read that other callers wait for, too, until release is called.
	Fork() (_ Memory, release func())
}

type memoryKey struct{}

// WithMemory returns a context whose responses reserve memory: twice their size, for the bytes and the
// decoded items. What is found in the item cache does not count.
func WithMemory(ctx context.Context, m Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

// memoryOf returns the memory of a context.
func memoryOf(ctx context.Context) Memory {
	if m, ok := ctx.Value(memoryKey{}).(Memory); ok {
		return m
	}
	return unlimited{}
}

// forked returns a context with memory for a read that several callers wait for.
func forked(ctx context.Context) (_ context.Context, release func()) {
	m, release := memoryOf(ctx).Fork()
	return WithMemory(ctx, m), release
}

// decoded is how much larger a response and its decoded items are than the response.
const decoded = 2

// unlimited is the memory of background work.
type unlimited struct{}

func (unlimited) Grow(int) error         { return nil }
func (unlimited) Add(int)                {}
func (unlimited) Fork() (Memory, func()) { return unlimited{}, func() {} }
