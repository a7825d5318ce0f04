package store_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/internal/longtest"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

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
	longtest.Heavy(t)
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
