package cli

import (
	"context"
	"io"
	"net"
	"runtime/debug"

	"byline/internal/account"
	"byline/internal/console"
	"byline/internal/server"
)

// program has the commands of byline. A flag overrides its environment variable, which overrides the
// default.
func program(schema string, listening Listening) console.Program {
	info, _ := debug.ReadBuildInfo()
	return console.Program{
		Name:    "byline",
		Help:    "A GraphQL gateway for a blog on Azure Cosmos DB, with an embedded engine for development.",
		Version: version(info),
		Default: "serve",

		Variables: []string{account.KeyVariable, account.SessionKeyVariable},
		Commands: []console.Command{
			{Name: "serve", Run: &serveCommand{Config: server.Config{Demo: true}, listening: listening}, Help: "Serve GraphQL. The default command. Sends traces to OTEL_EXPORTER_OTLP_ENDPOINT if that is set."},
			{Name: "emulator", Run: &Emulator{Sync: true, listening: listening}, Help: "Serve the embedded engine alone, to any Cosmos DB SDK."},
			{Name: "provision", Run: &provisionCommand{}, Help: "Create, compare or print the database and its containers."},
			{Name: "views", Help: "Inspect and repair projections.", Commands: []console.Command{
				{Name: "status", Run: &viewsStatus{}, Help: "Show the owner and the lag of each feed range, and the jobs."},
				{Name: "verify", Run: &viewsVerify{}, Help: "Compare every view, count, name and the feed with its source. Exit status 1 if anything differs."},
				{Name: "repair", Run: &viewsRepair{}, Help: "Repair the differences that verify finds."},
				{Name: "rebuild", Run: &viewsRebuild{}, Help: "Replay the change feed from its beginning and repair every view. Instances may keep serving."},
			}},
			{Name: "export", Run: &exportCommand{}, Help: "Write everything that is stored about a user as JSON lines."},
			{Name: "seed", Run: &seedCommand{}, Help: "Load a blog of any size. An interrupted load resumes when run again."},
			{Name: "explain", Run: &explainCommand{}, Help: "Predict the requests and request units of a GraphQL document without executing it. Exit status 1 if the default limits would refuse an operation."},
			{Name: "schema", Run: &schemaCommand{schema: schema}, Help: "Print the GraphQL schema."},
		},
	}
}

// Listening is called with the address when a server accepts connections. It may be nil.
type Listening func(net.Addr)

// Run parses args, runs the command until it is done or ctx ends, and returns the
// exit status. schema is the GraphQL schema that is served. listening, if it is not nil, is called
// with the address when a server accepts connections.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, schema string, listening Listening) int {
	return program(schema, listening).Run(ctx, args, stdout, stderr)
}
