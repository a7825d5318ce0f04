// Package account opens the account that a command's flags name: Azure Cosmos DB, an emulator or,
// without an endpoint, the embedded engine. The server's commands and the benchmarks use it.
//
// Close an Account when its last request has ended: that also closes the engine.
package account
