package jobs

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store/cosmos"
	"byline/store/cosmos/provision"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const container = "leases"

// world is an account with a leases container, and a hook for writes of jobs.
type world struct {
	t      testing.TB
	on     *cosmostest.Account
	leases *cosmos.Container
	clock  atomic.Int64  // each job has another date
	one    chan struct{} // held during a write

	// wrote is called after each successful write of a job, one at a time. job is nil after a delete.
	wrote func(id string, job *Job)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, on: cosmostest.Open(t, emulator.Options{}), one: make(chan struct{}, 1)}
	account := w.account(w.on.Transport.Do)
	if err := provision.Create(t.Context(), account,
		provision.DatabaseSpec{Name: w.on.Database,
			Containers: []provision.ContainerSpec{{Name: container, PartitionKey: "/id"}}}); err != nil {
		t.Fatal(err)
	}
	w.leases = w.container(account)
	return w
}

type transport func(*http.Request) (*http.Response, error)

// Do implements policy.Transporter.
func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

func (w *world) account(send transport) *cosmos.Account {
	account, err := cosmos.Open(cosmos.Options{Endpoint: w.on.Endpoint, Key: w.on.Key, Credential: w.on.Credential,
		Transport: send})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(account.Close)
	return account
}

func (w *world) container(account *cosmos.Account) *cosmos.Container {
	c, err := account.Background().Container(w.on.Database, container)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// send sends requests to the account. It serializes writes of jobs, for wrote.
func (w *world) send(r *http.Request) (*http.Response, error) {
	id := jobOf(r)
	if w.wrote == nil || id == "" {
		return w.on.Transport.Do(r)
	}
	w.one <- struct{}{}
	defer func() { <-w.one }()
	resp, err := w.on.Transport.Do(r)
	if err == nil && resp.StatusCode < http.StatusBadRequest {
		w.wrote(id, w.read(id))
	}
	return resp, err
}

// jobOf returns the id of the job that a request writes, or "".
func jobOf(r *http.Request) string {
	_, path, ok := strings.Cut(r.URL.Path, "/colls/"+container+"/docs")
	switch {
	case !ok || r.Method == http.MethodGet || r.Header.Get("x-ms-documentdb-query") != "":
		return ""
	case r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "": // a read by package cosmos
		return ""
	case path == "": // a create
		return strings.Trim(r.Header.Get("X-Ms-Documentdb-Partitionkey"), `[]"`)
	}
	return strings.TrimPrefix(path, "/")
}

// read returns a job, or nil if it does not exist.
func (w *world) read(id string) *Job {
	item, err := w.leases.Read(context.Background(), cosmos.Key{Partition: id, ID: id})
	if err != nil {
		w.t.Error(err)
	}
	if item.Value == nil {
		return nil
	}
	j, err := decode(item.Value)
	if err != nil {
		w.t.Error(err)
	}
	return &j
}

// now is the clock of runners.
func (w *world) now() time.Time { return time.Unix(w.clock.Add(1), 0) }

// process is a process with a Runner.
type process struct {
	*Runner
	before func(r *http.Request) error // an error makes the response 503, and the request is not sent
	after  func(r *http.Request) error // an error makes the response 503 although the request was executed

	stop  func() // stops Run and waits until it has returned
	ended func() bool
}

// start runs a Runner with the kind "walk".
func (w *world) start(owner string, walk Work, change func(*process, *Options)) *process {
	p := &process{before: func(*http.Request) error { return nil }, after: func(*http.Request) error { return nil }}
	unavailable := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable",
			Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	}
	leases := w.container(w.account(func(r *http.Request) (*http.Response, error) {
		if p.before(r) != nil {
			return unavailable(r)
		}
		resp, err := w.send(r)
		if err == nil && p.after(r) != nil {
			_ = resp.Body.Close()
			return unavailable(r)
		}
		return resp, err
	}))
	o := Options{Owner: owner, Kinds: map[string]Work{"walk": walk}, Clock: w.now, Logger: testkit.Logger()}
	if change != nil {
		change(p, &o)
	}
	var err error
	if p.Runner, err = New(leases, o); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	p.ended = func() bool { return ctx.Err() != nil }
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(w.t, done); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(p.stop)
	return p
}

// enqueue enqueues a job without a running Runner.
func (w *world) enqueue(subject string, generation int64) {
	w.t.Helper()
	r, err := New(w.container(w.account(w.send)), Options{Owner: "enqueuer", Clock: w.now})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := r.Enqueue(w.t.Context(), "walk", subject, generation); err != nil {
		w.t.Fatal(err)
	}
}

// ended returns an error while there are jobs.
func (w *world) ended() error {
	r, err := New(w.leases, Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := r.List(context.Background())
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("%d jobs, such as %+v", len(all), all[0])
	}
	return err
}
