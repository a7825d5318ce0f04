package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/cli"
	"byline/internal/longtest"
	"byline/store/blog"
	"byline/store/emulator"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0: random")
	chaosFor  = flag.Duration("chaos.for", 0, "how long each part of TestChaos sends load; 0: 3s, and 20s in its long form")
)

// chaosEngineArgs is the environment variable that makes this test binary a `byline emulator` of an
// account with two regions and lagging replicas that injects chaosFault and splits partitions on request.
// Its value is the directory and the address, separated by a line break.
const chaosEngineArgs = "BYLINE_CHAOS_ENGINE"

func chaosEngine() int {
	dir, address, _ := strings.Cut(os.Getenv(chaosEngineArgs), "\n")
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := func() (err error) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		engine, err := emulator.Open(dir, emulator.Options{Logger: log, Regions: []string{"West Europe", "North Europe"}, ItemWriters: 2, ReplicaLag: chaosReplicaLag})
		if err != nil {
			return err
		}
		engine.Inject(chaosFault)
		go func() {
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				container, id, _ := strings.Cut(lines.Text(), " ")
				fmt.Println(engine.Split("blog", container, id))
			}
			os.Exit(0) // the test has ended
		}()
		return (&cli.Emulator{Data: dir, HTTP: true, Sync: true, Listen: address}).Serve(context.Background(), engine, listener, log, nil)
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// chaosFault throttles 2% of the requests, as a partition does whose budget is used up, and answers 449
// to 1% of the writes. Of the batches, 2% fail by one operation.
func chaosFault(o emulator.Operation) emulator.Fault {
	n, retryAfter := rand.N(1000), time.Duration(1+rand.N(300))*time.Millisecond
	write := o.Kind != emulator.Read && o.Kind != emulator.Query && o.Kind != emulator.ChangeFeed && o.Kind != emulator.Metadata
	const retryWith = 449
	switch {
	case n < 20:
		return emulator.Fault{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}
	case n < 30 && write:
		return emulator.Fault{Status: retryWith}
	case n < 40:
		return emulator.Fault{BatchStatus: http.StatusTooManyRequests, BatchOperation: rand.N(3), RetryAfter: retryAfter}
	case n < 50:
		return emulator.Fault{BatchStatus: retryWith, BatchOperation: rand.N(3)}
	}
	return emulator.Fault{}
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

// split splits a physical partition.
func (e *engineProcess) split(container, id string) {
	e.t.Helper()
	if _, err := fmt.Fprintln(e.in, container, id); err != nil {
		e.t.Fatal(err)
	}
	if answer, err := e.out.ReadString('\n'); err != nil || answer != "<nil>\n" {
		e.t.Fatalf("split %s %s: %v %s", container, id, err, answer)
	}
}

// flags returns the flags of a byline that uses the engine; startEngine has set its key in the
// environment.
func (e *engineProcess) flags() []string {
	return []string{"--cosmos-endpoint", "http://" + e.address + "/"}
}

// TestChaos writes to three instances on one engine, each in its own process, and kills and restarts
// them every few seconds, while the engine injects chaosFault and splits partitions. Meanwhile no
// projection is more than 30 s behind. When the load stops, every projection becomes equal to its
// source, and every acknowledged write is stored exactly once. In the long form projections have 10 s
// for that:
//
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestChaos -v
//	BYLINE_TEST_LONG=1 go test ./internal/e2e -run TestChaos/engine -chaos.for=5m -v
func TestChaos(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string][]victim{
		"an instance is killed":                     {oneInstance},
		"all instances are killed":                  {allInstances},
		"the engine and then an instance is killed": {theEngine, oneInstance},
	} {
		t.Run(name, func(t *testing.T) {
			if !longtest.Enabled() { // the long form measures how long projections take
				t.Parallel()
			}
			runChaos(t, kills)
		})
	}
}

// victim is what is killed.
type victim int

const (
	oneInstance victim = iota
	allInstances
	theEngine
)

const (
	chaosSplits     = 3
	chaosLag        = 30 * time.Second // the most that a projection may be behind during the load
	chaosReplicaLag = 50 * time.Millisecond
)

func runChaos(t *testing.T, kills []victim) {
	duration := longtest.Pick(2*time.Second, 20*time.Second)
	if *chaosFor > 0 {
		duration = *chaosFor
	}
	every := longtest.Pick(600*time.Millisecond, 4*time.Second) // from one kill to the next
	within := longtest.Pick(time.Minute, 10*time.Second)
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	engine := startEngine(t)
	c := &cluster{engine: engine}
	for i := range c.instances {
		c.start(t, i)
	}
	var writers []*writer
	for i := range 6 {
		w := newWriter(t, c, fmt.Sprintf("writer%d", i), rand.New(rand.NewPCG(seed, uint64(i)+1)))
		w.renameEvery = max(20*time.Second, duration/3) // as often as Byline allows by default
		w.create()
		writers = append(writers, w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	stop := func() { cancel(); load.Wait() }
	defer stop()
	for _, w := range writers {
		load.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				w.step()
				pause(w.random, 0, 20*time.Millisecond)
			}
		})
	}

	lag := &lagWatch{}
	load.Go(func() { lag.run(ctx, engine) })

	began := time.Now()
	splits := []func(){func() { engine.split("posts", "0") }, func() { engine.split("users", "0") }, func() { engine.split("posts", "1") }}
	instances, engines := 0, 0
	for kill := 0; kill < 4 || time.Since(began) < duration; kill++ {
		next := time.NewTimer(every)
		if len(splits) > 0 {
			splits[0]()
			splits = splits[1:]
		}
		// What is killed is killed during the split or after it.
		pause(random, 0, every/4)
		switch kills[kill%len(kills)] {
		case theEngine:
			engine.kill()
			pause(random, 0, every/2)
			engine.start()
			engines++
		case oneInstance:
			i := random.IntN(len(c.instances))
			c.at(i).Kill()
			pause(random, 0, every/2)
			c.start(t, i)
			instances++
		case allInstances:
			for i := range c.instances {
				c.at(i).Kill()
			}
			for i := range c.instances {
				c.start(t, i)
			}
			instances += len(c.instances)
		}
		<-next.C
	}
	stop()
	stopped := time.Now()
	pause(random, chaosReplicaLag, 2*chaosReplicaLag) // for the last writes to be on every replica
	var out, log output
	status := run(t.Context(), append([]string{"views", "verify", "--settle", within.String()}, engine.flags()...), &out, &log, nil)
	took := time.Since(stopped)
	if status != 0 {
		t.Errorf("views verify: status %d after %v: %s%s", status, took, out.String(), log.String())
	}
	if took > within {
		t.Errorf("the projections caught up only after %v", took)
	}
	if lag.longest > chaosLag {
		t.Errorf("the projections were %v behind", lag.longest)
	}
	operations, retries := 0, 0
	for _, w := range writers {
		operations += w.operations
		retries += w.retries
		w.account()
	}
	accountAll(writers)
	t.Logf("%d operations, %d retries; %d instances and %d engines killed; %d splits; projections at most %v behind in %d samples, and verified %v after the load stopped",
		operations, retries, instances, engines, chaosSplits-len(splits), lag.longest.Round(time.Millisecond), lag.samples, took.Round(time.Millisecond))
	if operations < 20 || lag.samples == 0 && longtest.Enabled() { // a short load may end while the engine is down
		t.Error("too few operations, or no sample of the lag")
	}
	// Each range has one lease, and each lease an owner.
	eventually(t, func() error {
		var out, log output
		if status := run(t.Context(), append([]string{"views", "status"}, engine.flags()...), &out, &log, nil); status != 0 {
			return errors.New(log.String())
		}
		wanted := map[string]int{"projections-posts": 1, "projections-users": 1} // the sweep of usernames is slow
		for _, processor := range []string{"projections-posts", "projections-users", "projections-posts"}[:chaosSplits-len(splits)] {
			wanted[processor]++
		}
		for processor, n := range wanted {
			if have := strings.Count(out.String(), "| "+processor+" "); have != n {
				return fmt.Errorf("%d leases for %d ranges of %s:\n%s", have, n, processor, out.String())
			}
		}
		if strings.Contains(out.String(), "nobody") {
			return fmt.Errorf("a lease has no owner:\n%s", out.String())
		}
		return nil
	})
	if t.Failed() {
		for i := range c.instances {
			t.Logf("instance %d:\n%s", i, c.at(i).Log)
		}
	}
}

// pause waits for a random time.
func pause(random *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(random.Int64N(int64(most-least)))) // what is tested is that the moment does not matter
}

// lagWatch reads again and again how far the projections are behind. While that cannot be read, it
// counts them as making no progress.
type lagWatch struct {
	longest time.Duration
	samples int
}

func (l *lagWatch) run(ctx context.Context, engine *engineProcess) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	since := time.Now()
	for ctx.Err() == nil {
		at := time.Now()
		if behind, err := lagOf(ctx, engine); err == nil {
			l.samples++
			since = at.Add(-behind)
		}
		if ctx.Err() == nil { // otherwise the reading was canceled
			l.longest = max(l.longest, time.Since(since))
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// lagOf returns how long the first change waits that a projection has not applied.
func lagOf(ctx context.Context, engine *engineProcess) (longest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var out, log output
	if status := run(ctx, append([]string{"views", "status", "--json"}, engine.flags()...), &out, &log, nil); status != 0 {
		return 0, errors.New(log.String())
	}
	for lines := json.NewDecoder(strings.NewReader(out.String())); ; {
		var r struct {
			Processor     string
			BehindSeconds float64
		}
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			return longest, nil
		} else if err != nil {
			return 0, err
		}
		if strings.HasPrefix(r.Processor, "projections-") { // the sweep of usernames is slow
			longest = max(longest, time.Duration(r.BehindSeconds*float64(time.Second)))
		}
	}
}

// cluster is three instances on one engine.
type cluster struct {
	engine *engineProcess

	mu        sync.Mutex
	instances [3]*process // guarded by mu
	kept      []string    // guarded by mu; posts that all writers comment on and like
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	p := startProcess(t, append(c.engine.flags(), "--rename-cooldown=1s")...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[i] = p
}

func (c *cluster) at(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[i]
}

func (c *cluster) keep(post string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, post)
}

func (c *cluster) somePost(r *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[r.IntN(len(c.kept))]
}

// writer is a client that writes and records every acknowledged write. It does not change an item again
// after a retry: an earlier attempt may still be in flight.
type writer struct {
	t      *testing.T
	c      *cluster
	random *rand.Rand

	subject, id, name  string
	session            string // reads its own writes on every instance
	settled            bool   // the name
	renamed            time.Time
	renameEvery        time.Duration
	posts              map[string]*chaosPost
	comments           map[string]*chaosComment
	likes              map[string]*chaosLike // by post
	operations, number int
	retries            int
}

type chaosPost struct {
	title, content         string
	kept, deleted, settled bool
	version                float64
}

type chaosComment struct {
	post, content string
	deleted       bool
}

type chaosLike struct{ takenBack, settled bool }

func newWriter(t *testing.T, c *cluster, name string, r *rand.Rand) *writer {
	return &writer{t: t, c: c, random: r, subject: name, name: name, posts: map[string]*chaosPost{}, comments: map[string]*chaosComment{}, likes: map[string]*chaosLike{}}
}

// do sends an operation to one instance after the other until it gets a response. A response with the
// code is returned. again reports whether the operation was retried.
func (w *writer) do(query string, variables map[string]any, code string) (data map[string]any, refused, again bool) {
	w.operations++
	for deadline := time.Now().Add(time.Minute); ; again = true {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		out, err := w.c.at(w.random.IntN(len(w.c.instances))).PostIn(ctx, w.session, w.subject, query, variables)
		cancel()
		if out.Session != "" {
			w.session = out.Session
		}
		var got any
		if err == nil && out.Errors == nil {
			return out.Data, false, again
		} else if err == nil {
			if got = out.Errors[0].Extensions["code"]; got == code {
				return nil, true, again
			}
			// What is not found may be a post of another writer that has not reached the replica.
			if got != "THROTTLED" && got != "UNAVAILABLE" && got != "CONFLICT" && got != "NOT_FOUND" {
				w.t.Errorf("%s: %v", query, out.Errors)
				return nil, true, again
			}
		}
		if time.Now().After(deadline) {
			w.t.Errorf("%s got no response: %v %v", query, err, out.Errors)
			return nil, true, again
		}
		w.retries++
		pause(w.random, 5*time.Millisecond, 25*time.Millisecond)
	}
}

// key returns a new idempotency key.
func (w *writer) key() string {
	w.number++
	return fmt.Sprint(w.subject, "-", w.number)
}

// create makes the writer's user and first post.
func (w *writer) create() {
	data, refused, _ := w.do(`mutation($name: String!, $key: String) { createUser(input: {username: $name, idempotencyKey: $key}) { user { id } } }`,
		map[string]any{"name": w.name, "key": w.key()}, "")
	if refused {
		return
	}
	w.id = at(w.t, data, "createUser.user.id").(string)
	w.write(true)
}

// step sends one random operation.
func (w *writer) step() {
	switch n := w.random.IntN(100); {
	case n < 40:
		w.comment()
	case n < 65:
		w.like()
	case n < 80:
		w.write(w.random.IntN(3) == 0)
	case n < 87:
		w.edit()
	case n < 91:
		w.deletePost()
	case n < 94:
		w.deleteComment()
	case n < 97:
		w.unlike()
	case n < 99:
		w.rename()
	default:
		w.do(q6, nil, "")
	}
}

// content returns a text with the key, which every third time is too long to be stored on its post.
func (w *writer) content(key string) string {
	if w.random.IntN(3) > 0 {
		return key
	}
	return key + strings.Repeat(" long", (blog.InlineText+w.random.IntN(20_000))/len(" long"))
}

func (w *writer) write(keep bool) {
	key := w.key()
	content := w.content(key)
	data, refused, again := w.do(`mutation($title: String!, $content: String!, $key: String) { createPost(input: {title: $title, content: $content, idempotencyKey: $key}) { post { id version } } }`,
		map[string]any{"title": key, "content": content, "key": key}, "")
	if refused {
		return
	}
	id := at(w.t, data, "createPost.post.id").(string)
	w.posts[id] = &chaosPost{title: key, content: content, kept: keep, settled: again, version: at(w.t, data, "createPost.post.version").(float64)}
	if keep {
		w.c.keep(id)
	}
}

// ownPost chooses a post that may be edited or deleted.
func (w *writer) ownPost(keep bool) (string, *chaosPost) {
	for id, p := range w.posts {
		if !p.deleted && !p.settled && (keep || !p.kept) {
			return id, p
		}
	}
	return "", nil
}

func (w *writer) edit() {
	id, p := w.ownPost(true)
	if p == nil {
		return
	}
	title := w.key()
	content := w.content(title)
	data, refused, again := w.do(`mutation($id: ID!, $title: String!, $content: String!, $version: Int) { updatePost(input: {id: $id, title: $title, content: $content, version: $version}) { post { version } } }`,
		map[string]any{"id": id, "title": title, "content": content, "version": p.version}, "CONFLICT")
	if refused && !again {
		w.t.Errorf("edit of %s at version %v is refused", id, p.version)
	}
	p.title, p.content, p.settled = title, content, again // after a retry, the conflict may be with the first attempt
	if !refused {
		p.version = at(w.t, data, "updatePost.post.version").(float64)
	}
}

func (w *writer) deletePost() {
	id, p := w.ownPost(false)
	if p == nil {
		return
	}
	if _, refused, again := w.do(`mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`, map[string]any{"id": id}, "NOT_FOUND"); refused && !again {
		w.t.Errorf("post %s is lost", id)
	}
	p.deleted = true
}

func (w *writer) comment() {
	post, key := w.c.somePost(w.random), w.key()
	if own, p := w.ownPost(false); p != nil && w.random.IntN(3) == 0 {
		post = own // which may be deleted with the comment
	}
	data, refused, _ := w.do(`mutation($post: ID!, $content: String!, $key: String) { createComment(input: {postId: $post, content: $content, idempotencyKey: $key}) { comment { id } } }`,
		map[string]any{"post": post, "content": key, "key": key}, "")
	if !refused {
		w.comments[at(w.t, data, "createComment.comment.id").(string)] = &chaosComment{post: post, content: key}
	}
}

func (w *writer) deleteComment() {
	for id, c := range w.comments {
		if p := w.posts[c.post]; c.deleted || p != nil && p.deleted {
			continue
		}
		if _, refused, again := w.do(`mutation($id: ID!) { deleteComment(input: {id: $id}) { deletedCommentId } }`, map[string]any{"id": id}, "NOT_FOUND"); refused && !again {
			w.t.Errorf("comment %s is lost", id)
		}
		c.deleted = true
		return
	}
}

func (w *writer) like() {
	post := w.c.somePost(w.random)
	if w.likes[post] != nil {
		return
	}
	if _, refused, again := w.do(likePost, map[string]any{"post": post}, ""); !refused {
		w.likes[post] = &chaosLike{settled: again}
	}
}

func (w *writer) unlike() {
	for post, l := range w.likes {
		if l.takenBack || l.settled {
			continue
		}
		if _, refused, _ := w.do(unlikePost, map[string]any{"post": post}, ""); !refused {
			l.takenBack = true
		}
		return
	}
}

func (w *writer) rename() {
	if w.settled || time.Since(w.renamed) < w.renameEvery {
		return
	}
	w.renamed = time.Now()
	name := w.key()
	if _, refused, again := w.do(updateUser, map[string]any{"name": name}, ""); !refused {
		w.name, w.settled = name, again
	}
}

// account compares the acknowledged writes with the stored items.
func (w *writer) account() {
	w.t.Helper()
	if data, _, _ := w.do(q1, map[string]any{"id": w.id}, ""); find(data, "user.username") != w.name {
		w.t.Errorf("%s is called %v, not %s", w.subject, find(data, "user.username"), w.name)
	}
	posts, comments, liked := w.nodes(maps.Keys(w.posts)), w.nodes(maps.Keys(w.comments)), w.nodes(maps.Keys(w.likes))
	for id, p := range w.posts {
		title, content := find(posts[id], "title"), find(posts[id], "content")
		if p.deleted && title != nil || !p.deleted && (title != p.title || content != p.content) {
			w.t.Errorf("post %s: %v %.40v, should be %+.200v", id, title, content, *p)
		}
	}
	for id, c := range w.comments {
		got := find(comments[id], "comment")
		if gone := w.gone(c); gone && got != nil || !gone && got != c.content {
			w.t.Errorf("comment %s: %v, should be %+v", id, got, *c)
		}
	}
	for post, l := range w.likes {
		if got := find(liked[post], "viewerHasLiked"); got != !l.takenBack {
			w.t.Errorf("%s's like of %s exists: %v, should be %+v", w.subject, post, got, *l)
		}
	}
}

// nodes reads posts and comments as the writer.
func (w *writer) nodes(ids iter.Seq[string]) map[string]any {
	found := map[string]any{}
	for chunk := range slices.Chunk(slices.Collect(ids), 100) {
		data, _, _ := w.do(`query($ids: [ID!]!) { nodes(ids: $ids) { ... on Post { title content commentCount likeCount viewerHasLiked } ... on Comment { comment: content } } }`,
			map[string]any{"ids": chunk}, "")
		for i, id := range chunk {
			found[id] = find(data, fmt.Sprint("nodes.", i))
		}
	}
	return found
}

// gone reports whether a comment or its post was deleted.
func (w *writer) gone(c *chaosComment) bool {
	p := w.posts[c.post]
	return c.deleted || p != nil && p.deleted
}

// accountAll finds writes that were stored twice: it compares the counts of the posts with the
// acknowledged writes of all writers.
func accountAll(writers []*writer) {
	comments, likes := map[string]int{}, map[string]int{}
	for _, w := range writers {
		for _, c := range w.comments {
			if !w.gone(c) {
				comments[c.post]++
			}
		}
		for post, l := range w.likes {
			if !l.takenBack {
				likes[post]++
			}
		}
	}
	for _, w := range writers {
		there := w.nodes(maps.Keys(w.posts))
		for id, p := range w.posts {
			if p.deleted {
				continue
			}
			if c, l := find(there[id], "commentCount"), find(there[id], "likeCount"); c != float64(comments[id]) || l != float64(likes[id]) {
				w.t.Errorf("post %s has %v comments and %v likes, of which %d and %d were acknowledged", id, c, l, comments[id], likes[id])
			}
		}
		n, after := 0, any(nil)
		for {
			data, _, _ := w.do(`query($id: ID!, $after: String) { user(id: $id) { posts(first: 100, after: $after) { edges { node { id } } pageInfo { endCursor hasNextPage } } } }`,
				map[string]any{"id": w.id, "after": after}, "")
			edges, _ := find(data, "user.posts.edges").([]any)
			n += len(edges)
			if after = find(data, "user.posts.pageInfo.endCursor"); find(data, "user.posts.pageInfo.hasNextPage") != true {
				break
			}
		}
		for _, p := range w.posts {
			if !p.deleted {
				n--
			}
		}
		if n != 0 {
			w.t.Errorf("%s has %d posts more than were acknowledged", w.subject, n)
		}
	}
}
