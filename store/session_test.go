package store_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// openLagging opens an account whose replica never catches up while a test runs, or the endpoint.
func openLagging(t testing.TB) *cosmostest.Account {
	t.Helper()
	return cosmostest.Open(t, emulator.Options{ReplicaLag: time.Hour})
}

// instance is a store with a memory of its own, as another process has one.
type instance struct {
	*store.Store
	account  *cosmos.Account
	client   *azcosmos.Client // of the account
	database string
	wire     *storetest.Wire
	metrics  *prometheus.Registry
}

func newInstance(t testing.TB, a *cosmostest.Account, policies ...policy.Policy) *instance {
	t.Helper()
	return newInstanceWith(t, a, cosmos.Options{Policies: policies})
}

func newInstanceWith(t testing.TB, a *cosmostest.Account, o cosmos.Options) *instance {
	t.Helper()
	i := &instance{wire: &storetest.Wire{To: a.Transport}, database: a.Database, metrics: prometheus.NewRegistry()}
	o.Endpoint, o.Key, o.Credential, o.Transport, o.Metrics = a.Endpoint, a.Key, a.Credential, i.wire, i.metrics
	var err error
	if i.account, err = cosmos.Open(o); err != nil {
		t.Fatal(err)
	}
	i.client = i.account.Client()
	if i.Store, err = store.New(i.account, store.Options{Database: a.Database}); err != nil {
		t.Fatal(err)
	}
	if err := i.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

// within returns a context of a session that goes on from a token.
func (i *instance) within(t testing.TB, token string) (context.Context, *cosmos.Session) {
	t.Helper()
	s := i.NewSession(token)
	return cosmos.WithSession(t.Context(), s), s
}

// count returns the value of a counter without labels.
func (i *instance) count(t testing.TB, name string) int {
	t.Helper()
	families, err := i.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return int(f.Metric[0].GetCounter().GetValue())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// sends counts the requests about items that f sends, and what they are charged.
func (i *instance) sends(f func()) (requests int, ru float64) {
	var mu sync.Mutex
	i.wire.After(func(r *http.Response) {
		if !strings.Contains(r.Request.URL.Path, "/docs") {
			return
		}
		charge, _ := strconv.ParseFloat(r.Header.Get("X-Ms-Request-Charge"), 64)
		mu.Lock()
		defer mu.Unlock()
		requests, ru = requests+1, ru+charge
	})
	f()
	i.wire.After(nil)
	return requests, ru
}

// sessionOfTheFuture returns the token of a session that asks for more than Cosmos DB has, as after
// a failover that has lost writes, made by an instance with these options.
func sessionOfTheFuture(t testing.TB, a *cosmostest.Account, o cosmos.Options) string {
	t.Helper()
	i := newInstanceWith(t, a, o)
	i.wire.After(func(r *http.Response) {
		if id, _, ok := strings.Cut(r.Header.Get("X-Ms-Session-Token"), ":"); ok && r.Request.Method == http.MethodPost {
			r.Header.Set("X-Ms-Session-Token", fmt.Sprintf("%s:-1#%d", id, 1<<60))
		}
	})
	ctx, session := i.within(t, "")
	if _, err := i.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", "grace"), Username: "grace"}); err != nil || session.Token() == "" {
		t.Fatal("no session", err)
	}
	return session.Token()
}

// A session that this account has not made changes nothing, not the cost of 100 reads either, and
// is counted.
func TestSession_CraftedTokenIsIgnored(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one := newInstance(t, a)
		ctx, session := one.within(t, "")
		id := blog.UserID("test", "ada")
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(session.Token())
		if err != nil {
			t.Fatal(err)
		}
		two := newInstance(t, a)
		reads := func(token string) (int, float64) {
			ctx, _ := two.within(t, token)
			return two.sends(func() {
				for range 100 {
					if u, err := two.User(ctx, id); u != nil || err != nil {
						t.Errorf("%v %v", u, err)
					}
				}
			})
		}
		requests, ru := reads("")
		crafted := map[string]string{"with another key": sessionOfTheFuture(t, a, cosmos.Options{SessionKey: []byte("another")}), "rubbish": "rubbish!"}
		for at := range raw {
			b := slices.Clone(raw)
			b[at] ^= 0x40
			crafted[fmt.Sprint("with byte ", at, " changed")] = base64.RawURLEncoding.EncodeToString(b)
		}
		n := two.count(t, "byline_session_invalid_total")
		for name, token := range crafted {
			if r, u := reads(token); r != requests || u != ru {
				t.Errorf("%s: %d requests, %g RU, not %d and %g", name, r, u, requests, ru)
			}
			if n++; two.count(t, "byline_session_invalid_total") != n {
				t.Errorf("%s: not counted", name)
			}
		}
	})
}

// All reads of an operation wait together for what no replica has, and not each for itself. Then
// they see what there is.
func TestSession_OneWaitPerOperation(t *testing.T) {
	const n = 100
	read := func(t *testing.T, i *instance, ctx context.Context) {
		if u, err := i.User(ctx, blog.UserID("test", "grace")); err != nil {
			t.Errorf("%v %v", u, err)
		}
	}
	for name, tt := range map[string]struct {
		most int // requests
		read func(*testing.T, *instance, context.Context)
	}{
		"one after the other": {n + 15, func(t *testing.T, i *instance, ctx context.Context) {
			for range n {
				read(t, i, ctx)
			}
		}},
		"at once": {3*n + 15, func(t *testing.T, i *instance, ctx context.Context) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { read(t, i, ctx) })
			}
			wg.Wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				a := cosmostest.Open(t, emulator.Options{})
				token := sessionOfTheFuture(t, a, cosmos.Options{})
				i := newInstance(t, a)
				ctx, _ := i.within(t, token)
				began := time.Now()
				requests, ru := i.sends(func() { tt.read(t, i, ctx) })
				if took := time.Since(began); took > time.Second {
					t.Errorf("waited %v", took)
				}
				if requests > tt.most {
					t.Errorf("%d requests, %g RU", requests, ru)
				}
				if got := i.count(t, "byline_session_unreached_total"); got < 1 || got > n {
					t.Errorf("%d reads are counted", got)
				}
				t.Logf("%d requests, %.1f RU", requests, ru)
			})
		})
	}
}

// A read of a container with many ranges, in many regions, asks for that of its own range; before
// the ranges are known for as many as the header has room for.
func TestSession_HeaderOf256RangesInFiveRegions(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "its partitions and its replica lag")
		a := cosmostest.Open(t, emulator.Options{Partitions: 256, ReplicaLag: time.Hour})
		i := newInstance(t, a)
		var longest atomic.Int64
		var ofOthers atomic.Int64 // requests with tokens of other ranges
		const sessionHeader, rangeHeader = "X-Ms-Session-Token", "X-Ms-Documentdb-Partitionkeyrangeid"
		i.wire.After(func(r *http.Response) {
			sent := r.Request.Header.Get(sessionHeader)
			longest.Store(max(longest.Load(), int64(len(sent))))
			if sent != "" && r.StatusCode != http.StatusNotFound && (strings.Contains(sent, ",") || !strings.HasPrefix(sent, r.Header.Get(rangeHeader)+":")) {
				ofOthers.Add(1)
			}
			if id, lsn, ok := strings.Cut(r.Header.Get(sessionHeader), ":-1#"); ok {
				r.Header.Set(sessionHeader, id+":1234567#"+lsn+"#1=1234567890123#257=-1#35=1234567890123#7=1234567890123#9=1234567890123")
			}
		})
		users := i.container(t, "users")
		key := func(n int) cosmos.Key { return cosmos.Key{Partition: fmt.Sprint("user-", n), ID: "x"} }
		ctx, session := i.within(t, "")
		written := map[int]bool{} // by the first key in a range
		ranges := map[string]bool{}
		for n := 0; len(ranges) < 256; n++ {
			if n == 10_000 {
				t.Fatalf("%d ranges", len(ranges))
			}
			op := func(_ context.Context, o *cosmos.Operation) {
				if !ranges[o.Range] {
					ranges[o.Range], written[n] = true, true
				}
			}
			k := key(n)
			if err := users.Create(cosmos.WithRecorder(ctx, op), k.Partition, fmt.Appendf(nil, `{"id":"x","userId":%q}`, k.Partition)); err != nil {
				t.Fatal(err)
			}
			if item, err := users.Read(ctx, k); item.Value == nil || err != nil {
				t.Fatalf("before the ranges are known, %v is missing: %v", k, err)
			}
		}
		if got := longest.Load(); got < 3000 || got > 4096 {
			t.Errorf("before the ranges are known, a header has %d bytes", got)
		}
		token := session.Token()
		if len(token) > 4096 {
			t.Errorf("%d bytes of Byline-Session", len(token))
		}

		if _, err := users.ReadMany(t.Context(), []cosmos.Key{key(0), key(1)}); err != nil {
			t.Fatal(err)
		}
		longest.Store(0)
		ofOthers.Store(0)
		for n := range written {
			if item, err := users.Read(t.Context(), key(n)); item.Value == nil || err != nil {
				t.Errorf("%v is missing: %v", key(n), err)
			}
			for page, err := range users.Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c", Partition: key(n).Partition}) {
				if len(page) != 1 || err != nil {
					t.Errorf("a query of %v has %d items: %v", key(n), len(page), err)
				}
			}
		}
		if got := longest.Load(); got == 0 || got > 150 || ofOthers.Load() > 0 {
			t.Errorf("%d requests have tokens of others, the longest header %d bytes", ofOthers.Load(), got)
		}

		// Another instance takes the session, and sees what was written last.
		two := newInstance(t, a)
		ctx, _ = two.within(t, token)
		for n := range written {
			if item, err := two.container(t, "users").Read(ctx, key(n)); err != nil || item.Value == nil && n == slices.Max(slices.Collect(maps.Keys(written))) {
				t.Errorf("elsewhere %v is missing: %v", key(n), err)
			}
		}
		if got := two.count(t, "byline_session_invalid_total"); got != 0 {
			t.Errorf("%d sessions are ignored", got)
		}
	})
}

func (i *instance) container(t testing.TB, name string) *cosmos.Container {
	t.Helper()
	c, err := i.account.Container(i.database, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// see describes the blog as an instance shows it.
func (i *instance) see(ctx context.Context, userID, postID string) (string, error) {
	u, err := i.User(ctx, userID)
	if err != nil {
		return "", err
	}
	if u == nil {
		return "no user", nil
	}
	p, err := i.Post(ctx, postID)
	if err != nil {
		return "", err
	}
	if p == nil {
		return u.Username, nil
	}
	many, err := i.Posts(ctx, []string{postID, "another"})
	if err != nil {
		return "", err
	}
	comments, err := i.Comments(ctx, postID, store.Paging{First: 10})
	if err != nil {
		return "", err
	}
	feed, err := i.Feed(ctx, store.Paging{First: 10})
	if err != nil {
		return "", err
	}
	own, err := i.UserPosts(ctx, userID, store.Paging{First: 10})
	if err != nil {
		return "", err
	}
	if many[0] == nil {
		return "", fmt.Errorf("post %s is there, and not among many", postID)
	}
	return fmt.Sprintf("%s %q %q comments=%d feed=%d own=%d", u.Username, p.Title, many[0].Title, len(comments.Items), len(feed.Items), len(own.Items)), nil
}

// A batch, too, asks for what was seen: it may be one of reads.
func TestSession_Batches(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		i := newInstance(t, openLagging(t))
		ada, err := i.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := i.CreatePost(t.Context(), store.NewPost{AuthorID: ada.ID, Title: "t", Content: "c"})
		if err != nil {
			t.Fatal(err)
		}
		batches := 0
		i.wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") == "" {
				return nil
			}
			if batches++; r.Header.Get("X-Ms-Session-Token") == "" {
				t.Errorf("batch %d asks for nothing", batches)
			}
			return nil
		})
		for range 2 { // the second reads what the first has made
			if _, liked, err := i.LikePost(t.Context(), ada.ID, p.ID); err != nil || liked.LikeCount != 1 {
				t.Errorf("%+v, %v", liked, err)
			}
		}
		if batches != 3 {
			t.Errorf("%d batches", batches)
		}
	})
}

// Own writes are read back on the instance that wrote and, with the session's token,
// on another one, however far the replicas lag; and without the token they are not,
// so that the engine is seen to lag.
func TestReadYourWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one, two := newInstance(t, a), newInstance(t, a)
		id := blog.UserID("test", "ada")
		var post *blog.Post
		token := ""
		for _, step := range []struct {
			name  string
			write func(ctx context.Context) error
			want  string
		}{
			{"create user", func(ctx context.Context) error {
				_, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"})
				return err
			}, "ada"},
			{"create post", func(ctx context.Context) (err error) {
				post, err = one.CreatePost(ctx, store.NewPost{AuthorID: id, Title: "First", Content: "Content."})
				return err
			}, `ada "First" "First" comments=0 feed=1 own=1`},
			{"edit post", func(ctx context.Context) error {
				title := "Second"
				_, err := one.EditPost(ctx, id, post.ID, store.PostEdit{Title: &title})
				return err
			}, `ada "Second" "Second" comments=0 feed=1 own=1`},
			{"comment", func(ctx context.Context) error {
				_, _, err := one.CreateComment(ctx, store.NewComment{AuthorID: id, PostID: post.ID, Content: "Hello."})
				return err
			}, `ada "Second" "Second" comments=1 feed=1 own=1`},
			{"rename", func(ctx context.Context) error {
				_, err := one.RenameUser(ctx, id, "countess")
				return err
			}, `countess "Second" "Second" comments=1 feed=1 own=1`},
			{"delete post", func(ctx context.Context) error { return one.DeletePost(ctx, id, post.ID) }, "countess"},
		} {
			ctx, session := one.within(t, token)
			if err := step.write(ctx); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if token = session.Token(); token == "" {
				t.Fatalf("%s: no token", step.name)
			}
			postID := "none"
			if post != nil {
				postID = post.ID
			}
			if got, err := one.see(t.Context(), id, postID); got != step.want || err != nil {
				t.Errorf("%s: on the instance that wrote: %s %v, want %s", step.name, got, err, step.want)
			}
			if a.Engine != nil { // an endpoint may lag or not
				// A third instance for each step: two remembers what it saw.
				three := newInstance(t, a)
				if got, err := three.see(t.Context(), id, postID); got != "no user" || err != nil {
					t.Errorf("%s: on another, without the token: %s %v", step.name, got, err)
				}
			}
			ctx, _ = two.within(t, token)
			if got, err := two.see(ctx, id, postID); got != step.want || err != nil {
				t.Errorf("%s: on another, with the token: %s %v, want %s", step.name, got, err, step.want)
			}
		}
		t.Logf("token of %d characters: %s", len(token), token)

		if a.Engine == nil {
			return
		}
		deaf := newInstance(t, a, withoutToken{})
		if _, err := deaf.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "grace"), Username: "grace"}); err != nil {
			t.Fatal(err)
		}
		if u, err := deaf.User(t.Context(), blog.UserID("test", "grace")); u != nil || err != nil {
			t.Errorf("without tokens a write is read back: %v %v", u, err)
		}
	})
}

// What became of a write whose answer was lost is read where writes are, not from a replica that
// may be behind it.
func TestAmbiguousWrites_ReplicaLag(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		i := newInstance(t, a)
		loseAnswer := func() {
			d := &deafTo{Transporter: a.Transport}
			d.armed.Store(true)
			i.wire.To = d
		}
		loseAnswer()
		ada, err := i.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		loseAnswer()
		p, err := i.CreatePost(t.Context(), store.NewPost{AuthorID: ada.ID, Title: "Post", Content: "x"})
		if err != nil {
			t.Fatal(err)
		}
		loseAnswer()
		if _, liked, err := i.LikePost(t.Context(), ada.ID, p.ID); err != nil || liked.LikeCount != 1 {
			t.Error(err)
		}
	})
}

// withoutToken sends no session tokens.
type withoutToken struct{}

func (withoutToken) Do(req *policy.Request) (*http.Response, error) {
	req.Raw().Header.Del("X-Ms-Session-Token")
	return req.Next()
}

// A session's token is good for what a range was split into.
func TestSession_AfterASplit(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it splits a partition")
		a := openLagging(t)
		one, two := newInstance(t, a), newInstance(t, a)
		id := blog.UserID("test", "ada")
		ctx, before := one.within(t, "")
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		// Which ranges there are one knows before the split, and again at the end.
		learn := func() {
			t.Helper()
			if _, err := one.Users(t.Context(), []string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
		}
		learn()
		if err := a.Engine.Split("blog", "users", "0"); err != nil {
			t.Fatal(err)
		}
		ctx, after := one.within(t, before.Token())
		if _, err := one.RenameUser(ctx, id, "countess"); err != nil {
			t.Fatal(err)
		}
		for _, ranges := range []string{"are forgotten", "are known again"} {
			if u, err := one.User(t.Context(), id); err != nil || u.Username != "countess" {
				t.Errorf("on the same instance, when the ranges %s: %v %v", ranges, u, err)
			}
			ctx, _ := one.within(t, before.Token())
			if u, err := one.User(ctx, id); err != nil || u.Username != "countess" {
				t.Errorf("with the token from before, when the ranges %s: %v %v", ranges, u, err)
			}
			learn()
		}
		ctx, _ = two.within(t, before.Token())
		if u, err := two.User(ctx, id); err != nil || u.Username != "ada" {
			t.Errorf("with the token from before the split: %v %v", u, err)
		}
		ctx, _ = two.within(t, after.Token())
		if u, err := two.User(ctx, id); err != nil || u.Username != "countess" {
			t.Errorf("with the token from after it: %v %v", u, err)
		}
	})
}

// What no replica can serve yet is asked for again, a bounded number of times; then it
// is Unavailable, never an item that does not exist.
func TestSession_ReadNotAvailable(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one := newInstance(t, a)
		id := blog.UserID("test", "ada")
		if _, err := one.CreateUser(t.Context(), store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		var refuse, asked atomic.Int64
		two := newInstance(t, a, refusing{&refuse, &asked})
		if _, err := two.see(t.Context(), id, ""); err != nil { // what two has seen it asks for
			t.Fatal(err)
		}
		if _, err := two.Feed(t.Context(), store.Paging{First: 1}); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name   string
			refuse int64
			want   blog.Code
		}{
			{"four times", 4, ""},
			{"for ever", 1 << 30, blog.Unavailable},
		} {
			refuse.Store(tt.refuse)
			asked.Store(0)
			began := time.Now()
			if _, err := two.User(t.Context(), id); blog.CodeOf(err) != tt.want {
				t.Errorf("%s: point read: %v", tt.name, err)
			}
			if n := asked.Load(); n < min(tt.refuse+1, 10) || n > 20 {
				t.Errorf("%s: asked %d times in %v", tt.name, n, time.Since(began))
			}
			refuse.Store(tt.refuse)
			if _, err := two.Feed(t.Context(), store.Paging{First: 1}); blog.CodeOf(err) != tt.want {
				t.Errorf("%s: query: %v", tt.name, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := two.User(ctx, id); blog.CodeOf(err) != blog.Canceled {
			t.Errorf("canceled: %v", err)
		}
	})
}

// refusing answers the next reads as a region does that has not come as far as the
// session.
type refusing struct{ next, asked *atomic.Int64 }

func (r refusing) Do(req *policy.Request) (*http.Response, error) {
	if !strings.Contains(req.Raw().URL.Path, "/docs") {
		return req.Next()
	}
	r.asked.Add(1)
	if r.next.Add(-1) < 0 {
		return req.Next()
	}
	return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: http.NoBody,
		Header: http.Header{"X-Ms-Substatus": {"1002"}}, Request: req.Raw()}, nil
}

// Whatever is no token is ignored, as is one of another account, database or container.
func TestSessionTokens(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one := newInstance(t, a)
		id := blog.UserID("test", "ada")
		ctx, session := one.within(t, "")
		if session.Token() != "" {
			t.Error("a session that has not written has a token")
		}
		if _, err := one.User(ctx, id); err != nil || session.Token() != "" {
			t.Error("a session that has read has a token", err)
		}
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		token := session.Token()
		if strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || len(token) > 100 {
			t.Errorf("token %q", token)
		}
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		encode := base64.RawURLEncoding.EncodeToString
		for name, bad := range map[string]string{
			"characters":         "!" + token,
			"padding":            token + "=",
			"format":             encode(append([]byte{2}, raw[1:]...)),
			"cut":                encode(raw[:len(raw)-1]),
			"too much":           encode(append(raw, 0)),
			"too short":          encode(raw[:8]),
			"too long":           strings.Repeat("A", 10000),
			"a Cosmos DB's":      "0:-1#3",
			"nothing but spaces": "  ",
		} {
			before := one.count(t, "byline_session_invalid_total")
			session := one.NewSession(bad)
			if session.NoteWrite(); len(session.Token()) > 30 || one.count(t, "byline_session_invalid_total") != before+1 {
				t.Errorf("%s: %s", name, session.Token())
			}
		}

		// The same numbers in another account or, on an endpoint, another database, where nothing has
		// got so far.
		other := newInstance(t, openLagging(t))
		ctx, _ = other.within(t, token)
		if u, err := other.User(ctx, id); u != nil || err != nil {
			t.Errorf("in another account: %v %v", u, err)
		}
		// The same account, with a container that was recreated.
		db, err := one.client.NewDatabase(one.database)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		anew := newInstance(t, a)
		if _, err := anew.User(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		ctx, _ = anew.within(t, token)
		if u, err := anew.User(ctx, id); u != nil || err != nil {
			t.Errorf("in a container that was recreated: %v %v", u, err)
		}
		if u, err := one.User(t.Context(), id); u != nil || err != nil {
			t.Errorf("on an instance that knew the container before: %v %v", u, err)
		}
	})
}

// A session's token tells whom the session has renamed within the last hour, also after
// later writes, and also if the rename was only repeated.
func TestSession_Renamed(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one := newInstance(t, a)
		var now atomic.Int64
		now.Store(time.Now().Unix())
		var err error
		one.Store, err = store.New(one.account, store.Options{Database: a.Database, Clock: func() time.Time { return time.Unix(now.Load(), 0) }})
		if err != nil {
			t.Fatal(err)
		}
		id := blog.UserID("test", "ada")
		ctx, session := one.within(t, "")
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil || one.Renamed(session) != "" {
			t.Fatalf("renamed %q, %v", one.Renamed(session), err)
		}
		old := session.Token()
		if _, err := one.RenameUser(ctx, id, "a b"); err == nil || one.Renamed(session) != "" {
			t.Errorf("after a rename that is refused: %q", one.Renamed(session))
		}
		for _, what := range []string{"rename", "repetition, without the session"} {
			token := ""
			if what == "rename" {
				token = old
			}
			ctx, session := one.within(t, token)
			if _, err := one.RenameUser(ctx, id, "countess"); err != nil || one.Renamed(session) != id {
				t.Errorf("%s: %q, %v", what, one.Renamed(session), err)
			}
			token = session.Token()
			other := newInstance(t, a) // which has read nothing
			ctx, session = other.within(t, token)
			if u, err := other.User(ctx, id); err != nil || u == nil || u.Username != "countess" || one.Renamed(session) != id || session.Token() != "" {
				t.Errorf("%s, elsewhere: %q, %v, %v", what, one.Renamed(session), u, err)
			}
			ctx, session = one.within(t, token)
			if _, err := one.CreatePost(ctx, store.NewPost{AuthorID: id, Title: "t", Content: "c"}); err != nil {
				t.Fatal(err)
			}
			if _, session = one.within(t, session.Token()); one.Renamed(session) != id || len(token) > 200 {
				t.Errorf("%s, and a later write: %q, from %d characters", what, one.Renamed(session), len(token))
			}
			for _, after := range []int64{-3601, -60, 3600, 3601} {
				want := id
				if after*after > 3600*3600 {
					want = ""
				}
				now.Add(after)
				if got := one.Renamed(session); got != want {
					t.Errorf("%s, after %d s: %q", what, after, got)
				}
				now.Add(-after)
			}
		}
	})
}

// An instance that has seen what Cosmos DB has lost since waits for it once, and reads what there
// is; what a client has seen makes nobody forget.
func TestSession_LostWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it forges tokens of the only range")
		a := openLagging(t)
		one := newInstance(t, a)
		id := blog.UserID("test", "ada")
		if _, err := one.CreateUser(t.Context(), store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		ctx, _ := one.within(t, sessionOfTheFuture(t, a, cosmos.Options{}))
		if _, err := one.User(ctx, id); err != nil {
			t.Errorf("with a session of the future: %v", err)
		}
		began := time.Now()
		if u, err := one.User(t.Context(), id); u == nil || err != nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("own writes, after that: %v %v, after %v", u, err, time.Since(began))
		}

		// The instance itself has seen the future.
		one.wire.After(func(r *http.Response) {
			if r.Header.Get("X-Ms-Session-Token") != "" && r.Request.Method == http.MethodPost {
				r.Header.Set("X-Ms-Session-Token", "0:-1#1000000")
			}
		})
		if _, err := one.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "eve"), Username: "eve"}); err != nil {
			t.Fatal(err)
		}
		one.wire.After(nil)
		for _, most := range []time.Duration{2 * time.Second, 0} {
			began := time.Now()
			if _, err := one.User(t.Context(), id); err != nil || time.Since(began) > most {
				t.Errorf("on the instance that has seen it: %v after %v", err, time.Since(began))
			}
		}
	})
}
