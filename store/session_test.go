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
	"byline/store/cosmos/session"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// openLagging opens an account whose replica never catches up while a test runs, or the endpoint.
func openLagging(t testing.TB) *cosmostest.Account {
	t.Helper()
	return cosmostest.Open(t, emulator.Options{ReplicaLag: time.Hour})
}

// instance is a store with its own account, like that of another process.
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

// within returns a context with a session that continues from a token.
func (i *instance) within(t testing.TB, token string) (context.Context, *session.Session) {
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

// sends counts the item requests that f sends, and their charge.
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

// futureSession returns the token of a session that is ahead of all replicas, as after a failover that has
// lost writes. An instance with the options o creates it.
func futureSession(t testing.TB, a *cosmostest.Account, o cosmos.Options) string {
	t.Helper()
	i := newInstanceWith(t, a, o)
	i.wire.After(func(r *http.Response) {
		if id, _, ok := strings.Cut(r.Header.Get("X-Ms-Session-Token"), ":"); ok &&
			r.Request.Method == http.MethodPost {
			r.Header.Set("X-Ms-Session-Token", fmt.Sprintf("%s:-1#%d", id, 1<<60))
		}
	})
	ctx, session := i.within(t, "")
	if _, err := i.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", "grace"), Username: "grace"}); err != nil ||
		session.Token() == "" {
		t.Fatal("no session", err)
	}
	return session.Token()
}

// A session token that this account has not created changes neither reads nor their cost, and is counted.
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
		crafted := map[string]string{"with another key": futureSession(t, a,
			cosmos.Options{SessionKey: []byte("another")}), "invalid characters": "rubbish!"}
		for at := range raw {
			b := slices.Clone(raw)
			b[at] ^= 0x40
			crafted[fmt.Sprint("with byte ", at, " changed")] = base64.RawURLEncoding.EncodeToString(b)
		}
		n := two.count(t, "byline_session_invalid_total")
		for name, token := range crafted {
			if r, u := reads(token); r != requests || u != ru {
				t.Errorf("%s: got %d requests, %g RU, want %d, %g", name, r, u, requests, ru)
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

// describe describes the blog as an instance reads it.
func (i *instance) describe(ctx context.Context, userID, postID string) (string, error) {
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
		return "", fmt.Errorf("Post finds %s, Posts does not", postID)
	}
	return fmt.Sprintf("%s %q %q comments=%d feed=%d own=%d", u.Username, p.Title, many[0].Title, len(comments.Items),
		len(feed.Items), len(own.Items)), nil
}

// Batches also send a session token, as they may only read.
func TestSession_Batches(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		i := newInstance(t, openLagging(t))
		ada, err := i.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := i.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c"})
		if err != nil {
			t.Fatal(err)
		}
		batches := 0
		i.wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") == "" {
				return nil
			}
			if batches++; r.Header.Get("X-Ms-Session-Token") == "" {
				t.Errorf("batch %d has no session token", batches)
			}
			return nil
		})
		for range 2 { // the second reads the like of the first
			if _, liked, err := i.LikePost(t.Context(), ada.UserID, p.ID); err != nil || liked.LikeCount != 1 {
				t.Errorf("%+v, %v", liked, err)
			}
		}
		if batches != 3 {
			t.Errorf("got %d batches, want 3", batches)
		}
	})
}

// Writes are read back on the writing instance and, with the session token, on another one, even though the
// replicas lag. Without the token they are not, which shows that the engine lags.
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
				_, err := one.UpdateUser(ctx, id, store.UserEdit{Username: new("countess")})
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
			if got, err := one.describe(t.Context(), id, postID); got != step.want || err != nil {
				t.Errorf("%s: on the writing instance: got %s, %v, want %s", step.name, got, err, step.want)
			}
			if a.Engine != nil { // an endpoint may lag or not
				// Use a third instance for each step, as two keeps its session tokens.
				three := newInstance(t, a)
				if got, err := three.describe(t.Context(), id, postID); got != "no user" || err != nil {
					t.Errorf("%s: on another, without the token: got %s, %v, want no user", step.name, got, err)
				}
			}
			ctx, _ = two.within(t, token)
			if got, err := two.describe(ctx, id, postID); got != step.want || err != nil {
				t.Errorf("%s: on another, with the token: got %s, %v, want %s", step.name, got, err, step.want)
			}
		}
		t.Logf("token of %d characters: %s", len(token), token)

		if a.Engine == nil {
			return
		}
		tokenless := newInstance(t, a, withoutToken{})
		if _, err := tokenless.CreateUser(t.Context(),
			store.NewUser{ID: blog.UserID("test", "grace"), Username: "grace"}); err != nil {
			t.Fatal(err)
		}
		if u, err := tokenless.User(t.Context(), blog.UserID("test", "grace")); u != nil || err != nil {
			t.Errorf("without tokens: got %v, %v, want nil", u, err)
		}
	})
}

// The outcome of a write whose response is lost is not read from a replica that is behind it.
func TestAmbiguousWrites_ReplicaLag(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		i := newInstance(t, a)
		loseResponse := func() {
			d := &lossyTransport{Transporter: a.Transport}
			d.armed.Store(true)
			i.wire.To = d
		}
		loseResponse()
		ada, err := i.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		loseResponse()
		p, err := i.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "Post", Content: "x"})
		if err != nil {
			t.Fatal(err)
		}
		loseResponse()
		if _, liked, err := i.LikePost(t.Context(), ada.UserID, p.ID); err != nil || liked.LikeCount != 1 {
			t.Error(err)
		}
	})
}

// A session token names the user that the session renamed within the last hour, even after later writes, and
// even if the rename was only a repetition.
func TestSession_Renamed(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one := newInstance(t, a)
		var now atomic.Int64
		now.Store(time.Now().Unix())
		var err error
		one.Store, err = store.New(one.account, store.Options{Database: a.Database, Clock: func() time.Time {
			return time.Unix(now.Load(), 0)
		}})
		if err != nil {
			t.Fatal(err)
		}
		id := blog.UserID("test", "ada")
		ctx, session := one.within(t, "")
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil ||
			one.Renamed(session) != "" {
			t.Fatalf("renamed %q, %v", one.Renamed(session), err)
		}
		old := session.Token()
		if _, err := one.UpdateUser(ctx, id, store.UserEdit{Username: new("a b")}); err == nil ||
			one.Renamed(session) != "" {
			t.Errorf("after a rejected rename: got %q, want none", one.Renamed(session))
		}
		for _, what := range []string{"rename", "repetition, without the session"} {
			token := ""
			if what == "rename" {
				token = old
			}
			ctx, session := one.within(t, token)
			if _, err := one.UpdateUser(ctx, id, store.UserEdit{Username: new("countess")}); err != nil ||
				one.Renamed(session) != id {
				t.Errorf("%s: %q, %v", what, one.Renamed(session), err)
			}
			token = session.Token()
			other := newInstance(t, a) // has no session tokens yet
			ctx, session = other.within(t, token)
			if u, err := other.User(ctx, id); err != nil || u == nil || u.Username != "countess" ||
				one.Renamed(session) != id || session.Token() != "" {
				t.Errorf("%s, on another instance: got %q, %v, %v", what, one.Renamed(session), u, err)
			}
			ctx, session = one.within(t, token)
			if _, err := one.CreatePost(ctx, store.NewPost{AuthorID: id, Title: "t", Content: "c"}); err != nil {
				t.Fatal(err)
			}
			if _, session = one.within(t, session.Token()); one.Renamed(session) != id || len(token) > 200 {
				t.Errorf("%s, after a later write: got %q from a token of %d characters", what, one.Renamed(session),
					len(token))
			}
			for _, after := range []int64{-3601, -60, 3600, 3601} {
				want := id
				if after*after > 3600*3600 {
					want = ""
				}
				now.Add(after)
				if got := one.Renamed(session); got != want {
					t.Errorf("%s, after %d s: got %q, want %q", what, after, got, want)
				}
				now.Add(-after)
			}
		}
	})
}

// An instance whose session is ahead of all replicas, as Cosmos DB has lost writes, waits once and then reads
// the newest items. A client's session that is ahead does not reset that of the instance.
func TestSession_LostWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it forges tokens of the only range")
		a := openLagging(t)
		one := newInstance(t, a)
		id := blog.UserID("test", "ada")
		if _, err := one.CreateUser(t.Context(), store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		ctx, _ := one.within(t, futureSession(t, a, cosmos.Options{}))
		if _, err := one.User(ctx, id); err != nil {
			t.Errorf("with a session ahead of all replicas: %v", err)
		}
		began := time.Now()
		if u, err := one.User(t.Context(), id); u == nil || err != nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("own writes after that: got %v, %v after %v", u, err, time.Since(began))
		}

		// The instance's own session is ahead.
		one.wire.After(func(r *http.Response) {
			if r.Header.Get("X-Ms-Session-Token") != "" && r.Request.Method == http.MethodPost {
				r.Header.Set("X-Ms-Session-Token", "0:-1#1000000")
			}
		})
		if _, err := one.CreateUser(t.Context(),
			store.NewUser{ID: blog.UserID("test", "eve"), Username: "eve"}); err != nil {
			t.Fatal(err)
		}
		one.wire.After(nil)
		for _, most := range []time.Duration{2 * time.Second, 0} {
			began := time.Now()
			if _, err := one.User(t.Context(), id); err != nil || time.Since(began) > most {
				t.Errorf("with the instance's session ahead: got %v after %v, want at most %v", err, time.Since(began),
					most)
			}
		}
	})
}
