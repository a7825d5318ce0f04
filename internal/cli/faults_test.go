package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"byline/internal/account"
	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
)

// faultyCommands are the commands that send requests to Cosmos DB, with about how many of them fail.
var faultyCommands = map[string]struct {
	args     []string
	requests int
}{
	"provision":         {requests: 20},
	"provision --check": {args: []string{"--check"}, requests: 20},
	"views status":      {args: []string{"--json"}, requests: 10},
	"views verify":      {args: []string{"--json", "--settle", "1ms"}, requests: 20},
	"views repair":      {args: []string{"--json"}, requests: 10},
	"views rebuild":     {args: []string{"--json"}, requests: 3},
	"export":            {args: []string{"--user", "mary"}, requests: 20},
	"seed":              {args: []string{"--users", "1", "--digest"}, requests: 4},
}

// otherCommands send no request, or none that these tests can count: those of serve are the store's.
var otherCommands = []string{"serve", "emulator", "explain", "schema"}

func TestFaults_Complete(t *testing.T) {
	covered := maps.Clone(faultyCommands)
	for _, name := range otherCommands {
		covered[name] = faultyCommands[name]
	}
	parser, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		if _, ok := covered[strings.TrimPrefix(leaf.FullPath(), parser.Model.Name+" ")]; !ok {
			t.Errorf("the command %s is in none of the tables of commands whose requests fail", leaf.FullPath())
		}
	}
}

// overHTTP is the engine as a transporter, without its connection to clients in process.
type overHTTP struct{ *emulator.Engine }

// Do implements policy.Transporter.
func (o overHTTP) Do(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	o.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// faultServer serves an engine in which mary has posts. Requests to it fail through the Transport.
func faultServer(t *testing.T) (*faulttest.Transport, string) {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	wire := &faulttest.Transport{To: overHTTP{engine}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := wire.Do(r)
		if err != nil {
			panic(http.ErrAbortHandler) // breaks the connection
		}
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(server.Close)
	flags := account.Flags{CosmosEndpoint: server.URL, CosmosDatabase: "blog"}
	db, err := flags.Open(t.Context(), testkit.Logger(), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	st, err := flags.Store(db, testkit.Logger(), store.Options{})
	if err == nil {
		err = st.Provision(t.Context())
	}
	if err == nil {
		_, err = st.CreateUser(t.Context(), store.NewUser{ID: "mary", Username: "mary"})
	}
	for _, title := range []string{"one", "two"} {
		var post *blog.Post
		if err == nil {
			post, err = st.CreatePost(t.Context(), store.NewPost{AuthorID: "mary", Title: title, Content: "x"})
		}
		if err == nil { // no projection runs
			err = st.Views().ProjectTimelines(t.Context(), post)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return wire, server.URL
}

// If a request of a command fails, its exit status is 1 and it prints one line, or it has done its work. When it is
// run again, it does.
func TestFaults(t *testing.T) {
	testkit.Heavy(t)
	t.Setenv(account.KeyVariable, emulator.WellKnownKey)
	for name, command := range faultyCommands {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of its time are pauses before retries
			wire, endpoint := faultServer(t)
			fields, _, _ := strings.Cut(name, " --")
			args := append(append(strings.Fields(fields), "--cosmos-endpoint", endpoint), command.args...)
			cases := 0
			run := func() (status, lines int, log string) {
				var stdout, stderr bytes.Buffer
				args := args
				if name == "seed" { // of a blog that is not loaded yet
					args = append(slices.Clone(args), "--seed", fmt.Sprint(cases))
				}
				status = Run(context.Background(), args, &stdout, &stderr, "", nil)
				return status, strings.Count(stdout.String(), "\n"), stderr.String()
			}
			want := 0
			faulttest.Sample(func(c faulttest.Case) faulttest.Requests {
				if name == "seed" && c.Misleads { // by a 409, the items of a post seem to be loaded
					return faulttest.Requests{}
				}
				cases++
				wire.Begin(c, nil)
				status, lines, log := run()
				requests := wire.End()
				if c.N == 0 {
					want = lines
				}
				switch {
				case status == 0 && lines != want && !c.Misleads:
					t.Errorf("%v (%s): exit status 0 and %d lines, want %d: %s", c, requests.Failed, lines, want, log)
				case status != 0 && (c.N == 0 || status != 1 || !strings.Contains(log, "byline: ")):
					t.Errorf("%v (%s): exit status %d: %s", c, requests.Failed, status, log)
				}
				if status, lines, log := run(); status != 0 || lines != want {
					t.Errorf("after %v (%s): exit status %d and %d lines, want %d: %s", c, requests.Failed, status,
						lines, want, log)
				}
				return requests
			}, command.requests)
			var found bytes.Buffer
			if status := Run(context.Background(),
				[]string{"views", "verify", "--json", "--cosmos-endpoint", endpoint}, &found, io.Discard, "",
				nil); status != 0 {
				t.Errorf("afterwards views verify has exit status %d: %s", status, &found)
			}
		})
	}
}
