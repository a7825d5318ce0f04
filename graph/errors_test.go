package graph

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/graph/transport"
	"byline/store/blog"
)

var errCosmos = errors.New("POST https://secret.documents.azure.com: 500 SELECT * FROM c")

func TestPresent(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		message string
		want    map[string]any
		level   string // of the log line
	}{
		"bad input": {
			&blog.Error{Code: blog.Invalid, Op: "create post", Field: "title",
				Reason: blog.ReasonTooLong, Message: "too long", Err: errCosmos},
			"too long",
			map[string]any{"code": "BAD_USER_INPUT", "field": "title", "reason": "TOO_LONG"}, "DEBUG"},
		"another user's item": {
			&blog.Error{Code: blog.Forbidden, Reason: blog.ReasonNotYours, Message: "not yours"}, "not yours",
			map[string]any{"code": "FORBIDDEN", "reason": "NOT_YOURS"}, "DEBUG"},
		"a missing target": {
			&blog.Error{Code: blog.NotFound, Message: "no such post"}, "no such post",
			map[string]any{"code": "NOT_FOUND"}, "DEBUG"},
		"a taken name": {
			&blog.Error{Code: blog.Conflict, Field: "username", Reason: blog.ReasonTaken, Message: "is taken"}, "is taken",
			map[string]any{"code": "CONFLICT", "field": "username", "reason": "TAKEN"}, "DEBUG"},
		"a limit of the store": {&blog.Error{Code: blog.Throttled, Op: "rename user", Message: "three times",
			RetryAfter: time.Hour}, "three times",
			map[string]any{"code": "THROTTLED", "retryAfterMs": int64(3_600_000)}, "DEBUG"},
		"a limit reached": {&blog.Error{Code: blog.LimitReached, Op: "create comment", Message: "full"},
			"full", map[string]any{"code": "LIMIT_REACHED", "reason": "FULL"}, "DEBUG"},
		"a limit that ends": {&blog.Error{Code: blog.LimitReached, Reason: blog.ReasonLimit, Message: "three times",
			Until: "2026-03-02T09:00:00.000Z"}, "three times", map[string]any{"code": "LIMIT_REACHED", "reason": "LIMIT",
			"until": "2026-03-02T09:00:00.000Z"}, "DEBUG"},
		"a conflict without a message": {&blog.Error{Code: blog.Conflict}, messageConflict,
			map[string]any{"code": "CONFLICT", "reason": "CONCURRENT"}, "DEBUG"},
		"a full partition": {
			&blog.Error{Code: blog.LimitReached, Message: "no more comments"}, "no more comments",
			map[string]any{"code": "LIMIT_REACHED", "reason": "FULL"}, "DEBUG"},
		"out of request units": {
			&blog.Error{Code: blog.Throttled, Op: "list feed", Message: "hidden", RetryAfter: 1500 * time.Millisecond,
				Err: errCosmos}, messageThrottled,
			map[string]any{"code": "THROTTLED", "retryAfterMs": int64(1500)}, "WARN"},
		"out of request units, unknown retry time": {
			&blog.Error{Code: blog.Throttled}, messageThrottled,
			map[string]any{"code": "THROTTLED", "retryAfterMs": int64(1000)}, "WARN"},
		"Cosmos DB is unavailable": {
			&blog.Error{Code: blog.Unavailable, Op: "read post", Message: "hidden", Field: "hidden", Err: errCosmos},
			messageUnavailable,
			map[string]any{"code": "UNAVAILABLE"}, "WARN"},
		"a canceled store operation": {
			&blog.Error{Code: blog.Canceled, Err: context.DeadlineExceeded}, messageUnavailable,
			map[string]any{"code": "UNAVAILABLE"}, "WARN"},
		"a deadline outside the store": {
			fmt.Errorf("wait: %w", context.DeadlineExceeded), messageUnavailable,
			map[string]any{"code": "UNAVAILABLE"}, "WARN"},
		"a deadline with a code of the store": {
			&blog.Error{Code: blog.Throttled, Err: context.DeadlineExceeded}, messageThrottled,
			map[string]any{"code": "THROTTLED", "retryAfterMs": int64(1000)}, "WARN"},
		"a bug": {
			&blog.Error{Code: blog.Internal, Op: "read post", Message: "hidden", Err: errCosmos}, messageInternal,
			map[string]any{"code": "INTERNAL"}, "ERROR"},
		"an unknown code": {
			&blog.Error{Code: "NEW", Message: "hidden"}, messageInternal, map[string]any{"code": "INTERNAL"}, "ERROR"},
		"a foreign error": {errCosmos, messageInternal, map[string]any{"code": "INTERNAL"}, "ERROR"},
		"a wrapped store error": {
			fmt.Errorf("resolve: %w", &blog.Error{Code: blog.NotFound, Message: "no such post"}), "no such post",
			map[string]any{"code": "NOT_FOUND"}, "DEBUG"},
		"a store error with a path": {
			gqlerror.WrapPath(ast.Path{ast.PathName("post")},
				&blog.Error{Code: blog.NotFound, Message: "no such post"}), "no such post",
			map[string]any{"code": "NOT_FOUND"}, "DEBUG"},
		"anonymous": {
			&refusal.Error{Code: refusal.Unauthenticated, Reason: blog.ReasonNoToken, Message: "sign in", Err: errCosmos},
			"sign in", map[string]any{"code": "UNAUTHENTICATED", "reason": "NO_TOKEN"}, "DEBUG"},
		"an invalid document": {
			&gqlerror.Error{Message: "no field x",
				Extensions: map[string]any{"code": "GRAPHQL_VALIDATION_FAILED", "more": "hidden"}}, "no field x",
			map[string]any{"code": "GRAPHQL_VALIDATION_FAILED"}, "DEBUG"},
		"an invalid variable": {
			&gqlerror.Error{Message: "must be defined",
				Path:       ast.Path{ast.PathName("variable"), ast.PathName("input"), ast.PathName("title")},
				Extensions: map[string]any{"code": "GRAPHQL_VALIDATION_FAILED"}}, "must be defined",
			map[string]any{"code": "BAD_USER_INPUT", "field": "input.title", "reason": "TYPE"}, "DEBUG"},
		"a protocol error without a code": {&gqlerror.Error{Message: "hidden"}, messageInternal,
			map[string]any{"code": "INTERNAL"}, "ERROR"},
		"a long message is cut": {
			&gqlerror.Error{Message: strings.Repeat("ä", 1000),
				Extensions: map[string]any{"code": "GRAPHQL_PARSE_FAILED"}},
			strings.Repeat("ä", refusal.MaxMessage/2) + "...",
			map[string]any{"code": "GRAPHQL_PARSE_FAILED"}, "DEBUG"},
		"a long name is cut": {
			&gqlerror.Error{Message: "unknown field",
				Path:       ast.Path{ast.PathName("variable"), ast.PathName(strings.Repeat("n", 1000))},
				Extensions: map[string]any{"code": "GRAPHQL_VALIDATION_FAILED"}},
			"unknown field", map[string]any{"code": "BAD_USER_INPUT", "reason": "TYPE",
				"field": strings.Repeat("n", refusal.MaxMessage) + "..."}, "DEBUG"},
		"a panic": {caught("boom: hidden"), messageInternal, map[string]any{"code": "INTERNAL"}, "ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			ctx := (&transport.Request{ID: "r1"}).Begin(t.Context())
			got := presenter{log: textLogger(&log)}.present(ctx, tt.err)
			tt.want["requestId"] = "r1"
			if diff := cmp.Diff(tt.want, got.Extensions); diff != "" {
				t.Errorf("extensions (-want +got):\n%s", diff)
			}
			if got.Message != tt.message {
				t.Errorf("message %q, want %q", got.Message, tt.message)
			}
			for _, part := range []string{"level=" + tt.level, "code=" + fmt.Sprint(tt.want["code"]), "requestId=r1",
				"op=", "path="} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("the log line lacks %s: %s", part, log.String())
				}
			}
		})
	}
}

func TestLog_OneLinePerKindOfFailure(t *testing.T) {
	var log strings.Builder
	p := presenter{log: textLogger(&log)}
	ctx := (&transport.Request{ID: "r1"}).Begin(t.Context())
	for range 100 {
		p.present(ctx, &blog.Error{Code: blog.Unavailable, Op: "read users", Err: errCosmos})
	}
	p.present(ctx, &blog.Error{Code: blog.Unavailable, Op: "read posts", Err: errCosmos})
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, log.String())
	}
	if !strings.Contains(log.String(), "secret.documents.azure.com") {
		t.Error("the cause is missing")
	}
}

func TestLog_FailuresOfCanceledRequestsAreDebug(t *testing.T) {
	var log strings.Builder
	ctx, cancel := context.WithCancel((&transport.Request{ID: "r1"}).Begin(t.Context()))
	cancel()
	presenter{log: textLogger(&log)}.present(ctx, &blog.Error{Code: blog.Canceled, Err: context.Canceled})
	if !strings.Contains(log.String(), "level=DEBUG") {
		t.Error(log.String())
	}
}

func TestLog_InternalErrorOfCanceledRequestIsError(t *testing.T) {
	var log strings.Builder
	ctx, cancel := context.WithCancel((&transport.Request{ID: "r1"}).Begin(t.Context()))
	cancel()
	presenter{log: textLogger(&log)}.present(ctx, caught("boom"))
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Error(log.String())
	}
}

// A missing store makes every resolver panic.
func TestPanic_IsInternalErrorWithStackInLog(t *testing.T) {
	var log strings.Builder
	somePost := postGlobalID("p1")
	for name, query := range map[string]string{
		"in a resolver": `{ post(id: "` + somePost + `") { title } }`,
		"in a page":     `{ post(id: "` + somePost + `") { comments { edges { cursor } } } }`,
		"in a loader":   `{ nodes(ids: ["` + somePost + `"]) { id } }`,
		"in a point read of nodes": `{ nodes(ids: ["` + commentGlobalID(&blog.Comment{PostID: "p1", ID: "c1"}) +
			`"]) { id } }`,
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			a := post(t, newTestHandler(t, Options{Logger: textLogger(&log)}), "", query, nil)
			if a.code() != "INTERNAL" || a.Errors[0].Message != messageInternal ||
				strings.Contains(a.body, "nil pointer") {
				t.Errorf("response %s", a.body)
			}
			for _, part := range []string{"level=ERROR", "nil pointer", "stack=", "store"} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("the log lacks %q: %s", part, log.String())
				}
			}
		})
	}
}
