package graph

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/generated"
	"byline/graph/limit"
	"byline/graph/transport"
	"byline/store"
)

// panickingExecutor panics outside of resolvers.
type panickingExecutor struct {
	graphql.GraphExecutor
	where string // "before execution", "as it begins", or "while executing"
}

func (c panickingExecutor) CreateOperationContext(
	ctx context.Context, params *graphql.RawParams,
) (*graphql.OperationContext, gqlerror.List) {
	if c.where == "before execution" {
		panic("boom")
	}
	return c.GraphExecutor.CreateOperationContext(ctx, params)
}

func (c panickingExecutor) DispatchOperation(
	ctx context.Context, op *graphql.OperationContext,
) (graphql.ResponseHandler, context.Context) {
	if c.where == "as it begins" {
		panic("boom")
	}
	return func(context.Context) *graphql.Response { panic("boom") }, ctx
}

// panickingHandler has an executor that panics, and room for one operation and one large body.
func panickingHandler(t *testing.T, where string, log *slog.Logger) *transport.Handler {
	t.Helper()
	exec := executor.New(generated.NewExecutableSchema(generated.Config{}))
	exec.SetErrorPresenter(newPresenter(log).present)
	h, err := transport.New(transport.Options{
		Executor:     panickingExecutor{exec, where},
		Store:        &store.Store{},
		Authenticate: func(context.Context, http.Header) (*auth.Viewer, error) { return nil, nil },
		Recover:      recovered,
		Streams:      t.Context(),
		Logger:       log,
		Metrics:      prometheus.NewRegistry(),
		Capacity:     limit.Capacity{Executing: 1, LargeBodies: limit.MaxBody},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The server does not recover panics in the goroutines of streams, so one would end the process. The response is
// INTERNAL, as for a panic in a resolver, and the connection continues. No slots and no memory stay occupied.
func TestPanic_InStreamIsInternalError(t *testing.T) {
	var log strings.Builder
	for _, where := range []string{"before execution", "as it begins", "while executing"} {
		t.Run(where, func(t *testing.T) {
			log.Reset()
			h := panickingHandler(t, where, textLogger(&log))
			server := httptest.NewServer(h)
			defer h.Wait()
			defer server.Close()
			p := dial(t, server, modern, nil).init()
			for range 2 {
				p.subscribe("subscribe", "1", "{__typename}")
				if got := p.receive(); !strings.HasPrefix(got,
					`{"type":"error","id":"1","payload":[{"message":"`+messageInternal) {
					t.Error(got)
				}
			}
			p.CloseNow()
			for n := 0; n < 2 && where != "before execution"; n++ { // the server itself recovers that
				e := openEvents(t, server, http.MethodPost, mediaEvents, "", "{__typename}")
				if got := e.next(); !strings.HasPrefix(got, `next {"errors":[{"message":"`+messageInternal) {
					t.Error(got)
				}
				e.expect(t, "complete ", "")
			}
			if !strings.Contains(log.String(), "panic: boom") || !strings.Contains(log.String(), "stack=") {
				t.Error(log.String())
			}
		})
	}
	t.Run("in the verifier", func(t *testing.T) {
		log.Reset()
		b, server := liveBlog(t,
			Options{Logger: textLogger(&log), Verifier: verifierFunc(func(string) (auth.Viewer, error) {
				panic("boom")
			})})
		p := dial(t, server, modern, http.Header{"Authorization": {"Bearer x"}})
		p.send(`{"type":"connection_init"}`)
		if got := p.closed(); got.Code != closeInternal || got.Reason != messageInternal {
			t.Errorf("%v", got)
		}
		if a := post(t, b, "x", "{__typename}", nil); a.status != http.StatusInternalServerError ||
			a.code() != "INTERNAL" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// A request that panics releases its execution slot and the memory of its body.
func TestPanic_ReleasesSlotAndMemory(t *testing.T) {
	for _, accept := range []string{mediaJSON, mediaEvents} {
		t.Run(accept, func(t *testing.T) {
			h := panickingHandler(t, "before execution", slog.New(slog.DiscardHandler))
			for range 2 { // without a slot or memory, the second one would be UNAVAILABLE
				r := httptest.NewRequest(http.MethodPost, "/graphql",
					strings.NewReader(`{"query":"{ __typename }"`+strings.Repeat(" ", limit.SmallBody)+"}"))
				r.Header.Set("Content-Type", mediaJSON)
				r.Header.Set("Accept", accept)
				if a := send(t, h, r); a.status != http.StatusInternalServerError || a.code() != "INTERNAL" {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
}
