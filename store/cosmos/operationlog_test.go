package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// TestOperationLog_Notable: an operation that is slow, expensive or repeated is a log line, although it succeeds.
func TestOperationLog_Notable(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	header := map[string]string{"x-ms-request-charge": "3.5", "x-ms-activity-id": "a1"}
	read := func(ctx context.Context, a *Account) error {
		posts, err := a.Container("blog", "posts")
		if err == nil {
			_, err = posts.Read(WithRequestID(a.Begin(ctx, "onePost"), "r1"), Key{"p", "p"})
		}
		return err
	}
	batch := func(ctx context.Context, a *Account) error {
		posts, err := a.Container("blog", "posts")
		if err == nil {
			b := Batch{NoItems: true}
			b.Create([]byte(`{"id":"a"}`))
			b.Create([]byte(`{"id":"b"}`))
			_, err = posts.Batch(a.Begin(ctx, "likePost"), "p", &b)
		}
		return err
	}
	for name, tt := range map[string]struct {
		run    func(context.Context, *Account) error
		before func(s *scripted, n int64)
		want   map[string]any // nil: no line
	}{
		"ordinary -> no line": {read, func(*scripted, int64) {}, nil},
		"as slow and expensive as it may be -> no line": {read, func(s *scripted, _ int64) {
			time.Sleep(time.Second)
			s.header = map[string]string{"x-ms-request-charge": "100", "x-ms-activity-id": "a1"}
		}, nil},
		"not sent -> no line": {func(ctx context.Context, a *Account) error {
			exhausted := NewRate(1)
			exhausted.charge(100)
			ctx, cancel := context.WithTimeout(exhausted.Limit(ctx), time.Second)
			defer cancel()
			if err := read(ctx, a.Background()); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			return nil
		}, func(*scripted, int64) {}, nil},
		"hardly slow": {read, func(*scripted, int64) {
			time.Sleep(1001 * time.Millisecond)
		}, map[string]any{"msg": "slow operation on Cosmos DB",
			"op": "point read", "pattern": "onePost", "took": 1.001e9, "ru": 3.5, "tries": 1.0, "status": "200",
			"requestId": "r1"}},
		"hardly expensive": {read, func(s *scripted, _ int64) {
			s.header = map[string]string{"x-ms-request-charge": "100.01", "x-ms-activity-id": "a1"}
		}, map[string]any{"msg": "expensive operation on Cosmos DB",
			"op": "point read", "pattern": "onePost", "took": 0.0, "ru": 100.01, "tries": 1.0, "status": "200",
			"requestId": "r1"}},
		"slow": {read, func(*scripted, int64) {
			time.Sleep(1500 * time.Millisecond)
		}, map[string]any{"msg": "slow operation on Cosmos DB",
			"op": "point read", "pattern": "onePost", "took": 1.5e9, "ru": 3.5, "tries": 1.0, "status": "200",
			"requestId": "r1"}},
		"expensive": {read, func(s *scripted, _ int64) {
			s.header = map[string]string{"x-ms-request-charge": "150", "x-ms-activity-id": "a1"}
		}, map[string]any{"msg": "expensive operation on Cosmos DB",
			"op": "point read", "pattern": "onePost", "took": 0.0, "ru": 150.0, "tries": 1.0, "status": "200",
			"requestId": "r1"}},
		"repeated": {read, func(s *scripted, n int64) {
			s.status, s.header = http.StatusOK, header
			if n == 1 {
				s.status, s.header = http.StatusTooManyRequests,
					map[string]string{"x-ms-substatus": "3200", "x-ms-retry-after-ms": "500"}
			}
		}, map[string]any{"msg": "repeated operation on Cosmos DB",
			"op": "point read", "pattern": "onePost", "took": 0.5e9, "ru": 3.5, "tries": 2.0, "status": "200",
			"repeatedAfter": "429/3200", "requestId": "r1"}},
		"repeated batch": {batch, func(s *scripted, n int64) {
			s.body = `[{"statusCode":201},{"statusCode":201}]`
			if n == 1 {
				s.body = strings.ReplaceAll(throttledBatch, "%", "500")
			}
		}, map[string]any{"msg": "repeated operation on Cosmos DB",
			"op": "batch", "pattern": "likePost", "took": 0.5e9, "ru": 7.0, "tries": 2.0, "status": "200",
			"repeatedAfter": "429/3200"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{status: http.StatusOK, header: header, body: `{"id":"p"}`}
				s.before = func(n int64) { tt.before(s, n) }
				account, lines := s.logged(t)
				if err := tt.run(t.Context(), account); err != nil {
					t.Fatal(err)
				}
				var want []map[string]any
				if tt.want != nil {
					tt.want["level"], tt.want["container"], tt.want["region"], tt.want["activityId"] = "INFO", "posts",
						"South Central US", "a1"
					want = append(want, tt.want)
				}
				if d := cmp.Diff(want, lines()); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// TestOperationLog_ManyItems: batches and pages of the change feed are not expensive, whatever they cost.
func TestOperationLog_ManyItems(t *testing.T) {
	for kind, want := range map[Kind]int{KindQuery: 1, KindReplace: 1, KindBatch: 0, KindChangeFeed: 0} {
		var lines strings.Builder
		l := newOperationLog(slog.New(slog.NewTextHandler(&lines, nil)))
		l.observe("", &Operation{Kind: kind, RU: 800, Tries: 1, sent: time.Now()}, func(string) string { return "" }, nil)
		if got := strings.Count(lines.String(), "expensive operation"); got != want {
			t.Errorf("%s: %d lines, want %d: %s", kind, got, want, &lines)
		}
	}
}

// TestOperationLog_NoResponse: an operation that fails without a response is logged with its error.
func TestOperationLog_NoResponse(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{err: errors.New("connection lost")}
		s.before = func(int64) { time.Sleep(2 * time.Second) }
		account, lines := s.logged(t)
		posts, err := account.Container("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		if err := posts.Create(account.Begin(t.Context(), "likePost"), "p",
			[]byte(`{"id":"p","postId":"p"}`)); !errors.Is(err, s.err) {
			t.Fatal(err)
		}
		want := map[string]any{"level": "INFO", "msg": "slow operation on Cosmos DB", "op": "create", "pattern": "likePost",
			"container": "posts",
			"took":      2e9, "ru": 0.0, "tries": 1.0, "status": "no response", "region": "South Central US",
			"error": "connection lost"}
		if d := cmp.Diff(want, lines()[0]); d != "" {
			t.Error(d)
		}
	})
}

// logged returns an account with the transport, and a function that returns the new lines of its log.
func (s *scripted) logged(t *testing.T) (*Account, func() []map[string]any) {
	var log bytes.Buffer
	o := options(cosmostest.Open(t, emulator.Options{}))
	s.Transporter, o.Transport, o.Logger = o.Transport, s, slog.New(slog.NewJSONHandler(&log, nil))
	account, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	return account, func() (all []map[string]any) {
		t.Helper()
		for text := range strings.Lines(log.String()) {
			var line map[string]any
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
			delete(line, "time")
			all = append(all, line)
		}
		log.Reset()
		return all
	}
}

// TestOperationLog_Suppressed: while everything is throttled, each access pattern has one line in a minute, which
// counts the others.
func TestOperationLog_Suppressed(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{body: `{"id":"p"}`, header: map[string]string{"x-ms-retry-after-ms": "100"}}
		s.before = func(n int64) {
			s.status = http.StatusOK
			if n%2 == 1 {
				s.status = http.StatusTooManyRequests
			}
		}
		account, lines := s.logged(t)
		posts, err := account.Container("blog", "posts")
		if err != nil {
			t.Fatal(err)
		}
		read := func(p Pattern) {
			t.Helper()
			if _, err := posts.Read(account.Begin(t.Context(), p), Key{"p", "p"}); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			read("oneUser")
			read("onePost")
		}
		if got := lines(); len(got) != 2 || got[0]["pattern"] != "oneUser" || got[1]["pattern"] != "onePost" {
			t.Errorf("got %v, want one line for each pattern", got)
		}
		time.Sleep(operationLogInterval)
		read("oneUser")
		if got := lines(); len(got) != 1 || got[0]["suppressed"] != 49.0 {
			t.Errorf("got %v, want one line with 49 suppressed", got)
		}
		time.Sleep(operationLogInterval)
		read("oneUser")
		if got := lines(); len(got) != 1 || got[0]["suppressed"] != nil {
			t.Errorf("got %v, want one line with none suppressed", got)
		}
	})
}
