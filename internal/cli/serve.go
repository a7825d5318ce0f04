package cli

import (
	"context"
	"log/slog"

	"byline/internal/server"
)

type serveCommand struct {
	server.Config `embed:""`
}

// Run serves GraphQL until ctx ends.
func (c *serveCommand) Run(ctx context.Context, log *slog.Logger, listening Listening) error {
	return server.Run(ctx, c.Config, log, listening)
}
