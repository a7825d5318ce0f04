package cost

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/store/cosmos"
)

func TestParseDetail(t *testing.T) {
	for text, want := range map[string]Detail{"": None, "none": None, "summary": Summary, "detail": Full} {
		if got, err := ParseDetail(text); got != want || err != nil {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := ParseDetail("Summary"); got != None || err == nil {
		t.Errorf("invalid: %v, %v", got, err)
	}
}

func TestMeter(t *testing.T) {
	ctx := WithField(t.Context(), "feed")
	query := &cosmos.Operation{Pattern: "feed", Kind: cosmos.KindQuery, Container: "feed", PartitionKey: `["post"]`,
		Range: "0", RU: 2.384, Took: 1500 * time.Microsecond, Tries: 3}
	read := &cosmos.Operation{Pattern: "oneUser", Kind: cosmos.KindPointRead, Container: "users", RU: 1, Tries: 0}
	const operations = `,"operations":[` +
		`{"path":"feed","pattern":"feed","container":"feed","kind":"query","partitionKey":["post"],"range":"0",` +
		`"ru":2.38,"ms":1.5,"retries":2},` +
		`{"path":"feed","pattern":"oneUser","container":"users","kind":"point read","range":"","ru":1,"ms":0,"retries":0}]`
	const first = `{"predictedRU":12.35,"actualRU":3.38,"requests":3`
	const second = `{"predictedRU":12.35,"actualRU":0,"requests":0`
	for name, tt := range map[string]struct {
		detail        Detail
		first, second string // reports of two responses
	}{
		"summary": {Summary, first + `}`, second + `}`},
		"detail":  {Full, first + operations + `}`, second + `,"operations":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Meter{Detail: tt.detail}
			if kind, _ := m.Take(); kind != "" {
				t.Errorf("kind %q before it is known", kind)
			}
			m.predict(ast.Query, 12.345678)
			if got := m.Prediction(); got != 12.345678 {
				t.Errorf("predicted %f", got)
			}
			m.Record(ctx, query)
			m.Record(ctx, read)
			if got := m.Spent(); got != 3.38 {
				t.Errorf("spent %f RU, want 3.38", got)
			}
			for _, want := range []string{tt.first, tt.second} {
				kind, report := m.Take()
				got, err := json.Marshal(report)
				if err != nil || kind != ast.Query {
					t.Fatal(kind, err)
				}
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestMeter_Settle(t *testing.T) {
	m := &Meter{}
	if reserved, _, ok := m.settle(); reserved != 0 || ok || m.settled() {
		t.Errorf("without a charge: %d, %t, settled %t", reserved, ok, m.settled())
	}
	m.reserve(203, 0)
	if m.settled() {
		t.Error("settled with a reservation")
	}
	for _, want := range []int{203, 0} {
		if reserved, _, ok := m.settle(); reserved != want || !ok || !m.settled() {
			t.Errorf("%d, %t, settled %t, want %d", reserved, ok, m.settled(), want)
		}
	}
}

func named(alias string) *graphql.FieldContext {
	return &graphql.FieldContext{Field: graphql.CollectedField{Field: &ast.Field{Alias: alias}}}
}

func TestPathOf(t *testing.T) {
	index := 3
	within := t.Context()
	for _, f := range []*graphql.FieldContext{named("feed"), named("edges"), {Index: &index}, named("node")} {
		within = graphql.WithFieldContext(within, f)
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		want string
	}{
		"no field":                {t.Context(), ""},
		"the field that executes": {within, "feed.edges.node"},
		"another field":           {WithField(within, named("feed")), "feed"},
		"a path":                  {WithField(within, "a.b"), "a.b"},
	} {
		if got := pathOf(tt.ctx); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
