package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// binary is a static byline for linux, with its recorded build information.
type binary struct {
	file, arch        string
	version, revision string
	committed         time.Time
}

// build builds the repository's last commit for an architecture in a folder of its own: a clone, since changes that
// are not committed have no revision, and the go command finds none in a worktree.
func build(ctx context.Context, repository, work, arch string, log *slog.Logger) (binary, error) {
	clone := filepath.Join(work, "source")
	if _, err := os.Stat(clone); err != nil {
		cmd := exec.CommandContext(ctx, "git", "clone", "--quiet", "--shared", repository, clone)
		if out, err := cmd.CombinedOutput(); err != nil {
			return binary{}, fmt.Errorf("git clone: %w: %s", err, out)
		}
	}
	file := filepath.Join(work, "byline-"+arch)
	target := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0"}
	compiled := &compiledPackages{log: log}
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-buildvcs=true", "-trimpath", "-ldflags=-s -w",
		"-o", file, ".")
	cmd.Dir, cmd.Env, cmd.Stderr = clone, append(os.Environ(), target...), compiled
	if err := cmd.Run(); err != nil {
		return binary{}, fmt.Errorf("go build: %w: %s", err, &compiled.output)
	}
	return inspect(file)
}

// compiledPackages reads the output of go build -v, a line for each package that it compiles, and logs every 50th: a
// first build compiles all of them, which takes minutes.
type compiledPackages struct {
	log    *slog.Logger
	output bytes.Buffer
	logged int
}

// Write implements io.Writer.
func (c *compiledPackages) Write(b []byte) (int, error) {
	c.output.Write(b)
	if n := bytes.Count(c.output.Bytes(), []byte{'\n'}); n >= c.logged+50 {
		c.logged = n
		c.log.Info("compiling", "packages", n)
	}
	return len(b), nil
}

// inspect reads the build information of a binary.
func inspect(file string) (binary, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return binary{}, err
	}
	b := binary{file: file, version: strings.TrimPrefix(cmp.Or(info.Main.Version, "(devel)"), "v")}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOARCH":
			b.arch = s.Value
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.time":
			if b.committed, err = time.Parse(time.RFC3339, s.Value); err != nil {
				return binary{}, fmt.Errorf("vcs.time of %s: %w", file, err)
			}
		}
	}
	if b.revision == "" {
		return binary{}, fmt.Errorf("%s has no revision: is this a git repository with a commit?", file)
	}
	return b, nil
}
