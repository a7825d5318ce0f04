package graph

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/plan"
)

// Every query of examples/spa is executed by plans, signed in or not. BYLINE_TEST_DOCUMENTS names its persisted
// documents, which .ci/spa builds.
func TestPlans_Application(t *testing.T) {
	file := os.Getenv("BYLINE_TEST_DOCUMENTS")
	if file == "" {
		t.Skip("BYLINE_TEST_DOCUMENTS is not set: .ci/spa does")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var documents map[string]string
	if err := json.Unmarshal(text, &documents); err != nil {
		t.Fatal(err)
	}
	schema, queries := readSchema(t), 0
	for _, query := range documents {
		doc, err := gqlparser.LoadQueryWithRules(schema, query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if doc.Operations[0].Operation != ast.Query {
			continue
		}
		queries++
		for _, signedIn := range []bool{false, true} {
			op := &graphql.OperationContext{RawQuery: query, Doc: doc, Operation: doc.Operations[0],
				Variables: map[string]any{}}
			for _, v := range doc.Operations[0].VariableDefinitions {
				if v.Type.NamedType == "Boolean" {
					op.Variables[v.Variable] = signedIn
				}
			}
			plans := plan.Compile(op).Of(op)
			fields := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Query"})
			for i, f := range fields {
				if f.SelectionSet != nil && (plans == nil || plans[i] == nil) { // the executor resolves leaves
					t.Errorf("%s, signed in: %t: no plan for %s", doc.Operations[0].Name, signedIn, f.Name)
				}
			}
		}
	}
	if queries < 10 {
		t.Errorf("only %d queries", queries)
	}
}
