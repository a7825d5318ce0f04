// Package cost deals with the request units (RU) that an operation charges in Cosmos DB. It
// predicts them before the operation executes, explains what they are spent on, refuses
// operations over a budget, and meters what they have charged in the end, for the report in
// extensions.cost.
//
// Predictions are made from the table of package fields. What limits requests, rather than RU,
// is package limit's.
//
// Budgets are shared by all requests; a Meter belongs to one request, whose goroutines may
// share it. Nothing here does I/O or starts goroutines.
package cost
