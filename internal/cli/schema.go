package cli

import (
	"io"

	"github.com/alecthomas/kong"
)

// schemaText is the GraphQL schema, as kong binds it.
type schemaText string

type schemaCommand struct{}

// Run prints the schema.
func (schemaCommand) Run(k *kong.Context, schema schemaText) error {
	_, err := io.WriteString(k.Stdout, string(schema))
	return err
}
