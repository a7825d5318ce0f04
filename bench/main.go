// Bench measures the requests of Microsoft's article on the three versions of its data model, reads on a
// small and a large data set, and a server under the load of readers.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"byline/internal/console"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command until ctx ends, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return console.Program{Name: "bench", Help: "Benchmarks of Byline.", Commands: &struct {
		Article articleCommand `cmd:"" help:"Measure the article's ten requests on the three versions of its data model, and compare them with its table. Without an account, on an embedded engine that is deleted afterwards."`
		Growth  growthCommand  `cmd:"" help:"Measure the reads on V3 with a small and a large data set, in turn, and compare the latencies. Without an account, on embedded engines that are deleted afterwards."`
		Load    loadCommand    `cmd:"" help:"Send the requests of a blog's readers to a server, and measure latency, CPU and request units."`
	}{}}.Run(ctx, args, stdout, stderr)
}
