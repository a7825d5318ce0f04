package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/alecthomas/kong"
)

// Program is a program with commands.
type Program struct {
	Name      string
	Help      string   // one line
	Commands  any      // a pointer to a kong struct, whose commands have Run(context.Context, Streams) error
	Version   string   // of a kong.VersionFlag of Commands
	Variables []string // environment variables that commands read, besides those of flags
}

// Streams are the outputs of a command: results go to Stdout, all else to Stderr, to which Log writes, too.
type Streams struct {
	Stdout, Stderr io.Writer
	Log            *slog.Logger
	logFlags       LogFlags
}

// Run parses args, runs the command, and returns the exit status. A command's flags override their environment
// variables. Before a command with LogFlags runs, unknown environment variables are logged.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := Streams{Stdout: stdout, Stderr: stderr, Log: newLog(stderr, LogFlags{})}
	err := p.run(ctx, args, &s)
	switch {
	case err == nil:
		return 0
	case s.logFlags.LogFormat == jsonFormat:
		s.Log.Error(p.Name+" failed", "error", oneLine(err))
	default:
		fmt.Fprintf(stderr, "%s: %s\n", p.Name, oneLine(err))
	}
	return 1
}

// run sets the log of s to the format and level that the command's flags name.
func (p Program) run(ctx context.Context, args []string, s *Streams) error {
	helped := false // or printed the version
	parser, err := kong.New(p.Commands, kong.Name(p.Name), kong.Description(p.Help), kong.Vars{"version": p.Version},
		kong.Writers(s.Stdout, s.Stderr), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: helpWidth}))
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "help" { // as other programs have it: "byline help serve"
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(args)
	if helped {
		return nil
	}
	var invalid *kong.ParseError
	if errors.As(err, &invalid) {
		parsed = invalid.Context
	}
	flags, logs := logFlagsOf(parsed)
	if logs {
		s.logFlags, s.Log = flags, newLog(s.Stderr, flags)
	}
	if err != nil {
		return err
	}
	if logs {
		p.warnUnknown(s.Log, parser.Model.Node, os.Environ())
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(*s)
}

const helpWidth = 100 // columns

// logFlagsOf returns the LogFlags of a command, and whether it has them.
func logFlagsOf(command *kong.Context) (flags LogFlags, ok bool) {
	if command == nil {
		return LogFlags{}, false
	}
	for _, f := range command.Flags() {
		switch f.Name {
		case logFormatFlag:
			flags.LogFormat, _ = command.FlagValue(f).(string)
			ok = true
		case logLevelFlag:
			flags.LogLevel, _ = command.FlagValue(f).(string)
		}
	}
	return flags, ok
}

// environment returns the environment variables of the flags of a command and of those below it.
func environment(command *kong.Node) (all []string) {
	for _, f := range command.Flags {
		all = append(all, f.Envs...)
	}
	for _, c := range command.Children {
		all = append(all, environment(c)...)
	}
	return all
}
