package cli

import (
	"fmt"
	"io"
	"net"

	"github.com/alecthomas/kong"
)

// Commands are the commands beside serve. They need a Listening and a Schema to be bound.
type Commands struct {
	Emulator Emulator       `cmd:"" help:"Serve the embedded engine alone, to any Cosmos DB SDK."`
	Views    viewsCommands  `cmd:"" help:"Inspect and repair projections."`
	Seed     seedCommand    `cmd:"" help:"Load a blog of any size. May be interrupted and run again."`
	Explain  explainCommand `cmd:"" help:"Predict what a GraphQL document reads, and its request units, without running it."`
	Schema   schemaCommand  `cmd:"" help:"Print the GraphQL schema."`
}

// Listening is called with its address when a server accepts connections; nil calls nothing.
type Listening func(net.Addr)

// Schema is the GraphQL schema that is served.
type Schema string

type schemaCommand struct{}

// Run prints the schema.
func (schemaCommand) Run(k *kong.Context, schema Schema) error {
	_, err := io.WriteString(k.Stdout, string(schema))
	return err
}

// Help prints the help of a command; for the whole program, the commands and then the flags of
// serve, the default.
func Help(o kong.HelpOptions, c *kong.Context) error {
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
