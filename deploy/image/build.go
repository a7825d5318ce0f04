package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
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

// build builds the last commit for an architecture in a folder of its own: a clone, since changes that
// are not committed have no revision, and the go command finds none in a worktree.
func build(ctx context.Context, work, arch string) (binary, error) {
	clone := filepath.Join(work, "source")
	if _, err := os.Stat(clone); err != nil {
		if err := run(ctx, ".", nil, "git", "clone", "--quiet", "--shared", ".", clone); err != nil {
			return binary{}, err
		}
	}
	file := filepath.Join(work, "byline-"+arch)
	target := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0"}
	if err := run(ctx, clone, target, "go", "build", "-buildvcs=true", "-trimpath", "-ldflags=-s -w", "-o", file, "."); err != nil {
		return binary{}, err
	}
	return inspect(file)
}

// run runs a program of the toolchain, with more environment variables.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, out)
	}
	return nil
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
