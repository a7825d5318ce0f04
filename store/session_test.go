package store_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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
}

func newInstance(t testing.TB, a *cosmostest.Account, policies ...policy.Policy) *instance {
	t.Helper()
	i := &instance{wire: &storetest.Wire{To: a.Transport}, database: a.Database}
	var err error
	if i.account, err = cosmos.Open(cosmos.Options{Endpoint: a.Endpoint, Key: a.Key, Credential: a.Credential, Transport: i.wire, Policies: policies}); err != nil {
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
	s, err := i.NewSession(token)
	if err != nil {
		t.Fatal(err)
	}
	return cosmos.WithSession(t.Context(), s), s
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
		if err := a.Engine.Split("blog", "users", "0"); err != nil {
			t.Fatal(err)
		}
		ctx, after := one.within(t, before.Token())
		if _, err := one.RenameUser(ctx, id, "countess"); err != nil {
			t.Fatal(err)
		}
		if u, err := one.User(t.Context(), id); err != nil || u.Username != "countess" {
			t.Errorf("on the same instance: %v %v", u, err)
		}
		ctx, _ = two.within(t, before.Token())
		if u, err := two.User(ctx, id); err != nil || u.Username != "ada" {
			t.Errorf("with the token from before the split: %v %v", u, err)
		}
		ctx, _ = two.within(t, after.Token())
		if u, err := two.User(ctx, id); err != nil || u.Username != "countess" {
			t.Errorf("with the token from after it: %v %v", u, err)
		}
		if after.Admits(two.container(t, "users"), "0:-1#1") {
			t.Error("a copy from before the split is good for what was written after it")
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

// Whatever is no token is refused; one of another account, database or container asks
// for nothing.
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
			"format":             encode(append([]byte{9}, raw[1:]...)),
			"cut":                encode(raw[:len(raw)-1]),
			"too much":           encode(append(raw, 0)),
			"container":          encode(append(raw[:5:5], 7, 0, 0, 0, 0, 0)),
			"too many ranges":    encode(append(raw[:5:5], 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F)),
			"too long":           strings.Repeat("A", 10000),
			"number of 70 bits":  encode(append(raw[:5:5], 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1)),
			"a Cosmos DB's":      "0:-1#3",
			"nothing but spaces": "  ",
		} {
			if _, err := one.NewSession(bad); blog.CodeOf(err) != blog.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := one.NewSession(encode(raw[:5])); err != nil {
			t.Errorf("of nothing: %v", err)
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
			raw, err := base64.RawURLEncoding.DecodeString(token)
			if err != nil {
				t.Fatal(err)
			}
			at := strings.LastIndex(string(raw), id) - 1 // its length
			for name, bad := range map[string]string{
				"cut":            string(raw[:at+8]),
				"without a user": string(raw[:at]) + "\x00",
				"characters":     string(raw[:at]) + "\x03a/b",
				"too long":       string(raw[:at]) + "\x41" + strings.Repeat("a", 65),
			} {
				if _, err := one.NewSession(base64.RawURLEncoding.EncodeToString([]byte(bad))); blog.CodeOf(err) != blog.Invalid {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

// A cache's copy is good for a session that has written nothing newer where it was read.
func TestSession_Admits(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "the tokens of a container with one range")
		one := newInstance(t, openLagging(t))
		ctx, session := one.within(t, "")
		last := ""
		one.wire.After(func(r *http.Response) {
			if strings.Contains(r.Request.URL.Path, "/colls/users/docs") {
				last = r.Header.Get("X-Ms-Session-Token")
			}
		})
		if _, err := one.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		var lsn int
		if _, err := fmt.Sscanf(last, "0:-1#%d", &lsn); err != nil || lsn < 2 {
			t.Fatalf("the last write was at %q", last)
		}
		for _, tt := range []struct {
			session         *cosmos.Session
			container, read string
			want            bool
		}{
			{session, "users", fmt.Sprintf("0:-1#%d", lsn), true},
			{session, "users", fmt.Sprintf("0:-1#%d", lsn+1), true},
			{session, "users", fmt.Sprintf("0:-1#%d", lsn-1), false},
			{session, "users", "", false},
			{session, "users", "1:-1#1", true},
			{session, "posts", "0:-1#0", true},
			{nil, "users", "0:-1#0", true},
		} {
			if got := tt.session.Admits(one.container(t, tt.container), tt.read); got != tt.want {
				t.Errorf("%s at %q: %t", tt.container, tt.read, got)
			}
		}
	})
}

// FuzzSession: whatever a client sends is taken as a session or refused as invalid.
func FuzzSession(f *testing.F) {
	for _, seed := range []string{"", "Acn9DMwApoom0AEAAQkAASSRvokBAAEFAALsSDSBAQABAwA", "AQ", "AQAAAAA", "AQAAAAAA", "AQAAAAD_AAAAAAFh"} {
		f.Add(seed)
	}
	one := newInstance(f, openLagging(f))
	f.Fuzz(func(t *testing.T, token string) {
		s, err := one.NewSession(token)
		if err != nil && blog.CodeOf(err) != blog.Invalid || (s == nil) == (err == nil) {
			t.Errorf("%v %v", s, err)
		}
	})
}

// An instance that has seen what Cosmos DB has lost since says once that it cannot
// read, and goes on; what a client claims to have seen makes nobody forget.
func TestSession_LostWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it forges tokens of the only range")
		a := openLagging(t)
		one := newInstance(t, a)
		id := blog.UserID("test", "ada")
		claim := func(r *http.Response) {
			if r.Header.Get("X-Ms-Session-Token") != "" && r.Request.Method == http.MethodPost {
				r.Header.Set("X-Ms-Session-Token", "0:-1#1000000")
			}
		}
		other := newInstance(t, a)
		other.wire.After(claim)
		ctx, session := other.within(t, "")
		if _, err := other.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", "grace"), Username: "grace"}); err != nil || session.Token() == "" {
			t.Fatal("no session of the future", err)
		}
		if _, err := one.CreateUser(t.Context(), store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		ctx, _ = one.within(t, session.Token())
		if _, err := one.User(ctx, id); blog.CodeOf(err) != blog.Unavailable {
			t.Errorf("with a session of the future: %v", err)
		}
		if u, err := one.User(t.Context(), id); u == nil || err != nil {
			t.Errorf("own writes, after that: %v %v", u, err)
		}

		other.wire.After(nil)
		for _, want := range []blog.Code{blog.Unavailable, ""} {
			if _, err := other.User(t.Context(), id); blog.CodeOf(err) != want {
				t.Errorf("on the instance that has seen it: %v, want %q", err, want)
			}
		}
	})
}
