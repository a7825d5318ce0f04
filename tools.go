//go:build tools

// The tools of the tool block in go.mod (go tool gqlgen generate, go tool staticcheck ./...), as
// imports, for tooling that does not read that block.
package main

import (
	_ "github.com/99designs/gqlgen"
	_ "honnef.co/go/tools/cmd/staticcheck"
)
