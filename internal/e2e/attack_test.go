package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
)

// The default limits of one viewer, from docs/limits.md.
const (
	budgetRU       = 6000 // of requests to an instance, at once
	budgetPerSec   = 100  // RU per second after that
	operationRU    = 400  // by which the last operation may exceed the budget
	backgroundRate = 1.5  // RU in the background for each RU of requests
	renamesADay    = 3
	sweptRU        = 11.9 // RU to rewrite a comment of a renamed user
	jobsRU         = 1000 // per second, of an instance's jobs
	maxSubscribed  = 500  // subscriptions of a viewer on an instance
	maxCommented   = 1000 // comments of a viewer on a post
	uncounted      = 50   // comments over that limit, on each instance
)

const (
	attackInstances = 2
	attackConns     = 4   // of the attacker, to each instance
	attackLeast     = 10  // operations over each of them
	attackRate      = 100 // requests a second to each instance: twice the limit of a viewer
	attackBlogPosts = 150
	// others' p99 below this is noise: the attacker, the engine and the instances share the processors
	noiseP99 = 10 * time.Millisecond
)

// TestAttack_OneViewer attacks two instances with default limits as one viewer at a time, while other viewers
// read, like, comment and rename. The request units that the attack causes stay within the bounds of
// docs/limits.md, writes of other viewers become visible, and the instances stay ready. The long form has
// 20,000 comments and 15,000 subscriptions, and compares the p99 of other viewers with that before the attack:
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestAttack -v
func TestAttack_OneViewer(t *testing.T) {
	testkit.Heavy(t)
	if !testkit.Long() { // no latency is judged
		t.Parallel()
	}
	w := newAttackedBlog(t)
	before := w.phase(t, "", func(context.Context) {})
	w.rows = append(w.rows, before.row("undisturbed", undisturbed{}))
	quiet := undisturbed{charges: before.charges, elapsed: before.elapsed, p99: before.p99()}
	if quiet.charges.Requests <= 0 || quiet.charges.Background <= 0 {
		t.Fatalf("the engine has charged nothing: %+v", quiet.charges)
	}

	for _, a := range []struct {
		name   string
		attack func(t *testing.T, ctx context.Context) outcome
	}{
		{"rename loop", w.renames},
		{"like toggles on the longest post", w.toggles},
		{"crafted sessions", w.sessions},
		{"comments on one post", w.comments},
		{"subscriptions", w.subscriptions},
	} {
		t.Run(a.name, func(t *testing.T) {
			var o outcome
			during := w.phase(t, a.name, func(ctx context.Context) { o = a.attack(t, ctx) })
			during.outcome = o
			w.rows = append(w.rows, during.row(a.name, quiet))
			requests, background := during.caused(quiet)
			maxRequests := attackInstances * (budgetRU + operationRU + budgetPerSec*during.elapsed.Seconds())
			maxBackground := backgroundRate*maxRequests + o.renamed
			if requests > maxRequests || background > maxBackground {
				t.Errorf("the attack caused %.0f RU in requests and %.0f RU in the background; want at most %.0f and "+
					"%.0f", requests, background, maxRequests, maxBackground)
			}
			if o.refused == 0 {
				t.Error("no operation was refused: the attack is too weak")
			}
			if during.lag > 10*time.Second {
				t.Errorf("writes of other viewers became visible after %v, want at most 10 s", during.lag)
			}
			if testkit.Long() && during.p99() > max(2*quiet.p99, noiseP99) {
				t.Errorf("the p99 of other viewers is %v, and was %v before the attack", during.p99(), quiet.p99)
			}
		})
	}
	t.Logf("%-33s %6s %8s %8s %9s %9s %9s %7s %9s %9s %9s\n%s", "", "s", "accepted", "refused", "RU", "RU back",
		"RU bound", "RU/s", "p50", "p99", "lag", strings.Join(w.rows, "\n"))
}

// outcome is the result of an attack.
type outcome struct {
	accepted, refused int
	renamed           float64 // RU that accepted renames may cause
}

// undisturbed has the measurements without an attack.
type undisturbed struct {
	charges charges
	elapsed time.Duration
	p99     time.Duration
}

// observed has the measurements of a phase: charges, and the latencies of other viewers.
type observed struct {
	charges charges
	elapsed time.Duration
	took    []time.Duration // sorted
	lag     time.Duration
	outcome outcome
}

func (o observed) p99() time.Duration { return percentile(o.took, 99) }

// caused returns the RU that the attack caused: the charges minus those without an attack.
func (o observed) caused(quiet undisturbed) (requests, background float64) {
	if quiet.elapsed == 0 {
		return o.charges.Requests, o.charges.Background
	}
	share := o.elapsed.Seconds() / quiet.elapsed.Seconds()
	return o.charges.Requests - share*quiet.charges.Requests, o.charges.Background - share*quiet.charges.Background
}

func (o observed) row(name string, quiet undisturbed) string {
	requests, background := o.caused(quiet)
	seconds := o.elapsed.Seconds()
	return fmt.Sprintf("%-33s %6.1f %8d %8d %9.0f %9.0f %9.0f %7.0f %9v %9v %9v", name, seconds, o.outcome.accepted,
		o.outcome.refused, requests, background,
		(1+backgroundRate)*attackInstances*(budgetRU+operationRU+budgetPerSec*seconds)+o.outcome.renamed,
		(requests+background)/seconds,
		percentile(o.took, 50).Round(10*time.Microsecond), o.p99().Round(10*time.Microsecond),
		o.lag.Round(time.Millisecond))
}

// phase sends requests of other viewers while attack runs, for at least attackedFor, and checks that the instances
// stay ready.
func (w *attackedBlog) phase(t *testing.T, name string, attack func(context.Context)) observed {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var o observed
	var all sync.WaitGroup
	defer func() { stop(); all.Wait() }() // also if attack ends the test
	began, charged := time.Now(), w.charges(t)
	all.Go(func() { o.took = w.sendOthers(t, ctx) })
	all.Go(func() { o.lag = w.probe(t, ctx) })
	for _, p := range w.instances {
		all.Go(func() { w.watchReadiness(t, ctx, p) })
	}
	timed, cancel := context.WithTimeout(ctx, attackedFor)
	defer cancel()
	attack(timed)
	<-timed.Done()
	stop()
	all.Wait()
	now := w.charges(t)
	o.elapsed = time.Since(began)
	o.charges = charges{now.Requests - charged.Requests, now.Background - charged.Background}
	slices.Sort(o.took)
	if len(o.took) < 20 {
		t.Fatalf("%s: other viewers got only %d responses", name, len(o.took))
	}
	return o
}

// sendOthers sends requests of other viewers at a fixed rate until ctx ends, and returns their latencies.
func (w *attackedBlog) sendOthers(t *testing.T, ctx context.Context) []time.Duration {
	tick := time.NewTicker(time.Second / 100)
	defer tick.Stop()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			all.Wait()
			return took
		case due := <-tick.C:
			all.Go(func() {
				query, variables := q2, map[string]any{"id": w.posts[n*7%len(w.posts)]}
				token := w.others[n%len(w.others)]
				switch n % 10 {
				case 0:
					query, variables = likePost, map[string]any{"post": w.posts[n*7%len(w.posts)]}
				case 5:
					query, variables = unlikePost, map[string]any{"post": w.posts[n*3%len(w.posts)]}
				case 2, 4, 6, 8:
					query, variables = q6, nil
				}
				w.sendOther(t, n/2%attackInstances, token, query, variables)
				d := time.Since(due)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, d)
			})
		}
	}
}

// sendOther sends an operation of another viewer, which must succeed. In the short form the instance may refuse it
// as overloaded.
func (w *attackedBlog) sendOther(t *testing.T, instance int, token, query string, variables map[string]any) {
	r, err := w.send(context.WithoutCancel(t.Context()), instance, token, "", query, variables)
	if err != nil || r.code() != "" && (testkit.Long() || r.code() != "UNAVAILABLE") {
		t.Errorf("another viewer: %v %v", err, r.Errors)
	}
}

// probe changes a user's name, and comments once a second, on one instance, and waits each time until the other
// instance shows the name or the count. It returns the longest delay.
func (w *attackedBlog) probe(t *testing.T, ctx context.Context) (lag time.Duration) {
	w.probes++
	name := fmt.Sprint("prober", w.probes)
	token := w.provider.token(t, name)
	background := context.WithoutCancel(ctx)
	shows := func(query string, variables map[string]any, path string, want any) bool {
		r, err := w.send(background, 1, "", "", query, variables)
		if err != nil {
			t.Error(err)
		}
		return find(r.Data, path) == want
	}
	write := func(query string, variables map[string]any) map[string]any {
		r, err := w.sendWithRetry(background, token, query, variables)
		if err != nil || r.code() != "" {
			t.Errorf("a prober: %v %v", err, r.Errors)
		}
		return r.Data
	}
	await := func(query string, variables map[string]any, path string, want any) bool {
		began := time.Now()
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for !shows(query, variables, path, want) {
			if <-again.C; time.Since(began) > time.Minute {
				t.Errorf("%s is not %v after a minute", path, want)
				return false
			}
		}
		lag = max(lag, time.Since(began))
		return true
	}
	comment := func() (id, count any) {
		data := write(createComment, map[string]any{"post": w.probed, "content": "a probe"})
		return find(data, "createComment.comment.id"), find(data, "createComment.post.commentCount")
	}
	const summaries = `query($id: ID!) { post(id: $id) { author { posts(first: 5) { edges { node { commentCount } } } } } }`
	counted := func(count any) bool {
		// The author has two posts, of which the probed one is the newest.
		return await(summaries, map[string]any{"id": w.probed}, "post.author.posts.edges.0.node.commentCount", count)
	}
	write(createUser, map[string]any{"name": name})
	id, count := comment()
	if !counted(count) {
		return lag
	}
	write(updateUser, map[string]any{"name": name + "renamed"})
	if !await(`query($id: ID!) { node(id: $id) { ... on Comment { author { username } } } }`, map[string]any{"id": id},
		"node.author.username", name+"renamed") {
		return lag
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return lag
		case <-tick.C:
			if _, count := comment(); !counted(count) {
				return lag
			}
		}
	}
}

// watchReadiness checks that an instance is ready until ctx ends.
func (w *attackedBlog) watchReadiness(t *testing.T, ctx context.Context, p *process) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := w.client.Get(p.Root + "/readyz")
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("an instance is not ready: %s", body)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
