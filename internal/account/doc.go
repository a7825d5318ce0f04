// Package account opens what a command's flags name: an Azure Cosmos DB account, an emulator,
// or, without an endpoint, the embedded engine. It is used by the server's commands and by the
// benches.
//
// An Account has two azcosmos clients with one set of sessions, one meter and one cache: Client
// for requests, and Background for everything that nobody waits for. Close it when the last
// request has ended.
package account
