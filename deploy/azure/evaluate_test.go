package azure

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// template is azuredeploy.json.
type template struct {
	t          *testing.T
	Parameters map[string]struct {
		Type         string
		DefaultValue any
		MinValue     *int
		MinLength    *int
		Metadata     struct{ Description string }
	}
	Resources []map[string]any
	Outputs   map[string]struct{ Value any }

	ids  map[string]string // resource ids -> API version; set by evaluate
	used map[string]bool   // parameters that the expressions use
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readTemplate(t *testing.T) *template {
	t.Helper()
	a := &template{t: t, ids: map[string]string{}, used: map[string]bool{}}
	if err := json.Unmarshal([]byte(readFile(t, "azuredeploy.json")), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// evaluate replaces the expressions of the resources and outputs by their values, as far as they are
// known before a deployment. The test fails if one refers to an undeclared name.
func (a *template) evaluate() {
	for _, r := range a.Resources { // their names depend on parameters only
		name := a.value(r["name"]).(string)
		id := resourceID(r["type"].(string), strings.Split(name, "/"))
		if scope, ok := r["scope"]; ok {
			id = a.value(scope).(string) + id
		}
		a.ids[id] = r["apiVersion"].(string)
	}
	for i, r := range a.Resources {
		a.Resources[i] = a.value(r).(map[string]any)
		on, _ := a.Resources[i]["dependsOn"].([]any)
		for _, id := range on {
			if _, ok := a.ids[id.(string)]; !ok {
				a.t.Errorf("%s depends on %s, which the template does not have", r["name"], id)
			}
		}
	}
	for _, o := range a.Outputs {
		a.value(o.Value)
	}
	for name := range a.Parameters {
		if !a.used[name] {
			a.t.Errorf("the parameter %s is not used", name)
		}
	}
}

func (a *template) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for key, of := range v {
			if of = a.value(of); of != nil { // a property that is null is absent
				all[fmt.Sprint(a.value(key))] = of
			}
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = a.value(v[i])
		}
		return all
	case string:
		if !strings.HasPrefix(v, "[") {
			return v
		}
		e := &expression{a,
			regexp.MustCompile(`'(?:[^']|'')*'|\w+|\S`).FindAllString(strings.TrimSuffix(v[1:], "]"), -1)}
		result := e.term()
		if len(e.tokens) > 0 || !strings.HasSuffix(v, "]") {
			a.t.Fatalf("%s: syntax error before %q", v, e.tokens)
		}
		return result
	}
	return v
}

// expression is what is left to parse of an expression of the template language.
type expression struct {
	in     *template
	tokens []string
}

func (e *expression) next() string {
	if len(e.tokens) == 0 {
		e.in.t.Fatal("an expression ends too early")
	}
	token := e.tokens[0]
	e.tokens = e.tokens[1:]
	return token
}

// take removes the next token if it equals token.
func (e *expression) take(token string) bool {
	if len(e.tokens) > 0 && e.tokens[0] == token {
		e.tokens = e.tokens[1:]
		return true
	}
	return false
}

func (e *expression) term() any {
	token := e.next()
	if text, ok := strings.CutPrefix(token, "'"); ok {
		return strings.ReplaceAll(strings.TrimSuffix(text, "'"), "''", "'")
	}
	if n, err := strconv.Atoi(token); err == nil {
		return float64(n)
	}
	if !e.take("(") {
		e.in.t.Fatalf("%q is not a function", token)
	}
	var args []any
	for !e.take(")") {
		args = append(args, e.term())
		e.take(",")
	}
	result := e.in.call(token, args)
	for e.take(".") { // a property that is known only after the deployment
		result = fmt.Sprint(result, ".", e.next())
	}
	return result
}

// call evaluates a function. A value that only Azure knows is represented by a text that names it.
func (a *template) call(name string, args []any) any {
	var words []string
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	switch name {
	case "parameters":
		p, ok := a.Parameters[words[0]]
		if !ok {
			a.t.Fatalf("there is no parameter %s", words[0])
		}
		a.used[words[0]] = true
		if p.DefaultValue == nil {
			return "the " + words[0]
		}
		return a.value(p.DefaultValue)
	case "concat":
		if _, ok := args[0].([]any); ok {
			list := []any{}
			for _, arg := range args {
				list = append(list, arg.([]any)...)
			}
			return list
		}
		return strings.Join(words, "")
	case "split":
		list := []any{}
		for part := range strings.SplitSeq(words[0], words[1]) {
			list = append(list, part)
		}
		return list
	case "if":
		if args[0].(bool) {
			return args[1]
		}
		return args[2]
	case "equals":
		return args[0] == args[1]
	case "not":
		return !args[0].(bool)
	case "and":
		return args[0].(bool) && args[1].(bool)
	case "mul":
		return args[0].(float64) * args[1].(float64)
	case "null":
		return nil
	case "createArray":
		return append([]any{}, args...)
	case "createObject":
		all := map[string]any{}
		for pair := range slices.Chunk(args, 2) {
			all[pair[0].(string)] = pair[1]
		}
		return all
	case "replace":
		return strings.ReplaceAll(words[0], words[1], words[2])
	case "json":
		var v any
		if err := json.Unmarshal([]byte(words[0]), &v); err != nil {
			a.t.Fatal(err)
		}
		return v
	case "resourceId":
		return resourceID(words[0], words[1:])
	case "subscriptionResourceId":
		return "/subscription" + resourceID(words[0], words[1:])
	case "extensionResourceId":
		return words[0] + resourceID(words[1], words[2:])
	case "reference", "listKeys":
		if version := a.ids[words[0]]; version != words[1] {
			a.t.Fatalf("%s of %s in version %s: the template has version %q", name, words[0], words[1], version)
		}
		return name + " " + words[0]
	case "resourceGroup", "guid", "newGuid", "uniqueString":
		return strings.ReplaceAll(name+strings.Join(words, ""), "/", "-")
	}
	a.t.Fatalf("unknown function %s", name)
	return nil
}

// resourceID returns the id of a resource in the resource group.
func resourceID(kind string, names []string) string {
	parts := strings.Split(kind, "/")
	id := "/providers/" + parts[0]
	for i, name := range names {
		id += "/" + parts[i+1] + "/" + name
	}
	return id
}
