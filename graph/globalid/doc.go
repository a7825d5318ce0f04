// Package globalid encodes and parses the opaque ids of the GraphQL schema.
//
// An id is the unpadded base64url form of a byte, for the kind of object and the forms of the parts of its key, and of
// these parts, partition key first, as the bytes that they stand for. So the object with an id can be read by one point
// read, and the id of a post has 15 characters, of a user 23, of a comment or like 36.
//
// It is a separate package because the generated code needs Node, and package
// graph imports the generated code. It has no state and is safe for concurrent
// use.
package globalid
