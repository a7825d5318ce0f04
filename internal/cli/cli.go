package cli

import (
	"context"
	"io"
	"net"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"byline/internal/account"
	"byline/internal/console"
)

// commands are the commands of byline.
type commands struct {
	Version kong.VersionFlag `help:"Print the version."`

	Serve     serveCommand     `cmd:"" default:"withargs" help:"Serve GraphQL. The default command. Sends traces to OTEL_EXPORTER_OTLP_ENDPOINT if that is set."`
	Emulator  Emulator         `cmd:"" help:"Serve the embedded engine alone, to any Cosmos DB SDK."`
	Provision provisionCommand `cmd:"" help:"Create, compare or print the database and its containers."`
	Views     viewsCommand     `cmd:"" help:"Inspect and repair projections."`
	Export    exportCommand    `cmd:"" help:"Write everything that is stored about a user as JSON lines."`
	Seed      seedCommand      `cmd:"" help:"Load a blog of any size. An interrupted load resumes when run again."`
	Explain   explainCommand   `cmd:"" help:"Predict the requests and request units of a GraphQL document without executing it. Exit status 1 if the default limits would refuse an operation."`
	Schema    schemaCommand    `cmd:"" help:"Print the GraphQL schema."`
}

// Listening is called with the address when a server accepts connections. It may be nil.
type Listening func(net.Addr)

// Run parses args, runs the command until it is done or ctx ends, and returns the
// exit status. schema is the GraphQL schema that is served. listening, if it is not nil, is called
// with the address when a server accepts connections.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, schema string, listening Listening) int {
	tuneMemory()
	info, _ := debug.ReadBuildInfo()
	return console.Program{
		Name:      "byline",
		Help:      "A GraphQL gateway for a blog on Azure Cosmos DB, with an embedded engine for development.",
		Version:   version(info),
		Variables: []string{account.KeyVariable, account.SessionKeyVariable},
		Commands: &commands{
			Serve:    serveCommand{listening: listening},
			Emulator: Emulator{listening: listening},
			Schema:   schemaCommand{schema: schema},
		},
	}.Run(ctx, args, stdout, stderr)
}
