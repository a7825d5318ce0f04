// Package refusal is the error with which the GraphQL edge refuses an operation before
// the store sees it: a code of the closed set that clients find in extensions.code, a
// message that they may read, and the cause, which only the operator may. Package graph
// turns it into a response; the packages below graph return it. It holds no state.
package refusal
