package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"byline/internal/testkit"
	"byline/store/emulator"
)

// chargedEngineData is the environment variable that makes this test binary an engine, with data in that
// folder, which sums its request charges. It prints its URL, and ends when the standard input does.
const chargedEngineData = "BYLINE_TEST_CHARGED_ENGINE"

// charges are the request charges of the engine, in RU.
type charges struct{ Requests, Background float64 }

// chargedEngine is an engine that sums its request charges.
type chargedEngine struct {
	*emulator.Engine
	mu  sync.Mutex
	sum charges // guarded by mu
}

func (e *chargedEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/charges" {
		e.mu.Lock()
		defer e.mu.Unlock()
		_ = json.NewEncoder(w).Encode(e.sum)
		return
	}
	e.Engine.ServeHTTP(w, r)
	ru := chargeOf(w)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Header.Get("x-ms-cosmos-priority-level") == "Low" || r.Header.Get("A-Im") != "" ||
		strings.Contains(r.URL.Path, "/colls/leases/") {
		e.sum.Background += ru
	} else {
		e.sum.Requests += ru
	}
}

// chargeOf returns the request charge of a response of the engine. The engine's headers are in lower case, as the
// service sends them, so that Header.Get does not find them.
func chargeOf(w http.ResponseWriter) float64 {
	for name, values := range w.Header() {
		if strings.EqualFold(name, "x-ms-request-charge") {
			ru, _ := strconv.ParseFloat(values[0], 64)
			return ru
		}
	}
	return 0
}

// runChargedEngine is the main function of the engine's process.
func runChargedEngine() error {
	engine, err := emulator.Open(os.Getenv(chargedEngineData), emulator.Options{NoSync: true, Logger: testkit.Logger()})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &chargedEngine{Engine: engine}}
	go func() { _ = server.Serve(listener) }()
	fmt.Printf("http://%s\n", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(server.Close(), engine.Close())
}

// startChargedEngine starts a charged engine, and returns its URL.
func startChargedEngine(t *testing.T) string {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), chargedEngineData+"="+t.TempDir())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the engine: %v", err)
		}
	})
	root, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(root)
}
