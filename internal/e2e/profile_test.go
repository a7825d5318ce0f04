package e2e

import (
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"syscall"
	"testing"
	"time"
)

// profileDir is the directory for profiles of the server, CPU and allocations of each request of the CPU
// benchmarks.
//
//	go test ./internal/e2e -run '^$' -bench CPU/cold/Q6/16 -benchtime 20000x -profile /tmp/profiles
//	go tool pprof -top /tmp/profiles/cold-Q6-16.cpu
//	go tool pprof -top -sample_index=alloc_space -base /tmp/profiles/cold-Q6-16.allocs{-before,}
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

// traceDuration is the length of an execution trace: a second of a busy server is about 20 MB.
const traceDuration = time.Second

// profileTrace makes benchmarks record execution traces instead of profiles, which would disturb them.
//
//	go test ./internal/e2e -run '^$' -bench CPU/cold/C4/16 -benchtime 20000x -profile /tmp/profiles -profile.trace
//	go tool trace -pprof=sched /tmp/profiles/cold-C4-16.trace >/tmp/sched && go tool pprof -top /tmp/sched
var profileTrace = flag.Bool("profile.trace", false, "write execution traces of a second instead of profiles")

// traceOnSignal writes an execution trace on each signal.
func traceOnSignal(dir string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	for range signals {
		f, err := os.Create(filepath.Join(dir, "trace"))
		if err == nil {
			err = trace.Start(f)
		}
		if err == nil {
			<-time.After(traceDuration)
			trace.Stop()
			err = f.Close()
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "done"), nil, 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
}

// traceTo traces a process, and waits until the trace is written when the returned function is called.
func traceTo(p *process, name string) func() {
	if err := p.Cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		p.T.Fatal(err)
	}
	return func() {
		p.T.Helper()
		eventually(p.T, func() error { return os.Remove(filepath.Join(*profileDir, "done")) })
		if err := os.Rename(filepath.Join(*profileDir, "trace"),
			filepath.Join(*profileDir, name+".trace")); err != nil {
			p.T.Fatal(err)
		}
	}
}

// profileTo profiles a process until the returned function is called.
func profileTo(p *process, name string) func() {
	if *profileDir == "" {
		return func() {}
	}
	if *profileTrace {
		return traceTo(p, name)
	}
	toggle := func() {
		if err := p.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			p.T.Fatal(err)
		}
	}
	await := func(name string) {
		p.T.Helper()
		eventually(p.T, func() error { return os.Remove(filepath.Join(*profileDir, name)) })
	}
	toggle()
	await("started")
	return func() {
		p.T.Helper()
		toggle()
		await("done")
		for _, kind := range []string{"cpu", "allocs-before", "allocs"} {
			if err := os.Rename(filepath.Join(*profileDir, kind),
				filepath.Join(*profileDir, name+"."+kind)); err != nil {
				p.T.Fatal(err)
			}
		}
	}
}

func makeProfileDir(t testing.TB) {
	if *profileDir == "" {
		return
	}
	if *cpuProgram != "" {
		t.Fatal("-cpu.program: it cannot be profiled")
	}
	if err := os.MkdirAll(*profileDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(profiled, *profileDir)
}
