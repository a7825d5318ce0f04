package document

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store/blog"
)

// strictVariables refuses variables that the executor would accept, or refuse only while it
// executes: an Int of more than 32 bits, a String for an Int, an unknown enum value.
type strictVariables struct{ schema *ast.Schema }

var _ graphql.OperationContextMutator = strictVariables{}

func (strictVariables) ExtensionName() string                   { return "StrictVariables" }
func (strictVariables) Validate(graphql.ExecutableSchema) error { return nil }

func (s strictVariables) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if errs := VariableErrors(s.schema, op.Operation, op.Variables); len(errs) > 0 {
		return errs[0] // VariableErrors reports them all
	}
	return nil
}

// VariableErrors returns an error for each value in the variables that has the wrong type
// (GraphQL, sections 3.5, 3.9 to 3.11 and 6.1.2).
func VariableErrors(schema *ast.Schema, op *ast.OperationDefinition, variables map[string]any) gqlerror.List {
	v := variableChecker{schema: schema}
	for _, d := range op.VariableDefinitions {
		value, given := variables[d.Variable]
		if given || d.DefaultValue == nil {
			v.check(d.Variable, d.Type, value, given)
		}
	}
	return v.errs
}

type variableChecker struct {
	schema *ast.Schema
	errs   gqlerror.List
}

// check checks the value at a path, such as input.title.
func (v *variableChecker) check(at string, t *ast.Type, value any, given bool) {
	switch {
	case !given && t.NonNull:
		v.add(at, blog.ReasonBlank, "must be defined")
	case value == nil:
		if given && t.NonNull {
			v.add(at, blog.ReasonBlank, "must not be null")
		}
	case t.Elem != nil:
		list := reflect.ValueOf(value) // the executor also makes lists of other types than []any
		if list.Kind() != reflect.Slice {
			v.check(at, t.Elem, value, true) // coerced to a list
			return
		}
		for i := range list.Len() {
			v.check(at+"["+strconv.Itoa(i)+"]", t.Elem, list.Index(i).Interface(), true)
		}
	default:
		v.checkNamed(at, v.schema.Types[t.NamedType], value)
	}
}

func (v *variableChecker) checkNamed(at string, d *ast.Definition, value any) {
	ok, what, reason := true, kindOf(value), blog.ReasonType
	switch d.Kind {
	case ast.InputObject:
		object, is := value.(map[string]any)
		if ok = is; ok {
			v.checkFields(at, d, object)
		}
	case ast.Enum:
		text, is := value.(string)
		if ok = is && d.EnumValues.ForName(text) != nil; is {
			what = "an unknown value"
		}
	default:
		ok = isScalar(d.Name, value)
		if d.Name == "Int" && isInteger(value) {
			what, reason = "a number of more than 32 bits", blog.ReasonRange
		}
	}
	if !ok {
		v.add(at, reason, "cannot use %s as %s", what, d.Name)
	}
}

func (v *variableChecker) checkFields(at string, d *ast.Definition, object map[string]any) {
	for _, f := range d.Fields {
		value, given := object[f.Name]
		v.check(at+"."+f.Name, f.Type, value, given || f.DefaultValue != nil)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if d.Fields.ForName(name) == nil {
			v.add(at+"."+name, blog.ReasonType, "unknown field")
		}
	}
}

// isScalar reports whether a decoded value is valid for a scalar type. Custom scalars are checked
// by their own unmarshalers.
func isScalar(name string, value any) bool {
	switch v := value.(type) {
	case string:
		return name != "Int" && name != "Float" && name != "Boolean"
	case bool:
		return name == "Boolean"
	case int64:
		return name == "Float" || name == "ID" || name == "Int" && int64(int32(v)) == v
	case json.Number: // an integer of more than 64 bits
		return name == "Float" || name == "ID"
	case float64:
		return name == "Float"
	}
	return false
}

// isInteger reports whether a decoded value is a number without a fraction.
func isInteger(value any) bool {
	switch v := value.(type) {
	case int64, json.Number:
		return true
	case float64:
		return v == math.Trunc(v)
	}
	return false
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a String"
	case bool:
		return "a Boolean"
	case int64, json.Number:
		return "an Int"
	case float64:
		return "a Float"
	case []any:
		return "a list"
	}
	return "an object"
}

func (v *variableChecker) add(at string, reason blog.Reason, format string, args ...any) {
	at = refusal.Truncate(at, refusal.MaxMessage)
	v.errs = append(v.errs, gqlerror.Wrap(refusal.Input(at, reason, format, args...)))
}
