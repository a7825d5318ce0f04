package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"byline/internal/testkit"
)

// attackerProcess is the environment variable that makes this test binary an attacker, which reads an attack
// from the standard input, executes it until the input ends, and prints the result.
const attackerProcess = "BYLINE_TEST_ATTACKER"

// attack has the operations and subscriptions of an attack by one viewer.
type attack struct {
	Roots          []string // of the instances
	Token, Session string
	Operations     []operation // sent in a cycle
	Subscriptions  [][]string  // documents, by connection
}

type operation struct {
	Query     string         `json:"query"`
	Variables map[string]any `json:"variables"`
}

// attackResult is the result of an attack.
type attackResult struct {
	Codes                          map[string]int // of the operations
	Subscribed, Refused, Delivered int64          // subscriptions requested, and refused as too many; events
	Error                          string
}

// start starts an attack and returns a function that ends it. In the long form, which judges latency, the
// attacker is a process of the lowest priority: a real one does not compute on the machines of the instances.
func (a attack) start(t *testing.T) (end func() attackResult) {
	t.Helper()
	c := exec.Command(os.Args[0])
	if testkit.Long() {
		c = exec.Command("nice", "-n", "19", os.Args[0])
	}
	c.Env = append(os.Environ(), attackerProcess+"=1")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	result := sync.OnceValue(func() (r attackResult) {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the attacker: %v", err)
		} else if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Error != "" {
			t.Errorf("the attacker: %v %s", err, r.Error)
		}
		return r
	})
	t.Cleanup(func() { result() })
	if err := json.NewEncoder(in).Encode(a); err != nil {
		t.Fatal(err)
	}
	return result
}

// runAttacker is the main function of the attacker's process.
func runAttacker() error {
	in := json.NewDecoder(os.Stdin)
	var a attack
	if err := in.Decode(&a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(nil)
	}()
	r := attackResult{Codes: map[string]int{}}
	var all sync.WaitGroup
	all.Go(func() { a.subscribe(ctx, cancel, &r) })
	if len(a.Operations) > 0 {
		all.Go(func() { a.flood(ctx, cancel, &r) })
	}
	<-ctx.Done()
	all.Wait()
	if err := context.Cause(ctx); err != context.Canceled {
		r.Error = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// flood sends operations over several connections to each instance until ctx ends, and attackLeast over each of
// them, even if a busy machine takes longer to start the attacker than the attack is to last.
func (a attack) flood(ctx context.Context, cancel context.CancelCauseFunc, r *attackResult) {
	client := graphQLClient{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: attackConns}}}
	var mu sync.Mutex
	var all sync.WaitGroup
	var sent atomic.Int64
	for i := range len(a.Roots) * attackConns {
		all.Go(func() {
			tick := time.NewTicker(time.Second * attackConns / attackRate)
			defer tick.Stop()
			for n := 0; n < attackLeast || ctx.Err() == nil; n++ {
				o := a.Operations[int(sent.Add(1))%len(a.Operations)]
				reply, err := client.send(context.WithoutCancel(ctx), a.Roots[i%len(a.Roots)], a.Token, a.Session, o)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				r.Codes[reply.code()]++
				mu.Unlock()
				<-tick.C
			}
		})
	}
	all.Wait()
}

// subscribe opens the subscriptions, and reads their events until ctx ends.
func (a attack) subscribe(ctx context.Context, cancel context.CancelCauseFunc, r *attackResult) {
	var all sync.WaitGroup
	defer all.Wait()
	for i, subscriptions := range a.Subscriptions {
		dial := func() (*websocket.Conn, *http.Response, error) {
			return websocket.Dial(ctx, a.Roots[i%len(a.Roots)]+"/graphql",
				&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		}
		c, res, err := dial()
		for ; res != nil && res.StatusCode == http.StatusServiceUnavailable; c, res, err = dial() { // overloaded
			<-time.After(100 * time.Millisecond)
		}
		if err != nil {
			cancel(err)
			return
		}
		if res.Body != nil {
			res.Body.Close()
		}
		c.SetReadLimit(1 << 20)
		send := func(m any) error {
			b, err := json.Marshal(m)
			if err != nil {
				return err
			}
			return c.Write(ctx, websocket.MessageText, b)
		}
		subscribe := func(id string) error {
			n, err := strconv.Atoi(id)
			if err != nil {
				return err
			}
			return send(map[string]any{"type": "subscribe", "id": id, "payload": operation{Query: subscriptions[n]}})
		}
		all.Go(func() {
			defer c.CloseNow()
			for {
				_, m, err := c.Read(ctx)
				if err != nil {
					return
				}
				switch kind := m[:min(len(m), 100)]; {
				case bytes.Contains(kind, []byte(`"type":"error"`)):
					if bytes.Contains(m, []byte("too many subscriptions")) {
						atomic.AddInt64(&r.Refused, 1)
						continue
					}
					var refused struct{ ID string } // by a rate or RU limit, or by an overloaded instance
					if err := json.Unmarshal(m, &refused); err != nil {
						cancel(err)
						return
					}
					time.AfterFunc(100*time.Millisecond, func() { _ = subscribe(refused.ID) })
				case bytes.Contains(kind, []byte(`"type":"next"`)):
					atomic.AddInt64(&r.Delivered, 1)
				}
			}
		})
		all.Go(func() {
			err := send(map[string]any{"type": "connection_init",
				"payload": map[string]string{"authorization": "Bearer " + a.Token}})
			for n := 0; n < len(subscriptions) && err == nil; n++ { // an instance may close the connection
				err = subscribe(strconv.Itoa(n))
				atomic.AddInt64(&r.Subscribed, 1)
			}
		})
	}
}

// graphQLClient sends operations over HTTP.
type graphQLClient struct{ *http.Client }

// send sends an operation to an instance; token and session may be "".
func (c graphQLClient) send(ctx context.Context, root, token, session string, o operation) (r reply, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, root+"/graphql", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		request.Header.Set("Byline-Session", session)
	}
	response, err := c.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return r, err
	}
	r.session = response.Header.Get("Byline-Session")
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w: %.200s", response.Status, err, b)
	}
	return r, nil
}

// reply has the fields of a response that the tests use.
type reply struct {
	Data   map[string]any
	Errors []struct {
		Message    string
		Extensions struct {
			Code         string
			RetryAfterMs float64
		}
	}
	session string
}

func (r reply) code() string {
	if len(r.Errors) == 0 {
		return ""
	}
	return r.Errors[0].Extensions.Code
}
