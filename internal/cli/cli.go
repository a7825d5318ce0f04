package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"byline/internal/console"
)

// commands are the commands of byline. A flag overrides its environment
// variable, which overrides the default.
type commands struct {
	Serve     serveCommand     `cmd:"" default:"withargs" help:"Serve GraphQL. The default command. Sends traces to OTEL_EXPORTER_OTLP_ENDPOINT if that is set."`
	Emulator  Emulator         `cmd:"" help:"Serve the embedded engine alone, to any Cosmos DB SDK."`
	Provision provisionCommand `cmd:"" help:"Create, compare or print the database and its containers."`
	Views     viewsCommands    `cmd:"" help:"Inspect and repair projections."`
	Export    exportCommand    `cmd:"" help:"Write everything that is stored about a user as JSON lines."`
	Seed      seedCommand      `cmd:"" help:"Load a blog of any size. An interrupted load resumes when run again."`
	Explain   explainCommand   `cmd:"" help:"Predict the requests and request units of a GraphQL document without executing it."`
	Schema    schemaCommand    `cmd:"" help:"Print the GraphQL schema."`

	Version kong.VersionFlag `help:"Print the version, the revision, and the versions of Go and azcosmos."`
}

// Listening is called with the address when a server accepts connections; nil is not called.
type Listening func(net.Addr)

// Run parses args, runs the command until it is done or ctx ends, and returns the
// exit status. schema is the GraphQL schema that is served. listening, if it is not nil, is called
// with the address when a server accepts connections.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, schema string, listening Listening) int {
	info, _ := debug.ReadBuildInfo()
	return console.Run(ctx, "byline", &commands{}, args, stdout, stderr, kong.Help(help), kong.Bind(listening, schemaText(schema)), kong.Vars{"version": version(info)},
		kong.Description("A GraphQL gateway for a blog on Azure Cosmos DB, with an embedded engine for development."))
}

// help prints the help of a command; for the whole program, the commands and then the flags of
// serve, the default.
func help(o kong.HelpOptions, c *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, c); err != nil || c.Selected() != nil {
		return err
	}
	serve, err := kong.Trace(c.Kong, []string{"serve"})
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout)
	return kong.DefaultHelpPrinter(o, serve)
}
