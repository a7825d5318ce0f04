package cli

import (
	"context"
	"io"

	"byline/internal/console"
)

type schemaCommand struct{ schema string }

// Run prints the schema.
func (c *schemaCommand) Run(_ context.Context, s console.Streams) error {
	_, err := io.WriteString(s.Stdout, c.schema)
	return err
}
