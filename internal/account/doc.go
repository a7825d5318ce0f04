// Package account opens what a command's flags name: an Azure Cosmos DB account, an emulator,
// or, without an endpoint, the embedded engine. It is used by the server's commands and by the
// benches.
//
// Close an Account when its last request has ended: that also closes the engine.
package account
