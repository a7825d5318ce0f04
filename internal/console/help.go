package console

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/jessevdk/go-flags"
)

const helpWidth = 80 // columns

// help prints the commands, and then the flags of the default one.
func (p Program) help(w io.Writer, parser *flags.Parser) {
	fmt.Fprintf(w, "Usage: %s <command> [flags]\n\n%s\n\nCommands:\n", p.Name, wrap(p.Help, ""))
	printCommands(w, "", p.Commands)
	fmt.Fprintf(w, "\n\"%s <command> --help\" prints the flags of a command", p.Name)
	if p.Version != "" {
		fmt.Fprintf(w, ", \"%s --version\" the version", p.Name)
	}
	fmt.Fprintln(w, ".")
	if p.Default != "" {
		fmt.Fprintln(w)
		printCommand(w, p.Name+" "+p.Default, parser.Find(p.Default))
	}
}

// printCommands prints what each command does.
func printCommands(w io.Writer, group string, all []Command) {
	for _, c := range all {
		if c.Run != nil {
			printEntry(w, group+c.Name, c.Help)
		}
		printCommands(w, group+c.Name+" ", c.Commands)
	}
}

// printCommand prints the flags of a command, or the commands of a group. name includes the program's.
func printCommand(w io.Writer, name string, c *flags.Command) {
	usage := name
	if len(c.Commands()) > 0 {
		usage += " <command>"
	}
	for _, a := range c.Args() {
		usage += " " + a.Name
	}
	for _, o := range c.Options() {
		if o.Required {
			usage += " " + usageOf(o)
		}
	}
	fmt.Fprintf(w, "Usage: %s [flags]\n\n%s\n\n", usage, wrap(c.ShortDescription, ""))
	for _, sub := range c.Commands() {
		printEntry(w, sub.Name, sub.ShortDescription)
	}
	for _, a := range c.Args() {
		printEntry(w, a.Name, a.Description)
	}
	for _, o := range c.Options() {
		about := o.Description
		if o.EnvDefaultKey != "" {
			about += " ($" + o.EnvDefaultKey + ")"
		}
		printEntry(w, usageOf(o), about)
	}
}

// usageOf returns a flag with its default, or the kind of its value.
func usageOf(o *flags.Option) string {
	switch o.Value().(type) {
	case bool:
		return "--" + o.LongName
	case Switch:
		return "--[no-]" + o.LongName
	}
	return "--" + o.LongName + "=" + cmp.Or(strings.Join(o.Default, ","), o.ValueName)
}

// printEntry prints a name and, below it, its description.
func printEntry(w io.Writer, name, about string) {
	const indent = "      "
	fmt.Fprintf(w, "  %s\n%s%s\n", name, indent, wrap(about, indent))
}

// wrap breaks a text into lines for a terminal, and indents all but the first.
func wrap(s, indent string) string {
	lines := strings.Split(text.WrapSoft(s, helpWidth-len(indent)), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ") // WrapSoft pads
	}
	return strings.Join(lines, "\n"+indent)
}
