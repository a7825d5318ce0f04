package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"byline/graph/auth"
	"byline/internal/testkit"
)

// tracedLog records the span context of each log line.
type tracedLog struct {
	slog.Handler
	mu     sync.Mutex
	traces []trace.SpanContext // guarded by mu
}

func (l *tracedLog) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Message == "operation failed" {
		l.traces = append(l.traces, trace.SpanContextFromContext(ctx))
	}
	return l.Handler.Handle(ctx, r)
}

// A failure is logged with the trace of its operation, and sets the status of its spans.
func TestSpans_FailedOperation(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	log := &tracedLog{Handler: textLogger(io.Discard).Handler()}
	b := smallBlog(t, Options{Tracing: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), Logger: slog.New(log)})
	b.wire.setFail(func(*http.Request) (*http.Response, error) {
		return newResponse(http.StatusServiceUnavailable, ""), nil
	})
	for query, name := range map[string]string{
		`{ post(id: "<post:notes>") { title } }`:                                 "query",
		`{ post(id: "<post:notes>") { title } __typename }`:                      "query", // without a plan
		`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`: "mutation",
		`mutation { deletePost(input: {id: "<post:notes>"}) { deletedPostId } }`: "mutation",
	} {
		log.traces = nil
		since := len(spans.Ended())
		if a := post(t, b, "demo:ada", b.fill(query), nil); a.code() != "UNAVAILABLE" {
			t.Fatal(a.body)
		}
		if len(log.traces) != 1 {
			t.Fatalf("%d lines", len(log.traces))
		}
		ended := spans.Ended()[since:]
		field := map[string]string{"query": "Query.post", "mutation": "Mutation."}[name]
		if len(ended) != 2 || !strings.HasPrefix(ended[0].Name(), field) || ended[1].Name() != name {
			t.Errorf("%s: %v", query, ended)
		}
		for _, s := range ended {
			if s.Status().Code != codes.Error || s.SpanContext().TraceID() != log.traces[0].TraceID() {
				t.Errorf("%s: %s: %v, in %v", query, s.Name(), s.Status(), s.SpanContext().TraceID())
			}
		}
	}
}

// A field whose plan fails has one span, with the requests of the plan and of the executor, and with their error.
func TestSpans_FailedPlan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	b := smallBlog(t, Options{Tracing: provider})
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		_, span := provider.Tracer("wire").Start(r.Context(), "request") // in place of azcosmos's
		span.End()
		return newResponse(http.StatusServiceUnavailable, ""), nil
	})
	for _, query := range []string{`{ post(id: "<post:notes>") { title } }`,
		`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`} {
		since := len(spans.Ended())
		if a := post(t, b, "demo:ada", b.fill(query), nil); a.code() != "UNAVAILABLE" {
			t.Fatal(a.body)
		}
		fields := 0
		for _, s := range spans.Ended()[since:] {
			if strings.Contains(s.Name(), ".") {
				if fields++; s.Status().Code != codes.Error {
					t.Errorf("%s: %s: %v", query, s.Name(), s.Status())
				}
			}
		}
		if fields != 1 {
			t.Errorf("%s: %d spans of fields: %v", query, fields, paths(spans.Ended()[since:]))
		}
	}
}

// Resolvers that read nothing have no span, a subscription has one while it starts, and the reads for an event are a
// trace of their own. A missing, malformed or unsampled traceparent changes only what is recorded.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	b, server := liveBlog(t,
		Options{Tracing: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans),
			sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())))})
	since := 0
	names := func() string {
		var all []string
		for _, s := range spans.Ended()[since:] {
			all = append(all, s.Name())
		}
		since += len(all)
		return strings.Join(all, " ")
	}
	do := func(traceparent string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, "/graphql",
			bytes.NewReader([]byte(`{"query":"{ viewer { id } feed { edges { node { title } } } }"}`)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", traceparent)
		if a := send(t, b, r); a.Errors != nil {
			t.Fatal(a.body)
		}
	}
	// The client does not trace here, so no resolver needs a span.
	do("")
	if got := names(); got != "query" {
		t.Errorf("a query: %s", got)
	}
	do("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	if got := names(); got != "" {
		t.Errorf("a query of a trace that is not recorded: %s", got)
	}
	do("rubbish")
	if got := names(); got != "query" {
		t.Errorf("a query with a malformed header: %s", got)
	}
	for query, want := range map[string]string{"{ nonsense": "GRAPHQL_PARSE_FAILED",
		"{ nonsense }": "GRAPHQL_VALIDATION_FAILED"} {
		if a := post(t, b, "", query, nil); a.code() != want {
			t.Error(a.body)
		}
	}
	if got := names(); got != "" {
		t.Errorf("documents that are refused: %s", got)
	}

	e := openEvents(t, server, "POST", "text/event-stream", "",
		b.fill(`subscription { postChanged(id: "<post:notes>") { title content } }`))
	opened(t, b, 1)
	b.comment(t, "ada", b.postID(t, "notes"), "one")
	if got := e.next(); !strings.Contains(got, "Note G") {
		t.Error(got)
	}
	e.Body.Close()
	opened(t, b, 0)
	testkit.WaitFor(t, func() bool { return len(spans.Ended()) > since })
	begun := spans.Ended()[since]
	if got := names(); got != "subscription" {
		t.Errorf("a subscription, and an event without reads: %s, started in %v", got,
			begun.EndTime().Sub(begun.StartTime()))
	}
}

// A field that reads has a span below the operation's, with a plan as with the executor.
func TestSpans_Plans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	b := smallBlog(t, Options{Tracing: provider})
	executor, err := NewHandler(Options{Store: b.store, Verifier: auth.DemoVerifier(), Tracing: provider})
	if err != nil {
		t.Fatal(err)
	}
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		_, span := provider.Tracer("wire").Start(r.Context(), "request") // in place of azcosmos's
		span.End()
		return nil, nil
	})
	for query, want := range map[string]string{
		`{ feed { edges { node { title } } } }`: "query, query/Query.feed/request",
		`{ post(id: "<post:engines>") { title comments { edges { cursor } } likes { edges { cursor } } } }`: "query, query/Query.post/Post.comments/request, query/Query.post/Post.likes/request, query/Query.post/request",
		`{ userByUsername(username: "ada") { username posts { edges { cursor } } } }`:                       "query, query/Query.userByUsername/User.posts/request, query/Query.userByUsername/request, query/Query.userByUsername/request",
		`{ post(id: "<post:engines>") { comments { edges { cursor } } } }`:                                  "query, query/Query.post/request",
		`mutation { unlikePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`:                   "mutation, mutation/Mutation.unlikePost/request, mutation/Mutation.unlikePost/request",
		`{ viewer { username } feed { edges { node { viewerHasLiked } } } }`:                                "query, query/Query.feed/request, query/Query.viewer/request, query/load liked/request",
	} {
		for who, h := range map[string]http.Handler{"a plan": b, "the executor": unplannedHandler{executor}} {
			since := len(spans.Ended())
			if a := post(t, h, "demo:ada", b.fill(query), nil); a.code() != "" {
				t.Fatal(a.body)
			}
			if got := strings.Join(paths(spans.Ended()[since:]), ", "); got != want {
				t.Errorf("%s, by %s: %s\nwant %s", query, who, got, want)
			}
		}
	}
}

// paths returns the paths of the request spans and of the root spans, each from its root.
func paths(spans []sdk.ReadOnlySpan) (all []string) {
	byID := map[trace.SpanID]sdk.ReadOnlySpan{}
	for _, s := range spans {
		byID[s.SpanContext().SpanID()] = s
	}
	for _, s := range spans {
		path := s.Name()
		for p := byID[s.Parent().SpanID()]; p != nil; p = byID[p.Parent().SpanID()] {
			path = p.Name() + "/" + path
		}
		if s.Name() == "request" || !s.Parent().IsValid() {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

// The span of an operation or an event has the values of extensions.cost. The cost of subscribing belongs to the first
// event, or to the subscription if it is refused.
func TestSpans_HaveCost(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	b, server := liveBlog(t, Options{Tracing: provider})
	server.Config.Handler = requestingCost(server.Config.Handler)
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		_, span := provider.Tracer("wire").Start(r.Context(), "request") // in place of azcosmos's
		span.End()
		return nil, nil
	})
	check := func(name, response string) {
		t.Helper()
		var out struct {
			Extensions struct{ Cost map[string]any }
		}
		if err := json.Unmarshal([]byte(response), &out); err != nil {
			t.Fatalf("%v: %s", err, response)
		}
		cost := out.Extensions.Cost
		want := map[string]any{attrActualRU: cost["actualRU"], attrPredictedRU: cost["predictedRU"],
			attrRequests: cost["requests"]}
		var got map[string]any
		testkit.WaitFor(t, func() bool {
			for _, s := range spans.Ended() {
				if s.Name() != name {
					continue
				}
				got = map[string]any{}
				for _, a := range s.Attributes() {
					switch a.Key {
					case attrActualRU, attrPredictedRU:
						got[string(a.Key)] = math.Round(a.Value.AsFloat64()*100) / 100
					case attrRequests:
						got[string(a.Key)] = float64(a.Value.AsInt64())
					}
				}
			}
			return got != nil
		})
		if !cmp.Equal(got, want) || want[attrActualRU] == 0.0 {
			t.Errorf("%s: %s", name, cmp.Diff(want, got))
		}
	}
	a, _ := withCost(t, b, "", `{ feed { edges { node { title content } } } }`, "summary")
	check("query", a.body)
	a, _ = withCost(t, b, "demo:ada", b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } }`),
		"summary")
	check("mutation", a.body)

	e := openEvents(t, server, "POST", "text/event-stream", "",
		`subscription { commentAdded(postId: "`+postGlobalID("nothing")+`") { id } }`)
	check("subscription", strings.TrimPrefix(e.next(), "next "))
	for _, s := range spans.Ended() {
		if s.Name() == "subscription" &&
			!slices.Contains(s.Attributes(), attribute.String(attrErrorType, "NOT_FOUND")) {
			t.Errorf("a subscription that cannot be opened: %v", s.Attributes())
		}
	}

	e = openEvents(t, server, "POST", "text/event-stream", "",
		b.fill(`subscription { commentAdded(postId: "<post:notes>") { author { createdAt } } }`))
	opened(t, b, 1)
	b.comment(t, "ada", b.postID(t, "notes"), "one")
	event := e.next()
	check("event", strings.TrimPrefix(event, "next "))
}

// A lazy span starts with its first child, once, and not after its end.
func TestLazySpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
	around, outer := tracer.Start(t.Context(), "outer")
	late := func() (*lazySpan, context.Context) {
		l := &lazySpan{around: around, begin: func() trace.Span {
			_, s := tracer.Start(around, "late")
			return s
		}}
		return l, trace.ContextWithSpan(around, l)
	}

	l, in := late()
	_, one := tracer.Start(in, "one")
	_, two := tracer.Start(in, "two")
	for _, s := range []trace.Span{one, two} {
		s.End()
	}
	if s := l.end(); s == nil {
		t.Error("the span did not start")
	} else {
		s.End()
	}
	ended := spans.Ended()
	if len(ended) != 3 || ended[0].Parent().SpanID() != ended[2].SpanContext().SpanID() ||
		!ended[1].Parent().Equal(ended[0].Parent()) ||
		ended[2].Name() != "late" || ended[2].Parent().SpanID() != outer.SpanContext().SpanID() {
		t.Errorf("%v", ended)
	}

	l, in = late()
	if l.end() != nil {
		t.Error("the span started without a child")
	}
	_, three := tracer.Start(in, "three")
	three.End()
	if last := spans.Ended()[3]; len(spans.Started()) != 5 || last.Parent().SpanID() != outer.SpanContext().SpanID() {
		t.Errorf("after its end: %v of %d", last.Parent(), len(spans.Started()))
	}
}
