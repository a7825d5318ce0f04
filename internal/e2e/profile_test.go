package e2e

import (
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"
)

// profileDir is the directory for profiles of the server, CPU and allocations of each request of the CPU
// benchmarks. With it, they also report the CPU by layer.
//
//	go test ./internal/e2e -run '^$' -bench CPU/cold/Q6 -benchtime 20000x -profile /tmp/profiles
//	go tool pprof -top /tmp/profiles/cold-Q6.cpu
//	go tool pprof -top -sample_index=alloc_space -base /tmp/profiles/cold-Q6.allocs-before /tmp/profiles/cold-Q6.allocs
var profileDir = flag.String("profile", "", "write profiles of what BenchmarkCPU measures into this `directory`")

// profiled is the environment variable with the directory in which a process writes profiles.
const profiled = "BYLINE_TEST_PROFILED"

// profileOnSignal starts a profile on a signal and stops it on the next.
func profileOnSignal(dir string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	allocs := func(name string) error {
		runtime.GC() // the profile is as of the last collection
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		return pprof.Lookup("allocs").WriteTo(f, 0)
	}
	for {
		<-signals
		f, err := os.Create(filepath.Join(dir, "cpu"))
		if err == nil {
			if err = allocs("allocs-before"); err == nil {
				err = pprof.StartCPUProfile(f)
			}
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "started"), nil, 0o600)
		}
		<-signals
		pprof.StopCPUProfile()
		if err == nil {
			err = f.Close()
		}
		if err == nil {
			err = allocs("allocs")
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "done"), nil, 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
}

// profileTo profiles a process until the returned function is called.
func profileTo(p *process, name string) func() {
	if *profileDir == "" {
		return func() {}
	}
	tell := func() {
		if err := p.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			p.T.Fatal(err)
		}
	}
	await := func(name string) {
		p.T.Helper()
		eventually(p.T, func() error { return os.Remove(filepath.Join(*profileDir, name)) })
	}
	tell()
	await("started")
	return func() {
		p.T.Helper()
		tell()
		await("done")
		for _, kind := range []string{"cpu", "allocs-before", "allocs"} {
			if err := os.Rename(filepath.Join(*profileDir, kind), filepath.Join(*profileDir, name+"."+kind)); err != nil {
				p.T.Fatal(err)
			}
		}
	}
}

// layers are the layers of a request, by prefixes of function names.
var layers = []struct{ name, prefix string }{
	{"engine", "byline/store/emulator"}, {"changefeed", "byline/store/changefeed"}, {"store", "byline/store"}, {"graph", "byline/graph"}, {"server", "byline/internal"},
	{"azcosmos", "github.com/Azure/"}, {"gqlgen", "github.com/99designs/"}, {"net/http", "net/http."}, {"collector", "runtime.gcBgMarkWorker"}, {"collector", "runtime.bgsweep"},
}

// layersOf returns the share of each layer in a CPU profile, in percent. A sample belongs to the layer of
// the innermost function that has one.
func layersOf(t testing.TB, name string) map[string]float64 {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	spent, all := map[string]float64{}, 0.0
	for _, s := range p.Sample {
		layer := "rest"
	stack:
		for _, l := range s.Location {
			for _, line := range l.Line {
				for _, candidate := range layers {
					if strings.HasPrefix(line.Function.Name, candidate.prefix) {
						layer = candidate.name
						break stack
					}
				}
			}
		}
		spent[layer] += float64(s.Value[1])
		all += float64(s.Value[1])
	}
	for layer := range spent {
		spent[layer] *= 100 / all
	}
	return spent
}

func makeProfileDir(t testing.TB) {
	if *profileDir == "" {
		return
	}
	if err := os.MkdirAll(*profileDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(profiled, *profileDir)
}
