// Package document reads the documents of clients: it parses and validates them, refuses those
// that exceed its limits, caches parsed documents, and finds persisted and trusted documents by
// their hash or id. It also decodes the JSON of requests: parameters and variables, whose strings
// are either stored unchanged or refused.
//
// A server installs one Documents in its executor. Parse and CheckVariables do the same for
// a document that is not executed. Package cost limits what an operation may cost.
//
// A Documents is safe for concurrent use; its caches are bounded in bytes. The package does no
// I/O and starts no goroutines.
package document
