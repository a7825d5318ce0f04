// Package fields describes the fields of the schema in one table: what each costs, which
// operations on Cosmos DB it consists of, who may execute it, whether its object is a summary,
// and how long its value may be. A field that is added to the schema gets its row here; tests
// hold the table to the schema.
//
// Package cost predicts from it, package graph authorizes by it. It is data: nothing changes it.
package fields
