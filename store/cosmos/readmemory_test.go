package cosmos

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

var errNoMemory = errors.New("no memory")

// countedMemory is a Memory with a limit.
type countedMemory struct {
	mu            sync.Mutex
	limit         int
	grown, added  int
	forks         []*countedMemory
	forksReleased int
}

func (m *countedMemory) Grow(bytes int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.grown+bytes > m.limit {
		return errNoMemory
	}
	m.grown += bytes
	return nil
}

func (m *countedMemory) Add(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added += bytes
}

func (m *countedMemory) Fork() (Memory, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	forked := &countedMemory{limit: m.limit}
	m.forks = append(m.forks, forked)
	return forked, func() { m.forksReleased++ }
}

// TestMemory_Responses: what is read counts twice, and without memory the read fails and is not repeated. What a write
// returns counts, too, but does not fail: the write has been executed.
func TestMemory_Responses(t *testing.T) {
	cosmostest.NeedsEngine(t, "it scripts the responses")
	const item, page = `{"id":"p","postId":"p"}`, `{"_rid":"r","Documents":[{"id":"p"}],"_count":1}`
	read := func(ctx context.Context, c *Container) error {
		_, err := c.Read(ctx, Key{"p", "p"})
		return err
	}
	query := func(ctx context.Context, c *Container) error {
		_, _, err := c.QueryPage(ctx, Query{Text: "SELECT * FROM c", Partition: "p"})
		return err
	}
	patch := func(ctx context.Context, c *Container) error {
		p := Patch{ReturnItem: true}
		p.Set("/title", "new")
		_, err := c.Patch(ctx, Key{"p", "p"}, p)
		return err
	}
	for name, tt := range map[string]struct {
		do            func(context.Context, *Container) error
		body          string
		unknownLength bool
		limit         int
		grown, added  int
		fails         bool
	}{
		"read": {do: read, body: item, limit: 2 * len(item), grown: 2 * len(item)},
		"read of unknown length": {do: read, body: item, unknownLength: true, limit: 2 * len(item),
			grown: 2 * len(item)},
		"read without memory": {do: read, body: item, limit: 2*len(item) - 1, fails: true},
		"of unknown length, without it": {do: read, body: item, unknownLength: true, limit: 2*len(item) - 1,
			fails: true},
		"query":                {do: query, body: page, limit: 2 * len(page), grown: 2 * len(page)},
		"query without memory": {do: query, body: page, limit: 2*len(page) - 1, fails: true},
		"write without memory": {do: patch, body: item, added: 2 * len(item)},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{status: http.StatusOK, body: tt.body, unknownLength: tt.unknownLength}
			posts, err := s.open(t).Container("blog", "posts")
			if err != nil {
				t.Fatal(err)
			}
			m := &countedMemory{limit: tt.limit}
			err = tt.do(WithMemory(t.Context(), m), posts)
			if tt.fails != errors.Is(err, errNoMemory) || !tt.fails && err != nil {
				t.Errorf("got error %v", err)
			}
			if m.grown != tt.grown || m.added != tt.added {
				t.Errorf("got %d bytes grown and %d added, want %d and %d", m.grown, m.added, tt.grown, tt.added)
			}
			if n := s.requests.Load(); n != 1 {
				t.Errorf("got %d requests, want 1", n)
			}
		})
	}
}

// TestMemory_SharedReads: a read that several callers may wait for has memory of its own. Then its value counts for the
// caller that began it.
func TestMemory_SharedReads(t *testing.T) {
	cosmostest.NeedsEngine(t, "it scripts the responses")
	const item = `{"id":"p","postId":"p"}`
	s := &scripted{status: http.StatusOK, body: item}
	o := options(cosmostest.Open(t, emulator.Options{}))
	s.Transporter, o.Transport, o.CacheBytes = o.Transport, s, 1<<20
	account, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	posts, err := account.Container("blog", "posts")
	if err != nil {
		t.Fatal(err)
	}
	get := func(m *countedMemory) error {
		_, err := Get(WithMemory(t.Context(), m), posts, "p", "post", func(ctx context.Context) (Item, error) {
			return posts.Read(ctx, Key{"p", "p"})
		})
		return err
	}
	began := &countedMemory{limit: 2 * len(item)}
	if err := get(began); err != nil || len(began.forks) != 1 || began.forksReleased != 1 {
		t.Fatalf("the first caller: %v, %+v", err, began)
	}
	if began.forks[0].grown != 2*len(item) || began.grown != len(item) {
		t.Errorf("got %d bytes during the read and %d after", began.forks[0].grown, began.grown)
	}
	posts.cache.Invalidate()
	without := &countedMemory{limit: 2*len(item) - 1}
	if err := get(without); !errors.Is(err, errNoMemory) || without.forksReleased != 1 || without.grown != 0 {
		t.Errorf("without memory: %v, %+v", err, without)
	}
}
