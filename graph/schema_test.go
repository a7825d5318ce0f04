package graph

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/generated"
)

func readSchema(t testing.TB) *ast.Schema {
	t.Helper()
	text, err := os.ReadFile("../schema.graphqls")
	if err != nil {
		t.Fatal(err)
	}
	return gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphqls", Input: string(text)})
}

func TestSchema_MatchesFile(t *testing.T) {
	served, file := Schema(true), readSchema(t)
	delete(file.Directives, "defer")
	locations := file.Types["__DirectiveLocation"]
	locations.EnumValues = without(locations.EnumValues, func(v *ast.EnumValueDefinition) bool {
		return v.Name == directiveDefinition
	})
	if diff := cmp.Diff(describe(file), describe(served)); diff != "" {
		t.Errorf("schema.graphqls and the generated code differ; run go generate ./... (-file +served):\n%s", diff)
	}
}

// describe lists everything in a schema, sorted by cmp.Diff through maps.
func describe(s *ast.Schema) map[string]string {
	all := map[string]string{}
	for name, def := range s.Types {
		all[name] = string(def.Kind) + " " + strings.Join(def.Interfaces, "&") + " " + def.Description
		for _, f := range def.Fields {
			at := name + "." + f.Name
			all[at] = f.Type.String() + " = " + text(f.DefaultValue) + " " + f.Description
			for _, a := range f.Arguments {
				all[at+"("+a.Name+")"] = a.Type.String() + " = " + text(a.DefaultValue) + " " + a.Description
			}
		}
		for _, v := range def.EnumValues {
			all[name+"."+v.Name] = v.Description
		}
	}
	for name, d := range s.Directives {
		all["@"+name] = d.Description
	}
	return all
}

func text(v *ast.Value) string {
	if v == nil {
		return "none"
	}
	return v.String()
}

func TestSchema_EverythingHasADescription(t *testing.T) {
	for at, described := range describe(readSchema(t)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(at, "@"), ".")
		if strings.HasPrefix(name, "__") || strings.HasPrefix(at, "@") {
			continue // GraphQL's own
		}
		if strings.Contains(at, "__") {
			continue
		}
		if strings.TrimSpace(described) == "" || strings.HasSuffix(described, " ") {
			t.Errorf("%s has no description", at)
		}
	}
}

func TestSchema_OmitsDeferAndIntrospection(t *testing.T) {
	development, production := Schema(true), Schema(false)
	if development.Directives["defer"] != nil || production.Directives["defer"] != nil {
		t.Error("@defer is offered")
	}
	if development.Query.Fields.ForName("__schema") == nil {
		t.Error("no introspection in development")
	}
	if production.Query.Fields.ForName("__schema") != nil || production.Types["Query"].Fields.ForName("__type") != nil {
		t.Error("introspection outside development")
	}
	if generated.NewExecutableSchema(generated.Config{}).Schema().Directives["defer"] == nil {
		t.Error("Schema has changed the shared generated schema")
	}
}

func TestIntrospection_ErrorSaysDisabled(t *testing.T) {
	for name, query := range map[string]string{
		"__schema":            "{ __schema { types { name } } }",
		"__type":              `{ __type(name: "Post") { name } }`,
		"as most tools query": "query IntrospectionQuery { __schema { types { ...T } } } fragment T on __Type { name }",
	} {
		t.Run(name, func(t *testing.T) {
			production, development := post(t, newTestHandler(t, Options{}), "", query, nil),
				post(t, newTestHandler(t, Options{Development: true}), "", query, nil)
			if production.code() != "GRAPHQL_VALIDATION_FAILED" ||
				production.Errors[0].Message != messageNoIntrospection {
				t.Error(production.body)
			}
			if len(development.Errors) > 0 {
				t.Errorf("development: %s", development.body)
			}
		})
	}
}

// A field of __Type is null for the kinds of types that do not have it (GraphQL, section 4.2.2), and only the
// locations of directives in the specification are named.
func TestIntrospection_NullFieldsOfTypes(t *testing.T) {
	const fields = `kind name description specifiedByURL isOneOf fields(includeDeprecated: true) { args { type { ...W } } type { ...W } }
		interfaces { ...W } possibleTypes { ...W } enumValues(includeDeprecated: true) { name } inputFields { type { ...W } } ofType { ...W }`
	a := post(t, newTestHandler(t, Options{Development: true}), "",
		`{ __schema { types { ...T } queryType { ...W } directives { locations args { type { ...W } } } } __type(name: "DateTime") { ...T } }
		fragment T on __Type { `+fields+` }
		fragment W on __Type { `+strings.ReplaceAll(fields, "...W", "__typename")+` ofType { `+
			strings.ReplaceAll(fields, "...W", "__typename")+` } }`, nil)
	if len(a.Errors) > 0 {
		t.Fatal(a.body)
	}
	all := []string{"SCALAR", "OBJECT", "INTERFACE", "UNION", "ENUM", "INPUT_OBJECT"}
	kinds := map[string][]string{
		"name": all, "fields": {"OBJECT", "INTERFACE"}, "interfaces": {"OBJECT", "INTERFACE"},
		"possibleTypes": {"INTERFACE", "UNION"},
		"enumValues":    {"ENUM"}, "inputFields": {"INPUT_OBJECT"}, "isOneOf": {"INPUT_OBJECT"},
		"ofType": {"LIST", "NON_NULL"},
	}
	seen := map[string]bool{}
	var check func(value any)
	check = func(value any) {
		switch v := value.(type) {
		case []any:
			for _, item := range v {
				check(item)
			}
		case map[string]any:
			kind, _ := v["kind"].(string)
			for name, value := range v {
				check(value)
				if of, some := kinds[name]; some && kind != "" {
					seen[kind] = true
					if (value != nil) != slices.Contains(of, kind) && !(value == nil && name == "ofType") {
						t.Errorf("%s of %s %v: %v", name, kind, v["name"], value)
					}
				}
				if value != nil &&
					(name == "specifiedByURL" && v["name"] != "DateTime" || name == "description" && v["name"] == nil) {
					t.Errorf("%s of %s %v: %v", name, kind, v["name"], value)
				}
			}
		}
	}
	var data any
	if err := json.Unmarshal(a.Data, &data); err != nil {
		t.Fatal(err)
	}
	check(data)
	// the schema has no unions
	for _, kind := range []string{"SCALAR", "OBJECT", "INTERFACE", "ENUM", "INPUT_OBJECT", "LIST", "NON_NULL"} {
		if !seen[kind] {
			t.Errorf("no type of the kind %s", kind)
		}
	}
	if strings.Contains(a.body, directiveDefinition) {
		t.Errorf("the location %s is in the response", directiveDefinition)
	}
}

// DateTime has one format, that of blog.Date, which refuses others. No argument or input field is a DateTime.
func TestDateTime(t *testing.T) {
	form := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	dates := 0
	field := regexp.MustCompile(`"(?:createdAt|updatedAt)": "([^"]*)"`)
	for _, d := range directives(t) {
		for _, date := range field.FindAllStringSubmatch(d.Expected, -1) {
			if dates++; !form.MatchString(date[1]) {
				t.Errorf("%s: %s", d.Pos, date[1])
			}
		}
	}
	if dates == 0 {
		t.Error("no dates in the scripts")
	}
	for name, definition := range readSchema(t).Types {
		for _, f := range definition.Fields {
			if definition.Kind == ast.InputObject && f.Type.Name() == "DateTime" {
				t.Errorf("%s.%s takes a DateTime: make it refuse other formats", name, f.Name)
			}
			for _, a := range f.Arguments {
				if a.Type.Name() == "DateTime" {
					t.Errorf("%s.%s(%s) takes a DateTime: make it refuse other formats", name, f.Name, a.Name)
				}
			}
		}
	}

	b := smallBlog(t, Options{})
	b.wire.setFail(func(*http.Request) (*http.Response, error) {
		return newResponse(http.StatusOK,
			`{"id":"x","type":"user","userId":"x","username":"x","creationDate":"2026-03-01 09:00:00"}`), nil
	})
	if a := post(t, b, "", b.fill(`{ user(id: "<user:ada>") { createdAt } }`), nil); a.code() != "INTERNAL" {
		t.Errorf("a date in another format: %s", a.body)
	}
}
