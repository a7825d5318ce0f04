package cost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/vektah/gqlparser/v2"

	"byline/graph/fields"
	"byline/graph/refusal"
)

type meterKey struct{}

// budgets are Budgets of a test. A request's context has its meter.
type budgets struct {
	*Budgets
	t   testing.TB
	log *bytes.Buffer
}

func newBudgets(t testing.TB, o Options) budgets {
	t.Helper()
	log := &bytes.Buffer{}
	o.Meter = func(ctx context.Context) *Meter { return ctx.Value(meterKey{}).(*Meter) }
	o.Logger, o.Metrics = slog.New(slog.NewTextHandler(log, nil)), prometheus.NewRegistry()
	return budgets{NewBudgets(o), t, log}
}

// request returns the context of a request with an operation.
func (b budgets) request(m *Meter, query string) (context.Context, *graphql.OperationContext) {
	b.t.Helper()
	document, err := gqlparser.LoadQueryWithRules(readSchema(b.t), query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	op := &graphql.OperationContext{Operation: document.Operations[0]}
	return graphql.WithOperationContext(context.WithValue(b.t.Context(), meterKey{}, m), op), op
}

// admit returns the refusal of an operation, or nil.
func (b budgets) admit(m *Meter, query string) *refusal.Error {
	b.t.Helper()
	ctx, op := b.request(m, query)
	err := b.MutateOperationContext(ctx, op)
	if err == nil {
		return nil
	}
	var refused *refusal.Error
	if !errors.As(err, &refused) {
		b.t.Fatal(err)
	}
	return refused
}

func (b budgets) counted() (perRequest, perViewer float64) {
	of := func(name string) float64 { return testutil.ToFloat64(b.exceeded.WithLabelValues(name)) }
	return of(budgetPerRequest), of(budgetPerViewer)
}

// likes is a mutation of 18.6 RU for each like.
func likes(n int) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(" l" + string(rune('a'+i)) + `: likePost(input: {postId: "x"}) { post { id } }`)
	}
	return "mutation {" + text.String() + " }"
}

func TestBudgets_PerRequest(t *testing.T) {
	const one = `{ viewer { username } }` // 1 RU
	long := `{ feed(first: 100) { edges { node { comments(first: 100) { edges { node { content } } } } } } }`
	for name, tt := range map[string]struct {
		budget  Budget
		query   string
		code    refusal.Code
		counted float64
	}{
		"default, within":             {Budget{}, likes(21), "", 0},
		"default, over":               {Budget{}, likes(22), refusal.QueryTooExpensive, 1},
		"exactly the budget":          {Budget{RU: 1}, one, "", 0},
		"over":                        {Budget{RU: 18}, likes(1), refusal.QueryTooExpensive, 1},
		"over, only measured":         {Budget{RU: 18, Measure: true}, likes(1), "", 1},
		"response too large":          {Budget{RU: 100_000}, long, refusal.QueryTooExpensive, 0},
		"response, although measured": {Budget{RU: 1, Measure: true}, long, refusal.QueryTooExpensive, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBudgets(t, Options{PerRequest: tt.budget, PerViewer: Budget{RU: 1_000_000}})
			b.log.Reset()
			m := &Meter{Payer: "ada", SignedIn: true, RequestID: "r1"}
			var code refusal.Code
			if refused := b.admit(m, tt.query); refused != nil {
				code = refused.Code
			}
			perRequest, perViewer := b.counted()
			if code != tt.code || perRequest != tt.counted || perViewer != 0 {
				t.Errorf("refused as %q and counted %.0f and %.0f times, want %q, %.0f and 0",
					code, perRequest, perViewer, tt.code, tt.counted)
			}
			if logged := strings.Contains(b.log.String(),
				"over budget"); logged != (tt.budget.Measure && tt.counted > 0) {
				t.Errorf("logged %q", b.log)
			}
			if reserved, _, ok := m.settle(); ok != (tt.code == "") || ok != (reserved > 0) {
				t.Errorf("reserved %d hundredths of an RU: %t", reserved, ok)
			}
		})
	}
}

func TestBudgets_Messages(t *testing.T) {
	b := newBudgets(t, Options{PerRequest: Budget{RU: 30}, PerViewer: Budget{RU: 10, Measure: true}})
	got := b.admit(&Meter{}, likes(2))
	want := &refusal.Error{Code: refusal.QueryTooExpensive, Field: "la",
		Message: "this operation is predicted to cost 37 RU, more than the limit of 30 RU; " +
			"the most expensive field is la with 19 RU: request smaller pages or fewer nested lists"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	b.log.Reset()
	m := &Meter{Payer: "ada", SignedIn: true, RequestID: "r1"}
	if first, second := b.admit(m, likes(1)), b.admit(m, likes(1)); first != nil || second != nil {
		t.Fatal(first, second)
	}
	const measured = `msg="over budget" budget=viewer limit=10 predicted=19 path=la requestId=r1`
	if !strings.Contains(b.log.String(), measured) {
		t.Errorf("logged %q, want %s", b.log, measured)
	}
}

// Each case is one payer's operations of 1 RU, or of 18.6 RU, on a budget of 10 RU in a minute.
func TestBudgets_PerViewer(t *testing.T) {
	const read = `{ viewer { username } }`
	type operation struct {
		query    string
		actual   Rounded // of its response; negative: none yet
		canceled bool
		wait     time.Duration // after which it may be tried again, if it is refused
	}
	charging := func(ru Rounded) operation { return operation{query: read, actual: ru} }
	times := func(n int, o operation) []operation { return slices.Repeat([]operation{o}, n) }
	refusedFor := func(d time.Duration) operation { return operation{query: read, wait: d} }
	ten := Budget{RU: 10}
	wait := func(ru float64) time.Duration { // until so much is refilled
		return time.Duration(ru*float64(6*time.Second)).Round(time.Millisecond) + time.Millisecond
	}
	for name, tt := range map[string]struct {
		payer      string
		budget     Budget
		operations []operation
		counted    float64
	}{
		"as predicted -> all of it":     {"ada", ten, append(times(10, charging(1)), refusedFor(wait(1))), 1},
		"not settled -> reserved":       {"ada", ten, append(times(10, charging(-1)), refusedFor(wait(1))), 1},
		"less than predicted -> refund": {"ada", ten, append(times(19, charging(.5)), refusedFor(wait(.5))), 1},
		"more than predicted -> debt":   {"ada", ten, []operation{charging(12), refusedFor(wait(3))}, 1},
		"canceled -> no refund": {"ada", ten,
			append(times(10, operation{query: read, canceled: true}), refusedFor(wait(1))), 1},
		"canceled, more than predicted -> debt": {"ada", ten,
			[]operation{{query: read, actual: 12, canceled: true}, refusedFor(wait(3))}, 1},
		"beyond a full budget -> debt": {"ada", ten,
			[]operation{{query: likes(1), actual: 18.6}, refusedFor(wait(9.6))}, 1},
		"beyond what is left -> refused": {"ada", ten, []operation{charging(1), {query: likes(1), wait: wait(1)}}, 1},
		"only measured -> not refused":   {"ada", Budget{RU: 10, Measure: true}, times(11, charging(1)), 1},
		"no budget -> no limit":          {"ada", Budget{}, times(20, charging(100)), 0},
		"no payer -> no limit":           {"", ten, times(20, charging(100)), 0},
		"predicted to cost nothing":      {"ada", ten, times(20, operation{query: `{ __typename }`}), 0},
		"nothing predicted, but charged": {"ada", ten,
			[]operation{{query: `{ __typename }`, actual: 10.5}, {query: `{ __typename }`, wait: wait(.5)}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no time passes
				b := newBudgets(t, Options{PerViewer: tt.budget})
				for i, o := range tt.operations {
					m := &Meter{Payer: tt.payer, SignedIn: true}
					refused := b.admit(m, o.query)
					var wait time.Duration
					if refused != nil {
						wait = refused.RetryAfter
					}
					if wait != o.wait || refused != nil && refused.Code != refusal.Throttled {
						t.Fatalf("operation %d: %v, to retry after %v; want %v", i, refused, wait, o.wait)
					}
					if refused != nil || o.actual < 0 {
						continue
					}
					ctx, cancel := context.WithCancel(t.Context())
					if o.canceled {
						cancel()
					}
					b.Settle(ctx, m, Report{ActualRU: o.actual})
					cancel()
				}
				if _, n := b.counted(); n != tt.counted {
					t.Errorf("counted %.0f times, want %.0f", n, tt.counted)
				}
				if refused := b.admit(&Meter{Payer: "grace", SignedIn: true}, read); refused != nil {
					t.Errorf("another payer: %v", refused)
				}
			})
		})
	}
}

// An event of 2.03 RU is reserved once its predecessor has been charged, on a budget of 5 RU in a minute.
func TestBudgets_Events(t *testing.T) {
	const events = `subscription { commentAdded(postId: "x") { author { createdAt } post { content } } }`
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			payer   string
			budget  Budget
			charge  Rounded // of each event
			delayed int     // the first event that is; 0: none
		}{
			"as predicted":        {"ada", Budget{RU: 5}, 2.03, 3},
			"charge nothing":      {"ada", Budget{RU: 5}, 0, 0},
			"only measured":       {"ada", Budget{RU: 5, Measure: true}, 2.03, 0},
			"no budget":           {"ada", Budget{}, 2.03, 0},
			"no payer":            {"", Budget{RU: 5}, 2.03, 0},
			"more than predicted": {"ada", Budget{RU: 5}, 4, 2},
		} {
			b := newBudgets(t, Options{PerViewer: tt.budget})
			m := &Meter{Payer: tt.payer}
			ctx, op := b.request(m, events)
			if err := b.MutateOperationContext(ctx, op); err != nil {
				t.Fatal(err)
			}
			first := 0
			for i := 1; i <= 5 && first == 0; i++ {
				if b.ReserveEvent(ctx) > 0 {
					first = i
					break
				}
				b.Settle(ctx, m, Report{ActualRU: tt.charge})
			}
			if first != tt.delayed {
				t.Errorf("%s: event %d was delayed, want %d", name, first, tt.delayed)
			}
		}
	})
}

// An event is not charged before the charge of the first is known, nor after the subscription has ended.
func TestReserveEvent_NotTwice(t *testing.T) {
	const events = `subscription { commentAdded(postId: "x") { author { createdAt } post { content } } }`
	b := newBudgets(t, Options{PerViewer: Budget{RU: 5}})
	m := &Meter{Payer: "ada"}
	ctx, op := b.request(m, events)
	if err := b.MutateOperationContext(ctx, op); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if wait := b.ReserveEvent(ctx); wait > 0 {
			t.Fatal(wait)
		}
	}
	if reserved, _, _ := m.settle(); reserved != 203 {
		t.Errorf("%d hundredths of an RU are reserved, want 203", reserved)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if wait := b.ReserveEvent(ended); wait > 0 || !m.settled() {
		t.Errorf("after the end: %v, settled: %t", wait, m.settled())
	}
}

func TestNewBudgets_LogsMutationsOverBudget(t *testing.T) {
	for name, tt := range map[string]struct{ ru, limit, feedPartitions int }{
		"default":                         {0, 400, 1},
		"more than each":                  {300, 300, 1},
		"less than some":                  {20, 20, 1},
		"less than some of a larger feed": {40, 40, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBudgets(t, Options{PerRequest: Budget{RU: tt.ru}, Blog: Blog{FeedPartitions: tt.feedPartitions}})
			var got, want []string
			logged := regexp.MustCompile(`mutation=(\w+) budget=request limit=(\d+) predicted=(\d+)`)
			for _, line := range logged.FindAllStringSubmatch(b.log.String(), -1) {
				got = append(got, strings.Join(line[1:], " "))
			}
			for name, row := range fields.Table["Mutation"] {
				if ru := row.Price.Of(tt.feedPartitions); ru > float64(tt.limit) {
					want = append(want, fmt.Sprintf("%s %d %.0f", name, tt.limit, ru))
				}
			}
			if slices.Sort(want); tt.limit < 100 && len(want) == 0 {
				t.Fatal("no mutation is that expensive")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}
