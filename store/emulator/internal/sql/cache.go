package sql

import lru "github.com/hashicorp/golang-lru/v2"

const (
	maxCached     = 512     // parsed texts
	maxCachedText = 8 << 10 // largest cached text: a parsed one takes many times its size
)

// Cache parses texts and caches the results, least recently used first out. It is safe for concurrent use.
type Cache struct {
	cache  *lru.Cache[string, *Query]
	parser func(text string) (*Query, error)
}

// NewCache returns an empty cache for a parser: Parse or ParseCondition.
func NewCache(parser func(text string) (*Query, error)) Cache {
	cache, err := lru.New[string, *Query](maxCached)
	if err != nil {
		panic(err) // the size is positive
	}
	return Cache{cache, parser}
}

// Parse returns the parsed text. Errors are not cached.
func (c Cache) Parse(text string) (*Query, error) {
	if query, ok := c.cache.Get(text); ok {
		return query, nil
	}
	query, err := c.parser(text)
	if err == nil && len(text) <= maxCachedText {
		c.cache.Add(text, query)
	}
	return query, err
}
