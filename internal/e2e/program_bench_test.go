package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"byline/graph/auth"
	"byline/internal/load"
	"byline/internal/servertest"
	"byline/store/seed"
)

// BenchmarkProgram builds the program, and sends it the requests of readers for a minute, with the demo blog
// and default flags, with -short for a second. It reports the size of the stripped binary and the resident memory.
//
//	go test ./internal/e2e -run '^$' -bench Program -benchtime 1x
func BenchmarkProgram(b *testing.B) {
	loaded := time.Minute
	if testing.Short() {
		loaded = time.Second
	}
	program := filepath.Join(b.TempDir(), "byline")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Dir = servertest.Path("")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	file, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}
	binary := float64(file.Size()) / 1e6
	for b.Loop() {
		p := servertest.StartCommand(b, exec.Command(program, "--listen", "localhost:0", "--data", b.TempDir()))
		p.WaitReady()
		started := statusMB(b, p, "VmRSS:")
		r, err := load.Run(b.Context(),
			load.Options{URL: p.Root + "/graphql", Metrics: p.Root + "/metrics", Blog: seed.Demo(auth.DemoUserID),
				Token: func(username string) string {
					return "demo:" + username
				}, Connections: cpuConnections, Duration: loaded, Writes: 0.01, Skew: 1.1})
		if err != nil || r.Errors > 0 {
			b.Fatalf("%v %+v", err, r)
		}
		resident := statusMB(b, p, "VmRSS:")
		b.Logf("binary %.1f MB; resident %.0f MB at the start, %.0f MB after the load; %.1f µs of CPU a request",
			binary, started, resident, r.Server.CPUMicros)
		b.ReportMetric(binary, "MB-binary")
		b.ReportMetric(started, "MB-started")
		b.ReportMetric(resident, "MB-loaded")
		b.ReportMetric(r.Server.CPUMicros, "cpu-µs/request")
		b.ReportMetric(r.PerSecond, "requests/s")
		p.Kill()
	}
}
