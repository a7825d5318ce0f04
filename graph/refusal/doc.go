// Package refusal has the error by which the GraphQL edge refuses an operation before it
// reaches the store: with a code for extensions.code, a message for the client, and a cause for
// the operator. Package graph converts it to a response; the packages below graph return it.
package refusal
