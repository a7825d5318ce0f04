// Package article runs Microsoft's article "How to model and partition data on Azure
// Cosmos DB using a real-world example": its ten requests, which it calls its test suite,
// on the three versions of its data model, and compares their request charges and latencies
// with the article's table.
//
// V1 stores every value once: names are looked up, and comments and likes are counted by queries. V2 has names
// and counts on posts, comments and likes. V3 is Byline's store. V1 and V2 exist only for the comparison.
//
// A Suite is for one goroutine. Its methods block, and wait for every goroutine they
// started.
package article
