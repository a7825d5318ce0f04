// Image builds Byline's container image of the last commit, for linux/amd64 and linux/arm64, with the Go
// toolchain and git alone:
//
//	go run ./deploy/image
//
// It writes an OCI layout of both and, for each, an archive that docker load and podman load take. The same commit
// and the same Go make the same image, to the bit, in any folder and on any machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"byline/internal/console"
)

type command struct {
	To     string   `name:"to" default:"dist" placeholder:"DIR" help:"Directory to write to."`
	Arch   []string `name:"arch" default:"amd64,arm64" help:"Architectures, separated by commas."`
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
	work, err := os.MkdirTemp("", "byline-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var all []image
	for _, arch := range c.Arch {
		s.Log.Info("building", "platform", "linux/"+arch)
		b, err := build(ctx, work, arch, s.Log)
		if err != nil {
			return err
		}
		i, err := newImage(b, c.Source)
		if err != nil {
			return err
		}
		all = append(all, i)
	}
	layout := filepath.Join(c.To, "oci")
	digest, err := writeLayout(layout, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "%s:%s %s\n", layout, all[0].version, digest)
	for _, i := range all {
		file := filepath.Join(c.To, "byline-linux-"+i.arch+".tar")
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
