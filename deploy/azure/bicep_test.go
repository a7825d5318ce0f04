package azure

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTemplate_Bicep: the source has the parameters and resources of the template, and in them the same properties and
// literal values. Expressions, which the languages write differently, are only compared in their place.
func TestTemplate_Bicep(t *testing.T) {
	a, source := readTemplate(t), readFile(t, "main.bicep")
	var want, have []string
	for name, p := range a.Parameters {
		line := fmt.Sprintf("%s %s = %v", name, p.Type, plain(p.DefaultValue))
		for constraint, n := range map[string]*int{"minLength": p.MinLength, "minValue": p.MinValue} {
			if n != nil {
				line += fmt.Sprintf(" %s(%d)", constraint, *n)
			}
		}
		want = append(want, p.Metadata.Description, line)
	}
	for _, m := range regexp.MustCompile(
		`(?m)^@description\('(.*)'\)\n(@secure\(\)\n)?(?:@(min\w+\(\d+\))\n)?param (\w+) (\w+)(?: = (.*))?$`).FindAllStringSubmatch(source, -1) {
		kind, value := m[5], any(nil)
		if m[2] != "" {
			kind = "secure" + kind
		}
		if m[6] != "" {
			value = bicepValue(m[6])
		}
		line := fmt.Sprintf("%s %s = %v", m[4], kind, plain(value))
		if m[3] != "" {
			line += " " + m[3]
		}
		have = append(have, m[1], line)
	}
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("parameters of the template (-) and of the source (+):\n%s", diff)
	}

	want, have = nil, nil
	for i, r := range a.Resources {
		want = append(want, fmt.Sprintf("%d %s@%s", i, r["type"], r["apiVersion"]))
		for _, key := range []string{"condition", "type", "apiVersion", "name", "scope", "dependsOn"} {
			delete(r, key)
		}
		want = flatten(want, fmt.Sprint(i), r)
	}
	for i, m := range regexp.MustCompile(
		`(?ms)^resource \w+ '(\S+)' = (?:if \([^\n]*\) )?(\{\n.*?\n\})$`).FindAllStringSubmatch(source, -1) {
		have = append(have, fmt.Sprint(i, " ", m[1]))
		lines := strings.Split(m[2], "\n")
		r := bicepObject(t, &lines).(map[string]any)
		for _, key := range []string{"parent", "name", "scope", "dependsOn"} {
			delete(r, key)
		}
		have = flatten(have, fmt.Sprint(i), r)
	}
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("properties of the template (-) and of the source (+):\n%s", diff)
	}
}

const anExpression = "an expression"

// plain returns a literal unchanged, and anExpression for an expression.
func plain(v any) any {
	if s, ok := v.(string); ok && strings.HasPrefix(s, "[") {
		return anExpression
	}
	return v
}

// flatten appends the path and the value of each leaf.
func flatten(all []string, path string, v any) []string {
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			all = flatten(all, fmt.Sprint(path, ".", plain(strings.TrimRight(key, "'"))), of)
		}
		if len(v) > 0 {
			return all
		}
	case []any:
		for i, of := range v {
			all = flatten(all, fmt.Sprint(path, ".", i), of)
		}
		if len(v) > 0 {
			return all
		}
	}
	return append(all, fmt.Sprint(path, " = ", plain(v)))
}

// bicepObject parses the object or the array that begins at the end of the first line, one property or
// element a line.
func bicepObject(t *testing.T, lines *[]string) any {
	t.Helper()
	next := func() string {
		line := strings.TrimSpace((*lines)[0])
		*lines = (*lines)[1:]
		return line
	}
	object, array := map[string]any{}, []any{}
	isObject := strings.HasSuffix(next(), "{")
	for len(*lines) > 0 {
		line := strings.TrimSpace((*lines)[0])
		if line == "}" && isObject {
			next()
			return object
		}
		if line == "]" && !isObject {
			next()
			return array
		}
		key := ""
		if m := regexp.MustCompile(`^(\w+|'[^']+'): `).FindStringSubmatch(line); isObject && m != nil {
			key, line = fmt.Sprint(bicepValue(m[1])), line[len(m[0]):]
			if key == anExpression && !strings.HasPrefix(m[1], "'") { // a plain name
				key = m[1]
			}
		} else if isObject {
			t.Fatalf("%q is not a property", line)
		}
		var v any
		if line == "{" || line == "[" {
			v = bicepObject(t, lines)
		} else {
			v = bicepValue(line)
			next()
		}
		if isObject {
			for object[key] != nil { // another expression
				key += "'"
			}
			object[key] = v
		} else {
			array = append(array, v)
		}
	}
	t.Fatal("an object does not end")
	return nil
}

// bicepValue parses a literal, and returns anExpression for everything else.
func bicepValue(s string) any {
	if s == "{}" {
		return map[string]any{}
	}
	if text, ok := strings.CutPrefix(s, "'"); ok && strings.HasSuffix(text, "'") && !strings.Contains(text, "${") {
		return strings.TrimSuffix(text, "'")
	}
	var literal any
	if json.Unmarshal([]byte(s), &literal) == nil {
		return literal
	}
	return anExpression
}
