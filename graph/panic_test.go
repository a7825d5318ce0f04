package graph

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/generated"
	"byline/graph/limit"
	"byline/store"
)

// panickingExecutor panics outside of resolvers.
type panickingExecutor struct {
	graphql.GraphExecutor
	where string // "before execution", "as it begins", or "while executing"
}

func (c panickingExecutor) CreateOperationContext(ctx context.Context, params *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	if c.where == "before execution" {
		panic("boom")
	}
	return c.GraphExecutor.CreateOperationContext(ctx, params)
}

func (c panickingExecutor) DispatchOperation(ctx context.Context, op *graphql.OperationContext) (graphql.ResponseHandler, context.Context) {
	if c.where == "as it begins" {
		panic("boom")
	}
	return func(context.Context) *graphql.Response { panic("boom") }, ctx
}

// The server does not recover panics in the goroutines of streams, so one would end the process. The response is INTERNAL,
// as for a panic in a resolver, and the connection continues.
func TestPanic_InStreamIsInternalError(t *testing.T) {
	var log strings.Builder
	exec := executor.New(generated.NewExecutableSchema(generated.Config{}))
	exec.SetErrorPresenter(presenter{log: textLogger(&log)}.present)
	for _, where := range []string{"before execution", "as it begins", "while executing"} {
		t.Run(where, func(t *testing.T) {
			log.Reset()
			var sockets sync.WaitGroup
			admission := limit.NewAdmission(limit.Capacity{}, slog.New(slog.DiscardHandler))
			panicking := func(where string) *transport {
				return &transport{exec: panickingExecutor{exec, where}, store: &store.Store{}, streams: t.Context(), bodies: limit.NewBodies(limit.Capacity{}), budget: limit.NewBudget(limit.Capacity{}), admission: admission}
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isUpgrade(r) {
					webSocketTransport{panicking(where), &sockets, &origins{}}.Do(w, r)
				} else {
					where := where
					if where == "before execution" { // the server itself recovers these
						where = "while executing"
					}
					httpTransport{transport: panicking(where)}.Do(w, r.WithContext(graphql.StartOperationTrace(r.Context())))
				}
			}))
			p := dial(t, server, modern, nil).init()
			for range 2 {
				p.subscribe("subscribe", "1", "{__typename}")
				if got := p.receive(); !strings.HasPrefix(got, `{"type":"error","id":"1","payload":[{"message":"`+messageInternal) {
					t.Error(got)
				}
			}
			p.CloseNow()
			e := openEvents(t, server, http.MethodPost, mediaEvents, "", "{__typename}")
			if got := e.next(); !strings.HasPrefix(got, `next {"errors":[{"message":"`+messageInternal) {
				t.Error(got)
			}
			e.expect(t, "complete ", "")
			server.Close()
			sockets.Wait()
			if n := admission.Occupied(); n != 0 {
				t.Errorf("%d slots stay occupied", n)
			}
			if !strings.Contains(log.String(), "panic: boom") || !strings.Contains(log.String(), "stack=") {
				t.Error(log.String())
			}
		})
	}
	t.Run("in the verifier", func(t *testing.T) {
		log.Reset()
		b, server := liveBlog(t, Options{Logger: textLogger(&log), Verifier: verifierFunc(func(string) (auth.Viewer, error) { panic("boom") })})
		p := dial(t, server, modern, http.Header{"Authorization": {"Bearer x"}})
		p.send(`{"type":"connection_init"}`)
		if got := p.closed(); got.Code != closeInternal || got.Reason != messageInternal {
			t.Errorf("%v", got)
		}
		if a := post(t, b, "x", "{__typename}", nil); a.status != http.StatusInternalServerError || a.code() != "INTERNAL" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// A request that panics releases its execution slot and the memory of its body.
func TestPanic_ReleasesSlotAndMemory(t *testing.T) {
	capacity := limit.Capacity{LargeBodies: limit.MaxBody}
	exec := executor.New(generated.NewExecutableSchema(generated.Config{}))
	for _, accept := range []string{mediaJSON, mediaEvents} {
		t.Run(accept, func(t *testing.T) {
			transport := httpTransport{&transport{exec: panickingExecutor{exec, "before execution"}, store: &store.Store{}, streams: t.Context(), bodies: limit.NewBodies(capacity), budget: limit.NewBudget(capacity), admission: limit.NewAdmission(capacity, slog.New(slog.DiscardHandler))}, &responseCache{}}
			r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"{ __typename }"`+strings.Repeat(" ", limit.SmallBody)+"}"))
			r.Header.Set("Content-Type", mediaJSON)
			r.Header.Set("Accept", accept)
			func() {
				defer func() {
					if v := recover(); v != "boom" {
						t.Errorf("recovered %v", v)
					}
				}()
				transport.Do(httptest.NewRecorder(), r)
			}()
			if n := transport.admission.Occupied(); n != 0 {
				t.Errorf("%d slots stay occupied", n)
			}
			if _, _, err := transport.bodies.ReadAll(strings.NewReader(strings.Repeat(" ", 2*limit.SmallBody)), -1); err != nil {
				t.Error("the memory of the body is not released")
			}
		})
	}
}
