package emulator

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

var (
	crashRounds = flag.Int("crash.rounds", pick(2, 10), "number of times TestCrash kills the engine")
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of TestCrash; 0: the time")
)

// crashDir is the environment variable that makes this test binary the process to kill: it serves the engine on that
// directory until its standard input ends.
const crashDir = "EMULATOR_CRASH_DIR"

const crashWriters = 8

func runCrashChild() bool {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return false
	}
	e, err := Open(dir, Options{})
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			fmt.Println(l.Addr())
			go func() {
				io.Copy(io.Discard, os.Stdin) // ends with the parent
				os.Exit(0)
			}()
			err = http.Serve(l, e)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
	return true
}

// TestCrash lets clients write to an engine in a process of its own, kills the process, opens the
// directory again, and checks that every acknowledged write exists once and that all indexes agree.
// Full run:
//
//	BYLINE_TEST_LONG=1 go test ./store/emulator -run TestCrash -timeout 30m -v
func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := *crashRounds
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-crash.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newCrashState(t, seed)
	for round := range rounds {
		url, kill := crashServer(t, s.dir)
		c, done := crashClient(t, url)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		left, enough := new(atomic.Int64), make(chan struct{}) // acknowledged writes until the kill
		left.Store(100 + random.Int64N(400))
		for _, w := range s.writers {
			wg.Go(func() {
				w.run(ctx, t, c, round, func() {
					if left.Add(-1) == 0 {
						close(enough)
					}
				})
			})
		}
		wg.Go(func() { s.follower.follow(ctx, c) })
		select {
		case <-enough:
		case <-time.After(time.Minute):
			t.Error("the writers made too little progress in a minute")
		}
		kill()
		cancel()
		wg.Wait()
		done()
		s.verify(t)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	s.report(t, rounds)
}

// crashServer starts the engine's process and returns its endpoint and a function that kills it.
func crashServer(t *testing.T, dir string) (url string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		cmd.Wait() // the error is the kill signal
		in.Close()
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		kill()
		t.Fatal("the engine's process did not start")
	}
	return "http://" + lines.Text(), kill
}

func crashClient(t *testing.T, url string) (c *azcosmos.ContainerClient, done func()) {
	t.Helper()
	cred, err := azcosmos.NewKeyCredential(WellKnownKey)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * crashWriters}
	client, err := azcosmos.NewClientWithKey(url, cred, &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: transport}, Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	if c, err = client.NewContainer("db", "c"); err != nil {
		t.Fatal(err)
	}
	return c, func() {
		client.Close()
		transport.CloseIdleConnections()
	}
}

// crashWriter is one client. It writes sequentially, so that in each round at most its last operation is ambiguous.
type crashWriter struct {
	key       string // its own partition
	random    *rand.Rand
	next      int
	known     map[crashID]int // acknowledged: id -> version
	ambiguous *crashOp        // outcome unknown; nil if none
	acked     int
	deleted   int
	lsn       uint64 // highest acknowledged
}

type crashID struct{ key, id string }

type crashOp struct {
	kind    string // create, batch, upsert or delete
	at      crashID
	version int
}

// run writes until the process is killed. It calls acked after each acknowledged write.
func (w *crashWriter) run(ctx context.Context, t *testing.T, c *azcosmos.ContainerClient, round int, acked func()) {
	for ctx.Err() == nil {
		op := w.draw(round)
		w.ambiguous = &op
		token, status, err := op.send(ctx, c, w.random.IntN(1500))
		switch {
		case err != nil && statusOf(err) == 0: // no response: the engine was killed
			return
		case err != nil || status >= 300:
			t.Errorf("%+v: status %d: %v", op, status, err)
			return
		}
		w.settle(true)
		w.acked++
		acked()
		if op.kind == "delete" {
			w.deleted++
		}
		var partition int
		var lsn uint64
		if _, err := fmt.Sscanf(token, "%d:-1#%d", &partition, &lsn); err != nil {
			t.Errorf("session token %q: %v", token, err)
		}
		w.lsn = max(w.lsn, lsn)
	}
}

func (w *crashWriter) draw(round int) crashOp {
	w.next++
	fresh := crashID{w.key, fmt.Sprintf("%s-%d-%d", w.key, round, w.next)}
	counted := "b" + fresh.id
	switch n := w.random.IntN(10); {
	case n < 3:
		return crashOp{"create", fresh, 1}
	case n < 5:
		return crashOp{"batch", crashID{w.key, counted}, 1}
	case n < 7: // many clients, one counter
		return crashOp{"batch", crashID{"shared", counted}, 1}
	case n < 9:
		at := crashID{w.key, fmt.Sprintf("u%d", w.random.IntN(20))}
		return crashOp{"upsert", at, w.next}
	}
	for at := range w.known {
		if at.id[0] == 'w' && w.random.IntN(4) > 0 {
			return crashOp{"delete", at, 0}
		}
	}
	return crashOp{"create", fresh, 1}
}

// settle records the outcome of the ambiguous operation.
func (w *crashWriter) settle(applied bool) {
	if applied && w.ambiguous.kind == "delete" {
		delete(w.known, w.ambiguous.at)
	} else if applied {
		w.known[w.ambiguous.at] = w.ambiguous.version
	}
	w.ambiguous = nil
}

func (op crashOp) send(
	ctx context.Context, c *azcosmos.ContainerClient, size int,
) (token string, status int, err error) {
	var res azcosmos.ItemResponse
	doc := fmt.Appendf(nil, `{"id":%q,"pk":%q,"kind":%q,"version":%d,"content":"%0*d"}`, op.at.id, op.at.key, op.kind,
		op.version, size+1, 0)
	switch op.kind {
	case "create":
		res, err = c.CreateItem(ctx, pk(op.at.key), doc, nil)
	case "upsert":
		res, err = c.UpsertItem(ctx, pk(op.at.key), doc, nil)
	case "delete":
		res, err = c.DeleteItem(ctx, pk(op.at.key), op.at.id, nil)
	case "batch":
		b := c.NewTransactionalBatch(pk(op.at.key))
		b.CreateItem(doc, nil)
		b.PatchItem("counter", patchOf("/n", 1), nil)
		out, err := c.ExecuteTransactionalBatch(ctx, b, nil)
		if err != nil {
			return "", 0, err
		}
		return out.SessionToken, out.RawResponse.StatusCode, nil
	}
	if err != nil {
		return "", 0, err
	}
	return *res.SessionToken, res.RawResponse.StatusCode, nil
}
