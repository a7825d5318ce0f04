package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
)

// ProgramEnv is an entry of an environment, name=value, that makes a test binary byline.
const ProgramEnv = programVariable + "=1"

const programVariable = "BYLINE_TEST_MAIN"

// IsProgram reports whether this process was started by Command or StartProcess.
func IsProgram() bool { return os.Getenv(programVariable) != "" }

// Process is a server as a process of its own.
type Process struct {
	Instance // without Stop
	Cmd      *exec.Cmd
}

// Command returns a byline command that is a process of its own, this test binary.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), ProgramEnv)
	return cmd
}

// StartProcess is Start in a process of its own.
func StartProcess(t testing.TB, args ...string) *Process {
	t.Helper()
	return StartCommand(t, Command(append([]string{"--listen", "localhost:0"}, args...)...))
}

// StartCommand starts a byline command that serves, of any version, and waits until it listens.
func StartCommand(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Instance: Instance{T: t, Log: &Output{}}, Cmd: cmd}
	p.Cmd.Stderr = p.Log
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	address := regexp.MustCompile(`\blistening\b.*\baddress(?:=|":")([^\s"]+)`)
	testkit.Until(t, func() error {
		m := address.FindStringSubmatch(p.Log.String())
		if m == nil {
			return fmt.Errorf("not listening: %s", p.Log)
		}
		p.Root = "http://" + m[1]
		return nil
	})
	return p
}

// Kill sends SIGKILL and waits for the end of the process.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.Cmd.Wait()
}

// BeginRequest sends the header of a request, waits for 100 Continue, and returns the connection.
func BeginRequest(t testing.TB, root string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprint(c, "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatal(line, err)
	}
	return c
}

// Status reads a response and returns its status and header; 0 if the connection ends before one.
func Status(t testing.TB, c net.Conn) (int, http.Header) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("neither a response nor the end of the connection")
	}
	if err != nil {
		return 0, nil
	}
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode, r.Header
}
