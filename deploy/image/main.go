// Image builds Byline's container image of the last commit, for linux/amd64 and linux/arm64, with the Go
// toolchain and git alone:
//
//	go -C deploy/image run .
//
// It writes an OCI layout of both and, for each, an archive that docker load and podman load take. The same commit
// and the same Go make the same image, to the bit, in any folder and on any machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"byline/internal/console"
)

type command struct {
	To     string   `name:"to" placeholder:"DIR" help:"Directory to write to, relative to deploy/image with go -C. Default: dist in the repository."`
	Arch   []string `name:"arch" default:"amd64,arm64" help:"Architectures, separated by commas."`
	Site   string   `name:"site" placeholder:"DIR" help:"Built front end, which the image has at /site, for --site. Relative to deploy/image with go -C."`
	Source string   `name:"source" placeholder:"URL" help:"Address of the repository, for the label org.opencontainers.image.source. Default: no such label."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(console.Program{Name: "image", Help: "Container images of Byline.", Commands: &struct {
		Build command `cmd:"" default:"withargs" help:"Build the container image of the last commit."`
	}{}}.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Run builds the images, writes them, and prints where they are.
func (c *command) Run(ctx context.Context, s console.Streams) error {
	for _, arch := range c.Arch {
		if arch != "amd64" && arch != "arm64" {
			return fmt.Errorf("--arch %q: there are amd64 and arm64", arch)
		}
	}
	if len(c.Arch) == 0 {
		return errors.New("--arch is empty")
	}
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").CombinedOutput()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w: %s", err, out)
	}
	repository := strings.TrimSpace(string(out))
	to := cmp.Or(c.To, filepath.Join(repository, "dist"))
	work, err := os.MkdirTemp("", "byline-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var all []image
	for _, arch := range c.Arch {
		s.Log.Info("building", "platform", "linux/"+arch)
		b, err := build(ctx, repository, work, arch, s.Log)
		if err != nil {
			return err
		}
		i, err := newImage(b, c.Source, c.Site)
		if err != nil {
			return err
		}
		all = append(all, i)
	}
	layout := filepath.Join(to, "oci")
	digest, err := writeLayout(layout, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "%s:%s %s\n", layout, all[0].version, digest)
	for _, i := range all {
		file := filepath.Join(to, "byline-linux-"+i.arch+".tar")
		if err := writeArchive(file, i); err != nil {
			return err
		}
		size, err := i.compressedSize()
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Stdout, "%s %.1f MB compressed\n", file, float64(size)/1e6)
	}
	return nil
}
