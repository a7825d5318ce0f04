// Package search is full-text search of posts: the item that each post has in the container search (item.go), the
// syntax of queries (query.go), and the requests that find posts by date (search.go) or by relevance (relevance.go)
// with a snippet of each (snippet.go). The container has a logical partition for each decade of creation dates, so that
// a search is one query, or one for each decade. What writes the items, and reads the posts that are found, is
// elsewhere.
//
// Words are compared as Cosmos DB does in English: without case, stop words and endings (words.go).
//
// Everything is safe for concurrent use. Nothing is started.
package search
