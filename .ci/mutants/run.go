package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// outcome is what became of a mutant.
type outcome int

const (
	survived outcome = iota
	caught
	caughtAbove
	hangs
	notCompiled
)

func (o outcome) String() string {
	return [...]string{"SURVIVED", "caught by ", "caught above, by ", "HANGS in ", "does not compile"}[o]
}

// tests runs the tests of packages.
type tests struct {
	dir      string // for binaries and temporary files
	packages *packages
	limits   map[string]time.Duration // by import path
}

// try runs the tests with a flag of go that applies a mutant, until a package's fail.
func (t *tests) try(ctx context.Context, overlay string) (result outcome, by string, err error) {
	for _, p := range t.packages.tests {
		binary, err := t.compile(ctx, p, overlay)
		if err != nil {
			return notCompiled, "", ctx.Err()
		}
		failed, hung := t.fails(ctx, p, binary, overlay)
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		if !hung && failed == "" {
			continue
		}
		if err := t.passes(ctx, p); err != nil {
			return 0, "", err
		}
		switch {
		case hung:
			return hangs, filepath.Base(p.Dir) + "." + failed, nil
		case p.ImportPath == t.packages.path:
			return caught, failed, nil
		}
		return caughtAbove, filepath.Base(p.Dir) + "." + failed, nil
	}
	return survived, "", nil
}

// passes checks that the tests of a package pass without a mutant, unless they have passed with one.
func (t *tests) passes(ctx context.Context, p listed) error {
	if t.limits[p.ImportPath] > 0 {
		return nil
	}
	binary, err := t.compile(ctx, p, "")
	if err != nil {
		return err
	}
	if output, err := t.run(ctx, p, binary, "", ""); err != nil {
		return fmt.Errorf("%s fails without a mutant: %w\n%s", p.ImportPath, err, output)
	}
	return nil
}

// compile builds the test binary of a package.
func (t *tests) compile(ctx context.Context, p listed, overlay string) (binary string, err error) {
	binary = filepath.Join(t.dir, "tests")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, p.ImportPath)
	command.Env = environment(t.dir, overlay)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile: %w\n%s", p.ImportPath, err, output)
	}
	return binary, nil
}

// fails returns the test of a package that fails twice, or that hangs.
func (t *tests) fails(ctx context.Context, p listed, binary, overlay string) (test string, hung bool) {
	alone := ""
	for range 3 {
		output, err := t.run(ctx, p, binary, overlay, alone)
		test, hung = failure(output)
		switch {
		case hung || errors.Is(err, context.DeadlineExceeded):
			return test, true
		case err == nil && alone == "":
			return "", false
		case err != nil && test != "" && test == alone, err != nil && test == "":
			return cmp.Or(test, string(reason.Find(output)), "exit of its tests"), false
		case err == nil:
			alone = "" // it passes alone: run all again
		default:
			alone = test
		}
	}
	return test + " (not alone)", false
}

// run runs a test binary, or one of its tests, as go test does. When all pass, their time sets the limit.
func (t *tests) run(ctx context.Context, p listed, binary, overlay, test string) ([]byte, error) {
	limit := cmp.Or(t.limits[p.ImportPath], 10*time.Minute)
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second) // the binary ends itself before
	defer cancel()
	command := exec.CommandContext(ctx, binary, "-test.paniconexit0", "-test.failfast", "-test.timeout="+limit.String())
	if test != "" {
		command.Args = append(command.Args, "-test.run=^"+test+"$")
	}
	if p.slow() {
		command.Args = append(command.Args, "-test.short")
	}
	command.Dir, command.Env = p.Dir, environment(t.dir, overlay)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	began := time.Now()
	output, err := command.CombinedOutput()
	if err == nil && test == "" {
		t.limits[p.ImportPath] = max(time.Minute, t.limits[p.ImportPath], 3*time.Since(began))
	}
	_ = command.Cancel() // the processes that the tests have left
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return output, err
}

// environment passes the overlay to what tests build, too.
func environment(dir, overlay string) []string {
	return append(os.Environ(), "TMPDIR="+dir, "GOFLAGS="+os.Getenv("GOFLAGS")+" "+overlay)
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	hungTest   = regexp.MustCompile(`panic: test timed out after .*\n(?:\s*running tests:\n\s*(\S+))?`)
	reason     = regexp.MustCompile(`(?m)^(panic|fatal error|goleak|FAIL|\S+_test.go).*`)
)

// failure returns the test that the output of a test binary names first, and whether it hangs.
func failure(output []byte) (test string, hung bool) {
	if hung := hungTest.FindSubmatch(output); hung != nil {
		return string(hung[1]), true
	}
	if failed := failedTest.FindSubmatch(output); failed != nil {
		return string(failed[1]), false
	}
	return "", false
}

// limitMemory keeps a mutant that allocates without end from taking the memory of the machine.
func limitMemory() {
	_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 16 << 30, Max: 16 << 30})
}
