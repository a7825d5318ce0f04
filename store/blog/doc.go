// Package blog is the data model: users, posts, comments and likes as items of the V3 containers, their
// decoding and reading, and the one error type of the packages that read and write them.
//
// Every item has an Envelope. Types such as PostItem add the properties that only the container has; a
// SummaryItem is the short form of a post in the users and feed containers, and a TextItem the text of a
// long post. Items are decoded by a fast path for JSON as Cosmos DB writes it, with encoding/json/v2 as the
// fallback.
package blog
