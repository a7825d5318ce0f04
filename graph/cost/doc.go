// Package cost predicts, explains, limits and meters the request units (RU) that operations
// charge in Cosmos DB: it predicts them before an operation executes, refuses operations over a
// budget, and meters the actual charge for the report in extensions.cost.
//
// Predictions are made from the table of package fields. Limits on requests, rather than RU,
// are in package limit.
//
// Budgets are shared by all requests; a Meter belongs to one request, whose goroutines may
// share it. Nothing here does I/O or starts goroutines.
package cost
