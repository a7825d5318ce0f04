package console

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// Run parses args, runs the command, and returns the exit status. commands is a kong struct; the Run
// methods of its commands may take a context.Context, a
// *slog.Logger, which writes to stderr, and a *kong.Context, which has the writers.
func Run(ctx context.Context, name string, commands any, args []string, stdout, stderr io.Writer, options ...kong.Option) int {
	exit := -1
	parser, err := kong.New(commands, append([]kong.Option{kong.Name(name), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(NewLog(stderr))}, options...)...)
	if err == nil {
		var command *kong.Context
		command, err = parser.Parse(args)
		if exit >= 0 { // --help
			return exit
		}
		if err == nil {
			err = command.Run()
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", name, OneLine(err))
		return 1
	}
	return 0
}
