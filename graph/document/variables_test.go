package document

import (
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
)

// An integer is one wherever it is: alone, in lists, in input objects (GraphQL, section 3.5).
func TestVariableErrors_Numbers(t *testing.T) {
	schema := gqlparser.MustLoadSchema(
		&ast.Source{
			Input: `type Query { f(i: I, l: [[Int!]]): Int } input I { n: Int, l: [Int], f: Float, id: ID, s: String, in: [I!] }`})
	document, err := Parse(schema,
		`query($i: I, $l: [[Int!]], $n: Int, $id: ID) { f(i: $i, l: $l) @skip(if: false) g: f(i: {n: $n, id: $id}) }`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"n": 1.0}`:  "",
		`{"n": -0.0}`: "",
		`{"l": [[1.0, 20E-1], [2e0], null, 3.0]}`: "",
		`{"l": 1.0}`: "",
		`{"i": {"n": 1e1, "l": [1.0], "in": {"l": 2.0}}}`:               "",
		`{"i": {"f": 1.0, "in": [{"f": 1}, {"f": 1e300}, {"f": 1.5}]}}`: "",
		`{"id": 1.0}`:                        "",
		`{"id": 18446744073709551616}`:       "",
		`{"id": -99999999999999999999}`:      "",
		`{"id": 1e20}`:                       "id: cannot use a Float as ID",
		`{"i": {"s": 18446744073709551616}}`: "i.s: cannot use an Int as String",
		`{"i": {"f": 99999999999999999999}}`: "",
		`{"id": 1.5}`:                        "id: cannot use a Float as ID",
		`{"n": 1e-1}`:                        "n: cannot use a Float as Int",
		`{"n": 2147483647.0}`:                "",
		`{"n": -2147483649.0}`:               "n: cannot use a number of more than 32 bits as Int",
		`{"n": 1e19}`:                        "n: cannot use a number of more than 32 bits as Int",
		`{"n": 18446744073709551616}`:        "n: cannot use a number of more than 32 bits as Int",
		`{"l": [[1.0, 1.5]]}`:                "l[0][1]: cannot use a Float as Int",
		`{"i": {"in": [{"l": [1.0, 1.5]}]}}`: "i.in[0].l[1]: cannot use a Float as Int",
		`{"i": {"n": "1.0"}}`:                "i.n: cannot use a String as Int",
	} {
		var variables Object
		if err := Decode(text, &variables); err != nil {
			t.Fatal(err)
		}
		values, executorErr := validator.VariableValues(schema, document.Operations[0], variables)
		if executorErr != nil {
			values = variables
		}
		got := ""
		if errs := VariableErrors(schema, document.Operations[0], values); len(errs) > 0 {
			got = errs[0].Err.Error()
		}
		if got != want && got != "BAD_USER_INPUT: "+want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if executorErr != nil && want == "" {
			t.Errorf("%s: %v", text, executorErr)
		}
	}
}
