package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

type testCommand struct {
	Names []string `name:"names" env:"BYLINE_TEST_NAMES"`
	Light bool     `name:"light" default:"true" negatable:"" env:"BYLINE_TEST_LIGHT" help:"Whether there is light."`
	Size  int      `name:"size" default:"7" help:"How large."`
}

type testCommands struct {
	Version kong.VersionFlag `help:"Print the version."`

	Show  testCommand `cmd:"" default:"withargs" help:"Show the flags."`
	Group struct {
		Inner testCommand `cmd:"" help:"An inner command."`
	} `cmd:"" help:"A group."`
	Wait otherCommand `cmd:"" help:"Wait."`
}

type loggingCommands struct {
	Log    loggingCommand `cmd:"" default:"withargs"`
	Silent otherCommand   `cmd:""`
}

type otherCommand struct {
	Wait time.Duration `name:"wait" env:"BYLINE_TEST_WAIT"`
}

func (*otherCommand) Run(context.Context, Streams) error { return nil }

func (c *testCommand) Run(_ context.Context, s Streams) error {
	_, err := fmt.Fprintf(s.Stdout, "%q %v %d", c.Names, c.Light, c.Size)
	return err
}

type loggingCommand struct {
	Fail bool          `name:"fail"`
	Wait time.Duration `name:"wait" env:"BYLINE_WAIT"`
	LogFlags
}

func (c *loggingCommand) Run(_ context.Context, s Streams) error {
	if c.Fail {
		return errors.New("no space\nleft")
	}
	s.Log.Debug("almost done")
	s.Log.Info("done", "n", 3)
	return nil
}

// runLogging runs a program whose default command logs, and returns what it writes to stderr, without times.
func runLogging(t *testing.T, args ...string) string {
	var stderr bytes.Buffer
	Program{Name: "byline", Variables: []string{"COSMOS_KEY"}, Commands: &loggingCommands{}}.Run(t.Context(), args,
		io.Discard, &stderr)
	return regexp.MustCompile(`time=\S+ |"time":"[^"]+",`).ReplaceAllString(stderr.String(), "")
}

func TestProgram_LogFlags(t *testing.T) {
	for _, tt := range []struct{ environment, args, want string }{
		{"", "", "level=INFO msg=done n=3\n"},
		{"", "--log-format text", "level=INFO msg=done n=3\n"},
		{"", "--log-format json", `{"level":"INFO","msg":"done","n":3}` + "\n"},
		{"BYLINE_LOG_FORMAT=json", "", `{"level":"INFO","msg":"done","n":3}` + "\n"},
		{"BYLINE_LOG_FORMAT=json", "--log-format text", "level=INFO msg=done n=3\n"},
		{"", "--log-level debug", "level=DEBUG msg=\"almost done\"\nlevel=INFO msg=done n=3\n"},
		{"BYLINE_LOG_LEVEL=debug", "--log-level info", "level=INFO msg=done n=3\n"},
		{"", "--fail", "byline: no space; left\n"},
		{"BYLINE_LOG_FORMAT=json", "--fail", `{"level":"ERROR","msg":"byline failed","error":"no space; left"}` + "\n"},
		{"BYLINE_WAIT=x", "--log-format json",
			`{"level":"ERROR","msg":"byline failed","error":"--wait: expected duration but got \"x\": time: invalid duration \"x\" (from envar BYLINE_WAIT=\"x\")"}` + "\n"},
		{"", "--log-format xml", `byline: --log-format must be one of "text","json" but got "xml"` + "\n"},
		{"BYLINE_LOG_FORMAT=", "", `byline: --log-format must be one of "text","json" but got ""` + "\n"},
	} {
		t.Run(tt.environment+" "+tt.args, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.environment, "="); ok {
				t.Setenv(name, value)
			}
			if got := runLogging(t, strings.Fields(tt.args)...); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestProgram(t *testing.T) {
	run := func(args ...string) (out, log string, status int) {
		var stdout, stderr bytes.Buffer
		status = Program{Name: "test", Help: "A test.", Version: "v1", Commands: &testCommands{}}.Run(t.Context(),
			args, &stdout, &stderr)
		return stdout.String(), stderr.String(), status
	}
	for _, tt := range []struct {
		args        string
		environment string // NAME=value
		out         string // of a program that succeeds
		wantErr     string // of one that fails
	}{
		{args: "", out: `[] true 7`},
		{args: "show --size=8", out: `[] true 8`},
		{args: "--names=a,b --names c", out: `["a" "b" "c"] true 7`},
		{environment: "BYLINE_TEST_NAMES=a,b", out: `["a" "b"] true 7`},
		{environment: "BYLINE_TEST_NAMES=a,b", args: "--names=c", out: `["c"] true 7`},
		{environment: "BYLINE_TEST_NAMES=", out: `[] true 7`},
		{args: "--no-light", out: `[] false 7`},
		{args: "--light=false", out: `[] false 7`},
		{environment: "BYLINE_TEST_LIGHT=false", out: `[] false 7`},
		{environment: "BYLINE_TEST_LIGHT=no", out: `[] false 7`},
		{environment: "BYLINE_TEST_LIGHT=false", args: "--light", out: `[] true 7`},
		{args: "group inner", out: `[] true 7`},
		{args: "group inner --light", out: `[] true 7`},
		{args: "group inner --light --no-light", out: `[] false 7`},
		{args: "--version", out: "v1\n"},
		{args: "group", wantErr: "inner"},
		{args: "other", wantErr: "other"},
		{args: "show other", wantErr: "unexpected argument other"},
		{args: "show -- --no-light", wantErr: "unexpected argument --no-light"},
		{args: "--size=x", wantErr: `test: --size: expected a valid 64 bit int but got "x"`},
		{args: "--light=x", wantErr: `test: --light: bool value must be true, 1, yes, false, 0 or no but got "x"`},
		{environment: "BYLINE_TEST_LIGHT=x", wantErr: `(from envar BYLINE_TEST_LIGHT="x")`},
		{environment: "BYLINE_TEST_WAIT=x", args: "wait",
			wantErr: `invalid duration "x" (from envar BYLINE_TEST_WAIT="x")`},
		{environment: "BYLINE_TEST_WAIT=x", args: "show", out: `[] true 7`}, // not a variable of this command
		{args: "wait --wait=5", wantErr: `missing unit in duration "5"`},
		{args: "--other", wantErr: "other"},
		{args: "--no-size", wantErr: "no-size"},
	} {
		t.Run(strings.TrimSpace(tt.environment+" test "+tt.args), func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.environment, "="); ok {
				t.Setenv(name, value)
			}
			out, log, status := run(strings.Fields(tt.args)...)
			if tt.wantErr == "" && (status != 0 || out != tt.out || log != "") {
				t.Errorf("status %d, %s%s; want %s", status, out, log, tt.out)
			}
			if tt.wantErr != "" &&
				(status != 1 || !strings.Contains(log, tt.wantErr) || strings.Count(log, "\n") != 1) {
				t.Errorf("status %d: %s; want an error with %s", status, log, tt.wantErr)
			}
		})
	}
	for args, want := range map[string][]string{
		"--help": {"Usage: test <command> [flags]", "  show           Show the flags.",
			"  group inner    An inner command."},
		"show -h":          {"Usage: test show [flags]"},
		"help":             {"Usage: test <command> [flags]"},
		"help group inner": {"Usage: test group inner [flags]", "--size=7 "},
		"group --help":     {"Usage: test group <command> [flags]", "  group inner    An inner command."},
		"group inner --help": {"Usage: test group inner [flags]", "--size=7 ",
			"--[no-]light         Whether there is light ($BYLINE_TEST_LIGHT).\n"},
	} {
		out, log, status := run(strings.Fields(args)...)
		if missing := slices.DeleteFunc(want, func(s string) bool {
			return strings.Contains(out, s)
		}); status != 0 || log != "" || len(missing) > 0 {
			t.Errorf("%s: status %d, %s, without %q: %s", args, status, log, missing, out)
		}
	}
}
