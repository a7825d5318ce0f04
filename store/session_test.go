package store_test

import (
	"context"
	"encoding/base64"
	"fmt"
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
	cosmostest.NeedsEngine(t, "its replica lag")
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
