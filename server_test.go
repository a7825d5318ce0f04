package main

import (
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"byline/internal/cli"
	"byline/internal/servertest"
	"byline/internal/testkit"
)

// TestMain makes the test binary the byline program if servertest has started it.
func TestMain(m *testing.M) {
	if servertest.IsProgram() {
		main()
	}
	testkit.Exit(m.Run())
}

// TestMain_ImportsOnlyCLI: package main has no logic of its own.
func TestMain_ImportsOnlyCLI(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := regexp.MustCompile(`(?m)^(?:byline/|[^/\n]+\.[^/\n]+/).*$`).FindAllString(string(out), -1),
		[]string{"byline/internal/cli"}; !slices.Equal(got, want) {
		t.Errorf("main imports %q, want %q", got, want)
	}
}

func TestSignal_Stops(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // the program inherits signals that the tests ignore, such as under nohup
	defer signal.Stop(caught)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			p := servertest.StartProcess(t, "--data", t.TempDir(), "--no-demo")
			if err := p.Cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if err := p.Cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, p.Log)
			}
			if !strings.Contains(p.Log.String(), " instance=embedded") {
				t.Errorf("the owner of the leases is not logged: %s", p.Log)
			}
		})
	}
}

// TestSignal_SecondEndsProcess: after the first signal the server waits for an active request; the second ends
// the process at once.
func TestSignal_SecondEndsProcess(t *testing.T) {
	p := servertest.StartProcess(t, "--data", t.TempDir(), "--no-demo")
	servertest.BeginRequest(t, p.Root)
	ended := make(chan error, 1)
	go func() { ended <- p.Cmd.Wait() }()
	for {
		_ = p.Cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
		select {
		case err := <-ended:
			if want := "signal: terminated"; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestSchemaCommand(t *testing.T) {
	file, err := os.ReadFile("schema.graphqls")
	if err != nil {
		t.Fatal(err)
	}
	var out, help servertest.Output
	if status := cli.Run(t.Context(), []string{"schema"}, &out, io.Discard, schema, nil); status != 0 ||
		out.String() != string(file) {
		t.Errorf("exit status %d: %s", status, &out)
	}
	if cli.Run(t.Context(), []string{"--help"}, &help, io.Discard, schema, nil); !strings.Contains(help.String(),
		"Print the GraphQL schema") {
		t.Errorf("--help does not name the command schema: %s", &help)
	}
}

func TestToolsMatchGoMod(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "tools.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
	}
	out, err := exec.Command("go", "list", "tool").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got) // go list prints them in any order
	if !slices.Equal(got, want) {
		t.Errorf("go.mod has the tools %v, tools.go %v", got, want)
	}
}
