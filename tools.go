//go:build tools

// The generator this module is built with. The go.mod tool block is what runs
// it (go tool gqlgen generate); this file keeps the same list visible to tooling
// that predates that block.
package main

import _ "github.com/99designs/gqlgen"
