// Package document reads the documents that clients send: it parses and validates them,
// refuses those that are larger than the limits, caches what it has parsed, and finds
// persisted and trusted documents by their hash or id. It also decodes the JSON around them:
// parameters and variables, whose text is either stored unchanged or refused.
//
// A server installs one Documents in its executor. Parse and CheckVariables do the same for
// a document that is not executed. What an operation may cost is package cost's.
//
// A Documents is safe for concurrent use; its caches are bounded in bytes. Nothing here does
// I/O or starts goroutines.
package document
