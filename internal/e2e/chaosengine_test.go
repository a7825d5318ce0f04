package e2e

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"byline/internal/enginetest"
	"byline/internal/faulttest"
	"byline/store/emulator"
)

// chaosEngineArgs is the environment variable that makes this test binary an engine over HTTP, an
// account with three regions and lagging replicas that injects chaosFault and splits partitions on request.
// Its value is the directory and the address, separated by a line break.
const chaosEngineArgs = "BYLINE_TEST_CHAOS_ENGINE"

func chaosEngine() int {
	dir, address, _ := strings.Cut(os.Getenv(chaosEngineArgs), "\n")
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := func() (err error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		engine, err := emulator.Open(dir,
			emulator.Options{Logger: log, ReplicaLag: chaosReplicaLag})
		if err != nil {
			return err
		}
		go func() {
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				command := strings.Fields(lines.Text())
				run := map[string]func(database, container, id string) error{"split": engine.Split,
					"start": engine.StartSplit}[command[0]]
				fmt.Println(run("blog", command[1], command[2]))
			}
			os.Exit(0) // the test has ended
		}()
		var faults faulttest.Injector
		faults.Inject(chaosFault)
		log.Info("listening")
		return http.Serve(listener, faults.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			engine.ServeHTTP(regionalResponse{w}, r)
		})))
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// regionalResponse is a response of an account with several regions.
type regionalResponse struct{ http.ResponseWriter }

func (r regionalResponse) WriteHeader(status int) {
	for name, values := range r.Header() { // in lower case, as the engine writes them
		if strings.EqualFold(name, "x-ms-session-token") {
			r.Header()[name] = []string{enginetest.RegionalToken(values[0])}
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// chaosFault throttles 2% of the requests, as an exhausted partition does, and fails 3% of the writes with 449, as if
// others wrote the same item. Of the batches, 2% fail because of one operation.
func chaosFault(o faulttest.Operation) faulttest.Response {
	n, retryAfter := rand.N(1000), time.Duration(1+rand.N(300))*time.Millisecond
	const retryWith = 449
	switch {
	case n < 20:
		return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}
	case n < 50 && o.Kind.Writes():
		return faulttest.Response{Status: retryWith}
	case n < 60:
		return faulttest.Response{Status: http.StatusTooManyRequests, InBatch: true, Operation: rand.N(3),
			RetryAfter: retryAfter}
	case n < 70:
		return faulttest.Response{Status: retryWith, InBatch: true, Operation: rand.N(3)}
	}
	return faulttest.Response{}
}

// engineProcess is the engine in its own process, always on the same address.
type engineProcess struct {
	t            testing.TB
	dir, address string
	cmd          *exec.Cmd
	log          *output
	in           io.WriteCloser
	out          *bufio.Reader
}

func startEngine(t testing.TB) *engineProcess {
	t.Helper()
	// A port outside the ephemeral range: no outgoing connection takes it while the engine is down.
	for range 100 {
		e := &engineProcess{t: t, dir: t.TempDir(), address: fmt.Sprintf("127.0.0.1:%d", 20_000+rand.N(10_000))}
		if l, err := net.Listen("tcp", e.address); err == nil {
			l.Close()
			e.start()
			return e
		}
	}
	t.Fatal("no free port")
	return nil
}

func (e *engineProcess) start() {
	e.t.Helper()
	e.log = &output{}
	e.cmd = exec.Command(os.Args[0])
	e.cmd.Env = append(os.Environ(), chaosEngineArgs+"="+e.dir+"\n"+e.address)
	e.cmd.Stderr = e.log
	in, err := e.cmd.StdinPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	e.in, e.out = in, bufio.NewReader(out)
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(e.kill)
	eventually(e.t, func() error {
		if !strings.Contains(e.log.String(), "msg=listening") {
			return fmt.Errorf("the engine does not listen: %s", e.log)
		}
		return nil
	})
}

// kill sends SIGKILL.
func (e *engineProcess) kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// split splits a physical partition, named by container and id; startSplit begins that.
func (e *engineProcess) split(which string)      { e.command("split " + which) }
func (e *engineProcess) startSplit(which string) { e.command("start " + which) }

func (e *engineProcess) command(line string) {
	e.t.Helper()
	if _, err := fmt.Fprintln(e.in, line); err != nil {
		e.t.Fatal(err)
	}
	if result, err := e.out.ReadString('\n'); err != nil || result != "<nil>\n" {
		e.t.Fatalf("%s: %v %s", line, err, result)
	}
}

// flags returns the flags of a byline that uses the engine; startEngine has set its key in the
// environment.
func (e *engineProcess) flags() []string {
	return []string{"--cosmos-endpoint", "http://" + e.address + "/"}
}
