package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"byline/internal/servertest"
	"byline/internal/testkit"
	"byline/store/emulator"
)

// TestMain makes the test binary the byline program, or another process that the tests need, if an environment
// variable says so.
func TestMain(m *testing.M) {
	if servertest.IsProgram() {
		if dir := os.Getenv(profiled); dir != "" {
			go profileOnSignal(dir)
			go traceOnSignal(dir)
		} else {
			runtime.MemProfileRate = 0 // as in the program itself, where the linker sees that no profile is read
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		status := servertest.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, nil)
		stop()
		os.Exit(status)
	}
	if os.Getenv(chaosEngineArgs) != "" {
		os.Exit(chaosEngine())
	}
	for variable, run := range map[string]func() error{attackerProcess: runAttacker,
		chargedEngineData: runChargedEngine} {
		if os.Getenv(variable) == "" {
			continue
		}
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(readyMade) != "" {
		runtime.MemProfileRate = 0
		fmt.Fprintln(os.Stderr, serveReadyMade())
		os.Exit(1)
	}
	// Tests that are parallel wait more than they compute, so more run at a time than there are processors.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	// The key of the engines that tests reach over HTTP; a test that needs another key sets it.
	if err := os.Setenv("COSMOS_KEY", testkit.Secret(emulator.WellKnownKey)); err != nil {
		panic(err)
	}
	testkit.Exit(m.Run())
}

// Short names that nearly every test here uses.
type (
	instance = servertest.Instance
	process  = servertest.Process
	output   = servertest.Output
)

var (
	run          = servertest.Run
	start        = servertest.Start
	startProcess = servertest.StartProcess
	find         = servertest.Find
	at           = servertest.At
	eventually   = testkit.Until
)
