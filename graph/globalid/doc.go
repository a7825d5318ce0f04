// Package globalid is the opaque ids of the GraphQL schema: how they are made
// and read back, and what can have one.
//
// An id is the unpadded base64url form of the kind of object and the parts of
// its key, partition key first, joined by "/", a character that no Cosmos DB
// item id may contain. So the object behind any id is one point read away.
//
// It is a package of its own because the generated code needs Node, and package
// graph imports the generated code. It holds no state: everything in it may be
// used from any goroutine.
package globalid
