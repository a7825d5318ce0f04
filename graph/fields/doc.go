// Package fields describes the fields of the schema in one table: the price of each, its
// operations on Cosmos DB, who may execute it, whether its object is a summary, and the maximum
// length of its value. A field has a row if its resolver reads or writes Cosmos DB, if it is a mutation,
// or if its value may be long; tests compare the table with the schema.
//
// Package cost predicts charges from the table, package graph authorizes mutations by it. The
// table is never modified.
package fields
