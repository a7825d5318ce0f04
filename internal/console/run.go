package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jessevdk/go-flags"
)

// Program is a program with commands.
type Program struct {
	Name     string
	Help     string // one line
	Version  string // what --version prints; "" for no such flag
	Commands []Command
	Default  string // name of the command that runs if args name none; "" if a command is required

	Variables []string // environment variables that commands read, besides those of flags
}

// Command is a command, or a group of commands.
type Command struct {
	Name     string
	Help     string
	Run      Runner    // nil in a group
	Commands []Command // of a group
}

// Runner runs a command. It points to a struct whose fields are the flags of the command, with the tags of go-flags.
// Before a command that embeds LogFlags runs, unknown environment variables are logged.
type Runner interface {
	Run(context.Context, Streams) error
}

// Streams are the outputs of a command: results go to Stdout, all else to Stderr, to which Log writes, too.
type Streams struct {
	Stdout, Stderr io.Writer
	Log            *slog.Logger
	logFormat      logFormat
}

// Run parses args, runs the command, and returns the exit status.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := Streams{Stdout: stdout, Stderr: stderr, Log: newLog(stderr, "")}
	err := p.run(ctx, args, &s)
	switch {
	case err == nil:
		return 0
	case s.logFormat == jsonFormat:
		s.Log.Error(p.Name+" failed", "error", oneLine(err))
	default:
		fmt.Fprintf(stderr, "%s: %s\n", p.Name, oneLine(err))
	}
	return 1
}

// run sets the log of s to the format that the command's flags name.
func (p Program) run(ctx context.Context, args []string, s *Streams) error {
	parser := flags.NewNamedParser(p.Name, flags.HelpFlag|flags.PassDoubleDash|flags.AllowBoolValues)
	runners := map[*flags.Command]Runner{}
	if err := addCommands(parser.Command, p.Commands, runners); err != nil {
		return err
	}
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	if first == "help" { // as other programs have it: "byline help serve"
		args = append(slices.Clone(args[1:]), "--help")
		first = args[0]
	}
	switch {
	case first == "--help" || first == "-h":
		p.help(s.Stdout, parser)
		return nil
	case first == "--version" && p.Version != "":
		_, err := fmt.Fprintln(s.Stdout, p.Version)
		return err
	case p.Default != "" && (first == "" || strings.HasPrefix(first, "-")):
		args = append([]string{p.Default}, args...)
	}
	rest, err := parser.ParseArgs(switchesOff(parser, args))
	name, command := p.Name, parser.Command
	for command.Active != nil {
		command = command.Active
		name += " " + command.Name
	}
	logs, isLogging := runners[command].(interface{ format() logFormat })
	if isLogging {
		s.logFormat = logs.format()
		s.Log = newLog(s.Stderr, s.logFormat)
	}
	var ferr *flags.Error
	switch {
	case errors.As(err, &ferr) && ferr.Type == flags.ErrHelp:
		printCommand(s.Stdout, name, command)
		return nil
	case errors.As(err, &ferr) && ferr.Type == flags.ErrMarshal:
		return invalidValue(ferr, parser.Command)
	case err != nil:
		return err
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %s", rest[0])
	}
	if isLogging {
		p.warnUnknown(s.Log, parser.Command, os.Environ())
	}
	return runners[command].Run(ctx, *s)
}

// marshalError matches go-flags' message about a value that it cannot parse.
var marshalError = regexp.MustCompile("^invalid argument for flag `--(.+?)'(?: \\(expected .+?\\))?: (?:strconv\\.\\w+: |time: )?(.*)$")

// invalidValue returns an error that names the flag or environment variable with an invalid value, without
// go-flags' names of Go types.
func invalidValue(err *flags.Error, commands *flags.Command) error {
	m := marshalError.FindStringSubmatch(err.Message)
	if m == nil {
		return err
	}
	if variable := variableOf(commands, m[1]); variable != "" {
		return fmt.Errorf("%s: %s", variable, m[2])
	}
	return fmt.Errorf("--%s: %s", m[1], m[2])
}

// variableOf returns the environment variable that an option was read from, or "". go-flags reads the variables
// of all commands, whichever runs, and none if an argument is invalid.
func variableOf(command *flags.Command, option string) string {
	if o := command.FindOptionByLongName(option); o != nil && o.IsSetDefault() {
		return "$" + o.EnvDefaultKey
	}
	for _, c := range command.Commands() {
		if v := variableOf(c, option); v != "" {
			return v
		}
	}
	return ""
}

func addCommands(to *flags.Command, all []Command, runners map[*flags.Command]Runner) error {
	for _, c := range all {
		var fields any = &struct{}{}
		if c.Run != nil {
			fields = c.Run
		}
		added, err := to.AddCommand(c.Name, c.Help, c.Help, fields)
		if err != nil {
			return err
		}
		runners[added] = c.Run
		if err := addCommands(added, c.Commands, runners); err != nil {
			return err
		}
	}
	return nil
}

// Switch is a flag that may be on by default: --name=false and --no-name turn it off.
type Switch bool

// UnmarshalFlag implements flags.Unmarshaler.
func (s *Switch) UnmarshalFlag(value string) error {
	switch strings.ToLower(value) {
	case "yes":
		value = "true"
	case "no":
		value = "false"
	}
	on, err := strconv.ParseBool(value)
	*s = Switch(on)
	return err
}

// switchesOff replaces --no-name by --name=false for each Switch of the command in args.
func switchesOff(parser *flags.Parser, args []string) []string {
	command := parser.Command
	args = slices.Clone(args)
	for i, a := range args {
		if a == "--" {
			break
		}
		if sub := command.Find(a); sub != nil {
			command = sub
		}
		name, off := strings.CutPrefix(a, "--no-")
		if !off {
			continue
		}
		if o := command.FindOptionByLongName(name); o != nil {
			if _, ok := o.Value().(Switch); ok {
				args[i] = "--" + name + "=false"
			}
		}
	}
	return args
}

// List is a flag whose values are separated by commas.
type List []string

// UnmarshalFlag implements flags.Unmarshaler.
func (l *List) UnmarshalFlag(value string) error {
	if value != "" { // an environment variable may be empty
		*l = append(*l, strings.Split(value, ",")...)
	}
	return nil
}
