package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"byline/graph/globalid"
	"byline/internal/account"
	"byline/internal/longtest"
	"byline/internal/secrettest"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
)

// What docs/limits.md says that one viewer can cause with default limits.
const (
	budgetRU       = 6000 // of requests to an instance, at once
	budgetPerSec   = 100  // and then
	operationRU    = 400  // may be over the budget
	backgroundRate = 1.5  // RU in the background for each RU of requests
	renamesADay    = 3
	sweptRU        = 11.9 // for each comment of a user who is renamed
	maxSubscribed  = 500  // subscriptions of a viewer on an instance
	maxCommented   = 1000 // comments of a viewer on a post
	uncounted      = 50   // more, on each instance
)

const (
	attackInstances = 2
	attackConns     = 4   // of the attacker, to each instance
	attackRate      = 100 // requests a second to each instance: twice the limit of a viewer
	attackBlogPosts = 150
	sharedMachine   = 50 * time.Millisecond // others' p99 up to this tells about the machine, which attacker, engine and instances share
)

// TestAttack_OneViewer attacks two instances with default limits by one viewer at a time, while others
// read, like, comment and rename. The request units that the attack causes stay below what
// docs/limits.md says, others see what others write, and the instances are ready. The long form has
// 20,000 comments and 15,000 subscriptions, and compares others' p99 with that before:
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestAttack -v
func TestAttack_OneViewer(t *testing.T) {
	longtest.Heavy(t)
	if !longtest.Enabled() { // no latency is judged
		t.Parallel()
	}
	w := newAttackedBlog(t)
	before := w.phase(t, "", func(context.Context) {})
	w.rows = append(w.rows, before.row("undisturbed", undisturbed{}))
	quiet := undisturbed{charges: before.charges, elapsed: before.elapsed, p99: before.p99()}

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
			answers, background := during.caused(quiet)
			mostAnswers := attackInstances * (budgetRU + operationRU + budgetPerSec*during.elapsed.Seconds())
			mostBackground := backgroundRate*mostAnswers + o.renamed
			if answers > mostAnswers || background > mostBackground {
				t.Errorf("the attack caused %.0f RU in requests and %.0f RU in the background; want at most %.0f and %.0f", answers, background, mostAnswers, mostBackground)
			}
			if o.refused == 0 {
				t.Error("nothing was refused: this is no attack")
			}
			if during.lag > 10*time.Second {
				t.Errorf("others' writes showed after %v", during.lag)
			}
			if longtest.Enabled() && during.p99() > max(2*quiet.p99, sharedMachine) {
				t.Errorf("p99 of others is %v, and was %v", during.p99(), quiet.p99)
			}
		})
	}
	t.Logf("%-33s %6s %8s %8s %9s %9s %9s %7s %9s %9s %9s\n%s", "", "s", "accepted", "refused", "RU", "RU back", "RU bound", "RU/s", "p50", "p99", "lag", strings.Join(w.rows, "\n"))
}

// outcome is what an attack achieved.
type outcome struct {
	accepted, refused int
	renamed           float64 // RU that accepted renames may cause
}

type undisturbed struct {
	charges charges
	elapsed time.Duration
	p99     time.Duration
}

// charges are those of the engine.
type charges struct{ answers, background float64 }

// chargedEngine is an engine behind HTTP that sums its request charges.
type chargedEngine struct {
	*emulator.Engine
	mu  sync.Mutex
	sum charges // guarded by mu
}

func (e *chargedEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.Engine.ServeHTTP(w, r)
	ru, _ := strconv.ParseFloat(w.Header().Get("x-ms-request-charge"), 64)
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Header.Get("x-ms-cosmos-priority-level") == "Low" || r.Header.Get("A-Im") != "" || strings.Contains(r.URL.Path, "/colls/leases/") {
		e.sum.background += ru
	} else {
		e.sum.answers += ru
	}
}

func (e *chargedEngine) charges() charges {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sum
}

// attackedBlog is a blog that two instances serve to others and to attackers.
type attackedBlog struct {
	provider  *identityProvider
	engine    *chargedEngine
	store     *store.Store // of the test
	instances []*process
	client    *http.Client
	others    []string // tokens
	publisher string   // the token of one who publishes long posts
	posts     []string // global ids
	longest   string   // the global id of the longest post
	probed    string   // of one that the prober comments on
	commented string   // of the post with the renamer's comments
	comment   string   // the last of those
	cursors   []string // of comments on it
	probes    int
	rows      []string
}

const commentedPost = "post-renamer0"

var (
	renamersComments  = longtest.Pick(1000, 20_000)
	commentersSeeded  = maxCommented - 10
	attackedFor       = longtest.Pick(time.Second, 10*time.Second)
	openSubscriptions = longtest.Pick(2*1500, 15_000)
)

func newAttackedBlog(t *testing.T) *attackedBlog {
	t.Helper()
	engine, err := emulator.Open(t.TempDir(), emulator.Options{NoSync: true, Logger: secrettest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &attackedBlog{provider: startProvider(t), engine: &chargedEngine{Engine: engine}}
	server := httptest.NewServer(w.engine)
	t.Cleanup(server.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	w.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	w.seed(t, server.URL)
	for range attackInstances {
		p := startProcess(t, "--cosmos-endpoint", server.URL, "--auth-issuer", w.provider.URL, "--auth-audience", "byline")
		p.WaitReady()
		eventually(t, func() error {
			if c := identityCheck(&p.Instance); !c.OK {
				return errors.New(c.Detail)
			}
			return nil
		})
		w.instances = append(w.instances, p)
	}
	for i := range 8 {
		token := w.provider.token(t, fmt.Sprint("reader", i))
		w.others = append(w.others, token)
		w.must(t, token, createUser, map[string]any{"name": fmt.Sprint("reader", i)})
	}
	author := w.provider.token(t, "author")
	w.publisher = w.provider.token(t, "publisher")
	w.must(t, w.publisher, createUser, map[string]any{"name": "publisher"})
	post := func(content string) string {
		return at(t, w.must(t, author, createPost, map[string]any{"title": "t", "content": content}), "createPost.post.id").(string)
	}
	w.must(t, author, createUser, map[string]any{"name": "author"})
	for after := any(nil); len(w.cursors) < 400; {
		page := w.must(t, author, `query($id: ID!, $after: String) { post(id: $id) { comments(first: 100, after: $after) { edges { cursor } } } }`, map[string]any{"id": w.commented, "after": after})
		for _, edge := range at(t, page, "post.comments.edges").([]any) {
			w.cursors = append(w.cursors, find(edge, "cursor").(string))
		}
		after = w.cursors[len(w.cursors)-1]
	}
	w.longest, w.probed = post(strings.Repeat("𝄞", 100_000)), post("probed")
	return w
}

// seed imports posts, and a post with many comments of the renamer and nearly as many as possible of the commenter.
func (w *attackedBlog) seed(t *testing.T, endpoint string) {
	t.Helper()
	flags := account.Flags{CosmosEndpoint: endpoint, CosmosDatabase: "blog"}
	db, err := flags.Open(t.Context(), secrettest.Logger(), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if w.store, err = flags.Loader(db, secrettest.Logger()); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-24 * time.Hour)
	user := func(name string) *blog.User {
		return &blog.User{ID: blog.UserID(w.provider.URL, name), Username: name, CreatedAt: blog.NewDate(began), Revision: 1}
	}
	renamer, commenter, writer := user("renamer"), user("commenter"), user("writer")
	post := func(author *blog.User, i int) store.Thread {
		return store.Thread{Post: &blog.Post{ID: fmt.Sprint("post-", author.Username, i), AuthorID: author.ID, AuthorUsername: author.Username, Title: fmt.Sprint("post ", i),
			Content: strings.Repeat("Every read of the front page is one request. ", 30), CreatedAt: blog.NewDate(began.Add(time.Duration(i) * time.Second)), Version: 1, Revision: 1}}
	}
	threads := map[*blog.User][]store.Thread{commenter: nil, renamer: {post(renamer, 0)}}
	var posts []*blog.Post
	for i := range attackBlogPosts {
		threads[writer] = append(threads[writer], post(writer, i))
		posts = append(posts, threads[writer][i].Post)
		w.posts = append(w.posts, globalid.ID{Kind: globalid.Post, Key: posts[i].ID}.String())
	}
	many := &threads[renamer][0]
	for i := range renamersComments + commentersSeeded {
		by := commenter
		if i >= commentersSeeded {
			by = renamer
		}
		many.Comments = append(many.Comments, &blog.Comment{ID: fmt.Sprintf("comment-%05d", i), PostID: many.Post.ID, AuthorID: by.ID, AuthorUsername: by.Username,
			Content: "well put", CreatedAt: blog.NewDate(began.Add(time.Duration(i) * time.Millisecond))})
	}
	many.Post.CommentCount, many.Post.Revision = int32(len(many.Comments)), int64(1+len(many.Comments))
	w.commented = globalid.ID{Kind: globalid.Post, Key: many.Post.ID}.String()
	w.comment = globalid.ID{Kind: globalid.Comment, Parent: many.Post.ID, Key: many.Comments[len(many.Comments)-1].ID}.String()

	if err := w.store.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for u, theirs := range threads {
		if err := w.store.Import(t.Context(), u, slices.Values(theirs)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.ImportFeed(t.Context(), append(posts, many.Post)); err != nil {
		t.Fatal(err)
	}
}

// reply is a response as far as it matters here.
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

// send sends an operation; token and session may be "".
func (w *attackedBlog) send(ctx context.Context, instance int, token, session, query string, variables map[string]any) (r reply, err error) {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return r, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.instances[instance].Root+"/graphql", bytes.NewReader(body))
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
	response, err := w.client.Do(request)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return r, err
	}
	r.session = response.Header.Get("Byline-Session")
	return r, json.Unmarshal(b, &r)
}

// must sends an operation to the first instance, and returns its data.
func (w *attackedBlog) must(t *testing.T, token, query string, variables map[string]any) map[string]any {
	t.Helper()
	r, err := w.send(t.Context(), 0, token, "", query, variables)
	if err != nil || r.code() != "" {
		t.Fatalf("%s: %v %v", query, err, r.Errors)
	}
	return r.Data
}

// observed is what others saw in a phase.
type observed struct {
	charges charges
	elapsed time.Duration
	took    []time.Duration // sorted
	lag     time.Duration
	outcome outcome
}

func (o observed) p99() time.Duration { return percentile(o.took, 99) }

// caused is what was charged beyond what others cause.
func (o observed) caused(quiet undisturbed) (answers, background float64) {
	if quiet.elapsed == 0 {
		return o.charges.answers, o.charges.background
	}
	share := o.elapsed.Seconds() / quiet.elapsed.Seconds()
	return o.charges.answers - share*quiet.charges.answers, o.charges.background - share*quiet.charges.background
}

func (o observed) row(name string, quiet undisturbed) string {
	answers, background := o.caused(quiet)
	seconds := o.elapsed.Seconds()
	return fmt.Sprintf("%-33s %6.1f %8d %8d %9.0f %9.0f %9.0f %7.0f %9v %9v %9v", name, seconds, o.outcome.accepted, o.outcome.refused, answers, background,
		(1+backgroundRate)*attackInstances*(budgetRU+operationRU+budgetPerSec*seconds)+o.outcome.renamed, (answers+background)/seconds,
		percentile(o.took, 50).Round(10*time.Microsecond), o.p99().Round(10*time.Microsecond), o.lag.Round(time.Millisecond))
}

// phase lets others read and write while attack runs, and for attackedFor at least. It checks that the
// instances are ready all the time.
func (w *attackedBlog) phase(t *testing.T, name string, attack func(context.Context)) observed {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var o observed
	var all sync.WaitGroup
	defer func() { stop(); all.Wait() }() // also if attack ends the test
	began, charged := time.Now(), w.engine.charges()
	all.Go(func() { o.took = w.honest(t, ctx) })
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
	now := w.engine.charges()
	o.elapsed = time.Since(began)
	o.charges = charges{now.answers - charged.answers, now.background - charged.background}
	slices.Sort(o.took)
	if len(o.took) < 20 {
		t.Fatalf("%s: others were answered %d times", name, len(o.took))
	}
	return o
}

// honest sends requests of others at a fixed rate until ctx ends, and returns how long they took.
func (w *attackedBlog) honest(t *testing.T, ctx context.Context) []time.Duration {
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
				w.other(t, n/2%attackInstances, token, query, variables)
				d := time.Since(due)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, d)
			})
		}
	}
}

// other sends an operation of another viewer, which must succeed. In the short form the machine may be
// overloaded.
func (w *attackedBlog) other(t *testing.T, instance int, token, query string, variables map[string]any) {
	r, err := w.send(context.WithoutCancel(t.Context()), instance, token, "", query, variables)
	if err != nil || r.code() != "" && (longtest.Enabled() || r.code() != "UNAVAILABLE") {
		t.Errorf("another viewer: %v %v", err, r.Errors)
	}
}

// probe has another user comment on one instance, once a second, and a user change their name, and waits
// until the other instance shows the count and the name. It returns the longest time.
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
		r, err := w.send(background, 0, token, "", query, variables)
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
	if !await(`query($id: ID!) { node(id: $id) { ... on Comment { author { username } } } }`, map[string]any{"id": id}, "node.author.username", name+"renamed") {
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

// flood sends operations by a viewer over several connections to each instance until ctx ends, and
// returns their replies by code.
func (w *attackedBlog) flood(t *testing.T, ctx context.Context, token, session string, operation func(n int) (query string, variables map[string]any)) map[string]int {
	codes := map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	var sent atomic.Int64
	for i := range attackInstances * attackConns {
		all.Go(func() {
			tick := time.NewTicker(time.Second * attackConns / attackRate)
			defer tick.Stop()
			for ctx.Err() == nil {
				query, variables := operation(int(sent.Add(1)))
				r, err := w.send(context.WithoutCancel(ctx), i%attackInstances, token, session, query, variables)
				if err != nil {
					t.Errorf("the attacker: %v", err)
					return
				}
				mu.Lock()
				codes[r.code()]++
				mu.Unlock()
				<-tick.C
			}
		})
	}
	all.Wait()
	t.Logf("%v", codes)
	return codes
}

// outcomeOf checks that operations were accepted, or refused by a limit that is named.
func outcomeOf(t *testing.T, codes map[string]int, limits ...string) (o outcome) {
	t.Helper()
	for code, n := range codes {
		switch {
		case code == "":
			o.accepted += n
		case slices.Contains(limits, code), code == "UNAVAILABLE": // overloaded
			o.refused += n
		default:
			t.Errorf("%d operations: %s", n, code)
		}
	}
	return o
}

// renames toggles the case of a name that is on many comments.
func (w *attackedBlog) renames(t *testing.T, ctx context.Context) outcome {
	token := w.provider.token(t, "renamer")
	codes := w.flood(t, ctx, token, "", func(n int) (string, map[string]any) {
		return updateUser, map[string]any{"name": []string{"Renamer", "rENAMER", "RENAMER"}[n%3]}
	})
	o := outcomeOf(t, codes, "THROTTLED", "CONFLICT")
	u, err := w.store.User(t.Context(), blog.UserID(w.provider.URL, "renamer"))
	if err != nil {
		t.Fatal(err)
	}
	o.accepted = int(u.Revision - 1) // repeating the current name is no rename
	if o.accepted != renamesADay {
		t.Errorf("%d renames, want %d", o.accepted, renamesADay)
	}
	o.renamed = renamesADay * sweptRU * float64(renamersComments)
	w.awaitSweeps(t, u.Username)
	return o
}

// awaitSweeps waits until the renamer's last comment has the name and no job is left.
func (w *attackedBlog) awaitSweeps(t *testing.T, name string) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for began := time.Now(); ; <-again.C {
		r, err := w.send(context.WithoutCancel(t.Context()), 0, "", "", `query($id: ID!) { node(id: $id) { ... on Comment { author { username } } } }`, map[string]any{"id": w.comment})
		if err != nil {
			t.Fatal(err)
		}
		jobs := 0.0
		for _, p := range w.instances {
			all, err := scrape(p.Root)
			if err != nil {
				t.Fatal(err)
			}
			n, _ := total(all, "byline_jobs", nil)
			jobs += n
		}
		have := find(r.Data, "node.author.username")
		if have == name && jobs == 0 {
			return
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("the name is %v, want %s; %.0f jobs", have, name, jobs)
		}
	}
}

// toggles likes and unlikes the longest post.
func (w *attackedBlog) toggles(t *testing.T, ctx context.Context) outcome {
	token := w.attacker(t, "toggler")
	var query strings.Builder
	for i := range 10 {
		fmt.Fprintf(&query, `l%d: likePost(input: {postId: %q}) { post { id } } u%[1]d: unlikePost(input: {postId: %[2]q}) { post { id } } `, i, w.longest)
	}
	// Batches that meet on one post conflict.
	return outcomeOf(t, w.flood(t, ctx, token, "", func(int) (string, map[string]any) { return "mutation { " + query.String() + "}", nil }), "THROTTLED", "CONFLICT")
}

// attacker creates a user and returns their token.
func (w *attackedBlog) attacker(t *testing.T, name string) (token string) {
	t.Helper()
	token = w.provider.token(t, name)
	w.must(t, token, createUser, map[string]any{"name": name})
	return token
}

// sessions reads a hundred posts at a time in a session that asks for what no replica will ever have.
func (w *attackedBlog) sessions(t *testing.T, ctx context.Context) outcome {
	token := w.attacker(t, "crafter")
	r, err := w.send(t.Context(), 0, token, "", likePost, map[string]any{"post": w.posts[0]}) // of the range that is read
	if err != nil || r.session == "" {
		t.Fatalf("no session: %v %v", err, r.Errors)
	}
	var query strings.Builder
	query.WriteString("{")
	for i := range 100 {
		fmt.Fprintf(&query, ` p%d: post(id: %q) { title author { username } }`, i, w.posts[i])
	}
	query.WriteString("}")
	crafted := craftSession(t, r.session)
	before := w.metric(t, "byline_session_invalid_total")
	o := outcomeOf(t, w.flood(t, ctx, token, crafted, func(int) (string, map[string]any) { return query.String(), nil }), "THROTTLED")
	ignored := int(w.metric(t, "byline_session_invalid_total") - before)
	if ignored < o.accepted {
		t.Errorf("%d crafted sessions were ignored, of %d", ignored, o.accepted)
	}
	o.refused += ignored
	return o
}

// metric returns the sum of a metric of the instances.
func (w *attackedBlog) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	for _, p := range w.instances {
		all, err := scrape(p.Root)
		if err != nil {
			t.Fatal(err)
		}
		n, there := total(all, name, nil)
		if !there {
			t.Fatalf("there is no %s", name)
		}
		sum += n
	}
	return sum
}

// craftSession raises each LSN of a session token to 2^60. The MAC is no longer that of the token.
func craftSession(t *testing.T, token string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	const mac, note = 16, 0xff
	crafted, rest, signature := b[:1:1], b[1:len(b)-mac], b[len(b)-mac:]
	uvarint := func() uint64 {
		x, n := binary.Uvarint(rest)
		rest = rest[n:]
		return x
	}
	raised := 0
	for len(rest) > 0 && rest[0] != note {
		crafted, rest = append(crafted, rest[:5]...), rest[5:]
		ranges := uvarint()
		crafted = binary.AppendUvarint(crafted, ranges)
		for range ranges {
			crafted = binary.AppendUvarint(crafted, uvarint()) // id
			crafted = binary.AppendUvarint(crafted, uvarint()) // version
			_, regions := uvarint(), uvarint()
			crafted = binary.AppendUvarint(binary.AppendVarint(crafted, 1<<60), regions)
			for range regions {
				crafted = binary.AppendUvarint(crafted, uvarint())
				_ = uvarint()
				crafted = binary.AppendVarint(crafted, 1<<60)
			}
			raised++
		}
	}
	if raised == 0 {
		t.Fatal("a session of no range")
	}
	return base64.RawURLEncoding.EncodeToString(slices.Concat(crafted, rest, signature))
}

// comments writes comments on a post that has many.
func (w *attackedBlog) comments(t *testing.T, ctx context.Context) outcome {
	token := w.provider.token(t, "commenter")
	var query strings.Builder
	for i := range 10 {
		fmt.Fprintf(&query, `c%d: createComment(input: {postId: %q, content: "again and again"}) { comment { id } } `, i, w.commented)
	}
	codes := w.flood(t, ctx, token, "", func(int) (string, map[string]any) { return "mutation { " + query.String() + "}", nil })
	o := outcomeOf(t, codes, "THROTTLED", "LIMIT_REACHED", "CONFLICT")
	post, err := w.store.Post(t.Context(), commentedPost)
	if err != nil {
		t.Fatal(err)
	}
	o.accepted = int(post.CommentCount) - renamersComments - commentersSeeded
	if most := maxCommented - commentersSeeded + attackInstances*(uncounted+attackConns); o.accepted > most {
		t.Errorf("%d comments of a viewer on a post; want at most %d", commentersSeeded+o.accepted, commentersSeeded+most)
	}
	if codes["LIMIT_REACHED"] == 0 {
		t.Error("the limit of comments was not reached")
	}
	return o
}

// subscriptions opens as many subscriptions as a viewer can, and publishes posts of 99 KB.
func (w *attackedBlog) subscriptions(t *testing.T, ctx context.Context) outcome {
	const perConn, expensive = 100, 20
	token := w.attacker(t, "subscriber")
	connected, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { cancel(); all.Wait() }()
	var asked, ended, events atomic.Int64
	for i := range openSubscriptions / perConn {
		c, res, err := websocket.Dial(connected, w.instances[i%attackInstances].Root+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		if err != nil {
			t.Fatal(err)
		}
		if res.Body != nil {
			res.Body.Close()
		}
		c.SetReadLimit(1 << 20)
		all.Go(func() {
			defer c.CloseNow()
			for {
				_, m, err := c.Read(connected)
				if err != nil {
					return
				}
				switch {
				case bytes.Contains(m[:min(len(m), 100)], []byte(`"type":"error"`)):
					ended.Add(1)
				case bytes.Contains(m[:min(len(m), 100)], []byte(`"type":"next"`)):
					events.Add(1)
				}
			}
		})
		all.Go(func() {
			send := func(m any) error {
				b, err := json.Marshal(m)
				if err != nil {
					return err
				}
				return c.Write(connected, websocket.MessageText, b)
			}
			err := send(map[string]any{"type": "connection_init", "payload": map[string]string{"authorization": "Bearer " + token}})
			for n := 0; n < perConn && err == nil; n++ {
				query := `subscription { postPublished { id title content author { username } } }`
				if i < attackInstances && n < expensive {
					query = w.expensiveEvents(i*expensive + n)
				}
				err = send(map[string]any{"type": "subscribe", "id": strconv.Itoa(n), "payload": map[string]any{"query": query}})
				asked.Add(1)
			}
		})
	}
	long := map[string]any{"title": "long", "content": strings.Repeat("x", 99_000)}
	for range 3 {
		w.must(t, w.publisher, createPost, long)
	}
	tick := time.NewTicker(attackedFor / 20)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		w.other(t, n%attackInstances, w.others[n%len(w.others)], createComment, map[string]any{"post": w.commented, "content": "for the subscribers"})
		<-tick.C
	}
	open := w.metric(t, "byline_subscribers")
	if open > attackInstances*maxSubscribed || open == 0 {
		t.Errorf("%.0f subscriptions of a viewer are open", open)
	}
	t.Logf("%d subscriptions asked for, %.0f open, %d refused, %d events", asked.Load(), open, ended.Load(), events.Load())
	return outcome{accepted: int(open), refused: int(ended.Load())}
}

// expensiveEvents is a subscription whose events read pages that those of no other number read.
func (w *attackedBlog) expensiveEvents(number int) string {
	var query strings.Builder
	fmt.Fprintf(&query, `subscription { commentAdded(postId: %q) { post {`, w.commented)
	const pages = 10
	for i := range pages {
		fmt.Fprintf(&query, ` p%d: comments(first: 20, after: %q) { edges { node { id } } }`, i, w.cursors[number*pages+i])
	}
	query.WriteString(" } } }")
	return query.String()
}
