package emulator

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"byline/store/emulator/internal/sql"
)

// parserCache parses texts and caches the results, least recently used first out.
type parserCache struct {
	cache  *lru.Cache[string, *sql.Query]
	parser func(text string) (*sql.Query, error)
}

func newParserCache(parse func(text string) (*sql.Query, error)) parserCache {
	cache, err := lru.New[string, *sql.Query](maxCachedQueries)
	if err != nil {
		panic(err) // the size is positive
	}
	return parserCache{cache, parse}
}

func (t parserCache) parse(text string) (*sql.Query, error) {
	if query, ok := t.cache.Get(text); ok {
		return query, nil
	}
	query, err := t.parser(text)
	if err == nil && len(text) <= maxCachedText { // a parsed query takes many times the size of its text
		t.cache.Add(text, query)
	}
	return query, err
}
