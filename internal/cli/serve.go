package cli

import (
	"context"

	"byline/internal/console"
	"byline/internal/server"
)

type serveCommand struct {
	server.Config
	console.LogFlags
	listening Listening
}

// Run serves GraphQL until ctx ends.
func (c *serveCommand) Run(ctx context.Context, s console.Streams) error {
	return server.Run(ctx, c.Config, s.Log, c.listening)
}
