package e2e

import (
	"testing"
)

// BenchmarkCompression measures the bytes of a response's body and the CPU of lists, for clients that accept no coding,
// gzip or zstd, from the response cache and without caches.
//
//	go test ./internal/e2e -run '^$' -bench Compression -benchtime 5000x
func BenchmarkCompression(b *testing.B) {
	if testing.Short() {
		*cpuUsers = min(*cpuUsers, 10)
	}
	blog := newCPUBlog(*cpuUsers)
	data := b.TempDir()
	seedByline(b, data)
	for _, way := range []struct{ name, cache string }{{"hot", "64"}, {"uncached", "0"}} {
		b.Run(way.name, func(b *testing.B) {
			plain := startByline(b, blog, data, "--cache", way.cache)
			defer plain.process.Kill()
			sides := []*cpuSide{plain}
			for _, coding := range []string{"gzip", "zstd"} {
				s := newCPUSide(coding, plain.root, plain.pid, plain.user, plain.post)
				s.accept, s.process = coding, plain.process
				sides = append(sides, s)
			}
			plain.accept = "identity"
			for _, p := range cpuPatterns {
				if p.writes || p.name == "Q1" || p.name == "Q2" {
					continue
				}
				b.Run(p.name, func(b *testing.B) {
					before := make([]int64, len(sides))
					sent := make([]int64, len(sides))
					for i, s := range sides {
						before[i], sent[i] = s.received.Load(), s.sent[p.name].Load()
					}
					measureCPU(b, p, blog, cpuConnections, sides...)
					for i, s := range sides {
						body := float64(s.received.Load()-before[i]) / float64(s.sent[p.name].Load()-sent[i])
						b.ReportMetric(body, map[string]string{"": "plain"}[s.name]+s.name+"-bytes/op")
					}
				})
			}
		})
	}
}
