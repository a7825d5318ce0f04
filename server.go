// Byline is a GraphQL gateway for a blog on Azure Cosmos DB for NoSQL. Without the endpoint of an
// account it runs on an embedded engine that speaks the same protocol.
package main

import (
	"context"
	_ "embed" // the schema
	"os"
	"os/signal"
	"syscall"

	"byline/internal/cli"
)

// schema is the GraphQL schema that is served (TestSchema_MatchesFile of graph).
//
//go:embed schema.graphqls
var schema string

func main() {
	stopping := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		stopping = append(stopping, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stopping...)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, schema, nil))
}
