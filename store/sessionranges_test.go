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

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// The reads of an operation whose session is ahead of all replicas share one wait, and then read the newest
// items.
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
		"sequential": {n + 15, func(t *testing.T, i *instance, ctx context.Context) {
			for range n {
				read(t, i, ctx)
			}
		}},
		"concurrent": {3*n + 15, func(t *testing.T, i *instance, ctx context.Context) {
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
				token := futureSession(t, a, cosmos.Options{})
				i := newInstance(t, a)
				ctx, _ := i.within(t, token)
				began := time.Now()
				requests, ru := i.sends(func() { tt.read(t, i, ctx) })
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %v, want at most 1 s", took)
				}
				if requests > tt.most {
					t.Errorf("got %d requests, %g RU, want at most %d requests", requests, ru, tt.most)
				}
				if got := i.count(t, "byline_session_unreached_total"); got < 1 || got > n {
					t.Errorf("got %d unreached reads, want 1 to %d", got, n)
				}
				t.Logf("%d requests, %.1f RU", requests, ru)
			})
		})
	}
}

// A read of a container with many ranges, in many regions, sends the session token of its own range. Before the
// ranges are known it sends as many tokens as fit into the header.
func TestSession_HeaderOf256RangesInFiveRegions(t *testing.T) {
	testkit.Heavy(t)
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
			if sent != "" && r.StatusCode != http.StatusNotFound &&
				(strings.Contains(sent, ",") || !strings.HasPrefix(sent, r.Header.Get(rangeHeader)+":")) {
				ofOthers.Add(1)
			}
			if id, lsn, ok := strings.Cut(r.Header.Get(sessionHeader), ":-1#"); ok {
				r.Header.Set(sessionHeader,
					id+":1234567#"+lsn+"#1=1234567890123#257=-1#35=1234567890123#7=1234567890123#9=1234567890123")
			}
		})
		users := i.container(t, "users")
		key := func(n int) cosmos.Key { return cosmos.Key{Partition: fmt.Sprint("user-", n), ID: "x"} }
		ctx, session := i.within(t, "")
		written := map[int]bool{} // the first key of each range
		ranges := map[string]bool{}
		for n := 0; len(ranges) < 256; n++ {
			if n == 10_000 {
				t.Fatalf("got keys in %d ranges, want 256", len(ranges))
			}
			op := func(_ context.Context, o *cosmos.Operation) {
				if !ranges[o.Range] {
					ranges[o.Range], written[n] = true, true
				}
			}
			k := key(n)
			if err := users.Create(cosmos.WithRecorder(ctx, op), k.Partition,
				fmt.Appendf(nil, `{"id":"x","userId":%q}`, k.Partition)); err != nil {
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
			t.Errorf("the token has %d bytes, want at most 4096", len(token))
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
			for page, err := range users.Query(t.Context(),
				cosmos.Query{Text: "SELECT * FROM c", Partition: key(n).Partition}) {
				if len(page) != 1 || err != nil {
					t.Errorf("a query of %v has %d items: %v", key(n), len(page), err)
				}
			}
		}
		if got := longest.Load(); got == 0 || got > 150 || ofOthers.Load() > 0 {
			t.Errorf("%d requests have tokens of other ranges, the longest header has %d bytes", ofOthers.Load(), got)
		}

		// Another instance continues the session, and reads its last write.
		two := newInstance(t, a)
		ctx, _ = two.within(t, token)
		for n := range written {
			if item, err := two.container(t, "users").Read(ctx, key(n)); err != nil ||
				item.Value == nil && n == slices.Max(slices.Collect(maps.Keys(written))) {
				t.Errorf("on another instance %v is missing: %v", key(n), err)
			}
		}
		if got := two.count(t, "byline_session_invalid_total"); got != 0 {
			t.Errorf("got %d invalid sessions, want 0", got)
		}
	})
}

// withoutToken sends no session tokens.
type withoutToken struct{}

func (withoutToken) Do(req *policy.Request) (*http.Response, error) {
	req.Raw().Header.Del("X-Ms-Session-Token")
	return req.Next()
}

// A session token of a range stays valid for the ranges that it was split into.
func TestSession_AfterSplit(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it splits a partition")
		a := openLagging(t)
		one, two := newInstance(t, a), newInstance(t, a)
		id := blog.UserID("test", "ada")
		ctx, before := one.within(t, "")
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		// readRanges makes one read the ranges: before the split, and again at the end.
		readRanges := func() {
			t.Helper()
			if _, err := one.Users(t.Context(), []string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
		}
		readRanges()
		if err := a.Engine.Split("blog", "users", "0"); err != nil {
			t.Fatal(err)
		}
		ctx, after := one.within(t, before.Token())
		if _, err := one.UpdateUser(ctx, id, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		for _, ranges := range []string{"are unknown", "are known again"} {
			if u, err := one.User(t.Context(), id); err != nil || u.Username != "countess" {
				t.Errorf("on the same instance, when the ranges %s: got %v, %v", ranges, u, err)
			}
			ctx, _ := one.within(t, before.Token())
			if u, err := one.User(ctx, id); err != nil || u.Username != "countess" {
				t.Errorf("with the token from before the split, when the ranges %s: got %v, %v", ranges, u, err)
			}
			readRanges()
		}
		ctx, _ = two.within(t, before.Token())
		if u, err := two.User(ctx, id); err != nil || u.Username != "ada" {
			t.Errorf("with the token from before the split: got %v, %v", u, err)
		}
		ctx, _ = two.within(t, after.Token())
		if u, err := two.User(ctx, id); err != nil || u.Username != "countess" {
			t.Errorf("with the token from after the split: got %v, %v", u, err)
		}
	})
}

// A read that no replica can serve yet is retried a limited number of times. Then it fails with Unavailable; it
// never reports that the item does not exist.
func TestSession_ReadNotAvailable(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one := newInstance(t, a)
		id := blog.UserID("test", "ada")
		if _, err := one.CreateUser(t.Context(), store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		var refuse, received atomic.Int64
		two := newInstance(t, a, behindSession{&refuse, &received})
		if _, err := two.describe(t.Context(), id, ""); err != nil { // two then sends the session tokens of these reads
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
			{"always", 1 << 30, blog.Unavailable},
		} {
			refuse.Store(tt.refuse)
			received.Store(0)
			began := time.Now()
			if _, err := two.User(t.Context(), id); blog.CodeOf(err) != tt.want {
				t.Errorf("refused %s: point read: got %v, want code %q", tt.name, err, tt.want)
			}
			if n := received.Load(); n < min(tt.refuse+1, 10) || n > 20 {
				t.Errorf("refused %s: got %d requests in %v", tt.name, n, time.Since(began))
			}
			refuse.Store(tt.refuse)
			if _, err := two.Feed(t.Context(), store.Paging{First: 1}); blog.CodeOf(err) != tt.want {
				t.Errorf("refused %s: query: got %v, want code %q", tt.name, err, tt.want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := two.User(ctx, id); blog.CodeOf(err) != blog.Canceled {
			t.Errorf("canceled: %v", err)
		}
	})
}

// behindSession responds to the next requests like a region that is behind the session.
type behindSession struct{ next, received *atomic.Int64 }

func (r behindSession) Do(req *policy.Request) (*http.Response, error) {
	if !strings.Contains(req.Raw().URL.Path, "/docs") {
		return req.Next()
	}
	r.received.Add(1)
	if r.next.Add(-1) < 0 {
		return req.Next()
	}
	return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: http.NoBody,
		Header: http.Header{"X-Ms-Substatus": {"1002"}}, Request: req.Raw()}, nil
}

// Invalid session tokens are ignored, as are those of another account, database or container.
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
		if strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" ||
			len(token) > 100 {
			t.Errorf("token %q", token)
		}
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		encode := base64.RawURLEncoding.EncodeToString
		for name, bad := range map[string]string{
			"invalid character": "!" + token,
			"padding":           token + "=",
			"unknown format":    encode(append([]byte{2}, raw[1:]...)),
			"truncated":         encode(raw[:len(raw)-1]),
			"extra byte":        encode(append(raw, 0)),
			"too short":         encode(raw[:8]),
			"too long":          strings.Repeat("A", 10000),
			"Cosmos DB's":       "0:-1#3",
			"spaces":            "  ",
		} {
			before := one.count(t, "byline_session_invalid_total")
			session := one.NewSession(bad)
			if session.MarkWritten(); len(session.Token()) > 30 ||
				one.count(t, "byline_session_invalid_total") != before+1 {
				t.Errorf("%s: %s", name, session.Token())
			}
		}

		// Another account or, on an endpoint, another database, which has fewer writes.
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
		recreated := newInstance(t, a)
		if _, err := recreated.User(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		ctx, _ = recreated.within(t, token)
		if u, err := recreated.User(ctx, id); u != nil || err != nil {
			t.Errorf("in a container that was recreated: %v %v", u, err)
		}
		if u, err := one.User(t.Context(), id); u != nil || err != nil {
			t.Errorf("on an instance with tokens of the deleted container: %v %v", u, err)
		}
	})
}
