package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/cli"
	"byline/internal/testkit"
)

// Path returns the path of a file of the repository, whose name is relative to its root.
func Path(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }

// root is the folder of schema.graphqls; go.mod is also in others. Tests begin in the folder of their package.
var root = func() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "schema.graphqls")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return "."
}()

// Run is cli.Run with the schema of the repository.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, listening cli.Listening) int {
	schema, err := os.ReadFile(Path("schema.graphqls"))
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return cli.Run(ctx, args, stdout, stderr, string(schema), listening)
}

// Instance is a running server.
type Instance struct {
	T    testing.TB
	Root string // its URL, without a path
	Log  *Output
	Stop func() int // stops it and returns the exit status; only of Start
	Cost string     // the header Byline-Cost of requests; "" for none
}

// Start runs a command, serve by default, in this process and waits until it listens: on a free
// port, unless --listen is among args.
func Start(t testing.TB, args ...string) *Instance {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	i := &Instance{T: t, Log: &Output{}}
	listening, exit := make(chan net.Addr, 1), make(chan int, 1)
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "localhost:0")
	}
	go func() {
		exit <- Run(ctx, args, io.Discard, i.Log, func(a net.Addr) { listening <- a })
	}()
	i.Stop = sync.OnceValue(func() int { cancel(); return <-exit })
	t.Cleanup(func() { i.Stop() })
	select {
	case a := <-listening:
		i.Root = "http://" + a.String()
	case status := <-exit:
		exit <- status // for Stop
		t.Fatalf("exit status %d: %s", status, i.Log)
	}
	return i
}

// WaitReady waits up to a minute until /readyz responds 200, and so until the demo blog is complete.
func (i *Instance) WaitReady() {
	i.T.Helper()
	testkit.UntilWithin(i.T, time.Minute, func() error {
		r, err := http.Get(i.Root + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(r.Body)
			return fmt.Errorf("not ready: %s", body)
		}
		return nil
	})
}

// Dial opens a connection and sends text.
func (i *Instance) Dial(text string) net.Conn {
	i.T.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(i.Root, "http://"))
	if err != nil {
		i.T.Fatal(err)
	}
	i.T.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		i.T.Fatal(err)
	}
	return c
}

// Response is a GraphQL response.
type Response struct {
	Data   map[string]any
	Errors []struct {
		Message    string
		Extensions map[string]any
	}
	Extensions map[string]any
	Session    string `json:"-"` // the header Byline-Session
}

// Post sends an operation as a demo user; user "" is anonymous.
func (i *Instance) Post(user, query string, variables map[string]any) (Response, error) {
	return i.PostIn(context.Background(), "", user, query, variables)
}

// PostIn is Post with a context and a Byline-Session, or "" without one.
func (i *Instance) PostIn(
	ctx context.Context, session, user, query string, variables map[string]any,
) (Response, error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return Response{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.Root+"/graphql", bytes.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	if user != "" {
		r.Header.Set("Authorization", "Bearer demo:"+user)
	}
	if i.Cost != "" {
		r.Header.Set("Byline-Cost", i.Cost)
	}
	if session != "" {
		r.Header.Set("Byline-Session", session)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return Response{}, err
	}
	defer response.Body.Close()
	out := Response{Session: response.Header.Get("Byline-Session")}
	return out, json.NewDecoder(response.Body).Decode(&out)
}

// Do is Post, and returns the data; an error ends the test.
func (i *Instance) Do(user, query string, variables map[string]any) map[string]any {
	i.T.Helper()
	out, err := i.Post(user, query, variables)
	if err != nil || out.Errors != nil {
		i.T.Fatalf("%s: %v %v", query, err, out.Errors)
	}
	return out.Data
}

// Find returns the value at a path of names and indexes, separated by dots; nil if it is missing.
func Find(v any, path string) any {
	for _, step := range strings.Split(path, ".") {
		switch have := v.(type) {
		case map[string]any:
			v = have[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(have) {
				return nil
			}
			v = have[n]
		default:
			return nil
		}
	}
	return v
}

// At is Find for a value that must exist.
func At(t testing.TB, v any, path string) any {
	t.Helper()
	found := Find(v, path)
	if found == nil {
		t.Fatalf("no %s in %v", path, v)
	}
	return found
}

// Output collects the output of a process and looks for secrets in it. It is safe for concurrent
// use; the zero value is empty.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	testkit.LookForSecrets(p)
	return o.b.Write(p)
}

// String returns what has been written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
