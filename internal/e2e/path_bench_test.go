package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"byline/internal/servertest"
)

// pathBefore is another build of the program, which BenchmarkPath measures beside this version.
var pathBefore = flag.String("path.before", "",
	"older build of the program that BenchmarkPath compares with; default: none")

// A way of serving in BenchmarkPath.
const (
	hot     = "hot"     // from the response cache
	inside  = "inside"  // without caches, with the engine in the process
	outside = "outside" // without caches, with the engine in another process, by HTTPS
)

// BenchmarkPath shows what each pattern costs: the requests to Cosmos DB and the request units before the response, the
// bytes of its body on the wire, and the CPU of the gateway's process, for each way of serving. It ends with a table,
// in which -path.before stands beside this version.
//
//	go test ./internal/e2e -run '^$' -bench Path -benchtime 5000x -cpu.users 1000 -path.before FILE -timeout 1h
func BenchmarkPath(b *testing.B) {
	makeProfileDir(b)
	if testing.Short() {
		*cpuUsers = min(*cpuUsers, 10)
	}
	blog := newCPUBlog(*cpuUsers)
	programs := []string{""}
	if *pathBefore != "" {
		programs = append(programs, *pathBefore)
	}
	seeded := make([]string, len(programs)) // directories of data, made by each program
	for i, program := range programs {
		*cpuProgram, seeded[i] = program, filepath.Join(b.TempDir(), "seeded")
		seedByline(b, seeded[i])
	}
	var rows pathTable
	for _, way := range []string{hot, inside, outside} {
		b.Run(way, func(b *testing.B) {
			var sides []*cpuSide
			for i, program := range programs {
				*cpuProgram = program
				sides = append(sides, startPathSide(b, blog, way, seeded[i]))
			}
			*cpuProgram = ""
			for _, p := range pathPatterns {
				if p.writes && way == hot {
					continue
				}
				b.Run(p.name, func(b *testing.B) { rows.add(b, way, p, blog, sides) })
			}
		})
	}
	rows.print(b, len(programs) > 1)
}

// startPathSide starts a program that serves a copy of the seeded data in a way.
func startPathSide(b *testing.B, blog *cpuBlog, way, seeded string) *cpuSide {
	data := filepath.Join(b.TempDir(), "data")
	if err := os.CopyFS(data, os.DirFS(seeded)); err != nil {
		b.Fatal(err)
	}
	side := ""
	if *cpuProgram != "" {
		side = "before"
	}
	var s *cpuSide
	switch way {
	case hot:
		s = startByline(b, blog, data)
	case inside:
		s = startByline(b, blog, data, "--cache", "0")
	case outside:
		engine := servertest.StartCommand(b, bylineCommand("emulator", "--listen", "localhost:0", "--data", data))
		_, port, _ := strings.Cut(strings.TrimPrefix(engine.Root, "http://"), ":")
		gateway := bylineCommand("--listen", "localhost:0", "--no-demo", "--cache", "0", "--cosmos-endpoint",
			"https://localhost:"+port)
		gateway.Env = append(gateway.Environ(), "SSL_CERT_FILE="+filepath.Join(data, "cert.pem"))
		s = idleByline(b, blog, gateway)
	}
	s.name = side
	return s
}

// pathRow is a row of the table, with a value for each program.
type pathRow struct {
	way, pattern                        string
	requests, requestUnits, bytes, time []float64
}

type pathTable []*pathRow

// add measures a pattern.
func (t *pathTable) add(b *testing.B, way string, p cpuPattern, blog *cpuBlog, sides []*cpuSide) {
	row := &pathRow{way: way, pattern: p.name}
	received, sent := make([]int64, len(sides)), make([]int64, len(sides))
	for i, s := range sides {
		received[i], sent[i] = s.received.Load(), s.sent[p.name].Load()
	}
	took := measureCPU(b, p, blog, cpuConnections, sides...)
	for i, s := range sides {
		body := float64(s.received.Load()-received[i]) / float64(s.sent[p.name].Load()-sent[i])
		row.bytes, row.time = append(row.bytes, body), append(row.time, took[i].perRequest())
		b.ReportMetric(body, strings.TrimPrefix(s.name+"-bytes/op", "-"))
		requests, requestUnits := s.reported(b, p, blog) // with the caches that the measurement has filled
		row.requests, row.requestUnits = append(row.requests, requests), append(row.requestUnits, requestUnits)
	}
	if b.N < minSamples && !testing.Short() {
		return
	}
	*t = slices.DeleteFunc(*t, func(r *pathRow) bool { return r.way == way && r.pattern == p.name }) // of a shorter run
	*t = append(*t, row)
}

// reportedRequests is the number of requests whose cost reports are averaged.
const reportedRequests = 200

// reported returns the mean of what cost reports say: requests to Cosmos DB and request units.
func (s *cpuSide) reported(b *testing.B, p cpuPattern, blog *cpuBlog) (requests, requestUnits float64) {
	for range reportedRequests {
		user, body := blog.request(p, s, int(s.sent[p.name].Add(1)))
		text, _ := s.exchange(b, user, body, map[string]string{"Byline-Cost": "summary"})
		var response struct {
			Extensions struct {
				Cost struct {
					Requests float64
					ActualRU float64
				}
			}
		}
		if err := json.Unmarshal(text, &response); err != nil {
			b.Fatal(err)
		}
		requests += response.Extensions.Cost.Requests / reportedRequests
		requestUnits += response.Extensions.Cost.ActualRU / reportedRequests
		if p.writes {
			<-time.After(time.Millisecond) // conflicts of writes to one post would count
		}
	}
	return requests, requestUnits
}

// print prints the table.
func (t pathTable) print(b *testing.B, compared bool) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	header := "\n\tpattern\trequests\tRU\tbytes\tCPU µs"
	if compared {
		header += "\tbefore: requests\tRU\tbytes\tCPU µs\tCPU ÷ before"
	}
	fmt.Fprintln(w, header)
	for _, r := range t {
		fmt.Fprintf(w, "%s\t%s", r.way, r.pattern)
		for i := range r.time {
			fmt.Fprintf(w, "\t%.2f\t%.2f\t%.0f\t%.0f", r.requests[i], r.requestUnits[i], r.bytes[i], r.time[i])
		}
		if compared {
			fmt.Fprintf(w, "\t%.2f", r.time[0]/r.time[1])
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		b.Error(err)
	}
}
