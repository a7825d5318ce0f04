// Package globalid encodes and parses the opaque ids of the GraphQL schema.
//
// An id is the unpadded base64url form of the kind of object and the parts of
// its key, partition key first, joined by "/", a character that no Cosmos DB
// item id may contain. So the object with an id can be read by one point read.
//
// It is a separate package because the generated code needs Node, and package
// graph imports the generated code. It has no state and is safe for concurrent
// use.
package globalid
