package emulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/partitionkey"
	"byline/store/emulator/internal/sql"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestPatchApply(t *testing.T) {
	e := newEngine(t, Options{})
	key := &partitionkey.Paths{Paths: []sql.Path{{"a", "key"}}}
	const doc = `{"id":"1","a":{"key":"k","n":1,"f":1.50},"list":[1,2,3],"s":"x","big":9223372036854775807}`
	for _, one := range []struct{ name, ops, want string }{
		{"add a property", `[{"op":"add","path":"/new","value":{"x": 1}}]`,
			strings.TrimSuffix(doc, "}") + `,"new":{"x":1}}`},
		{"add replaces a property", `[{"op":"add","path":"/s","value":null}]`, strings.Replace(doc, `"x"`, `null`, 1)},
		{"set a nested property", `[{"op":"set","path":"/a/n","value":2.0}]`,
			strings.Replace(doc, `"n":1`, `"n":2.0`, 1)},
		{"add inserts into an array", `[{"op":"add","path":"/list/1","value":9}]`,
			strings.Replace(doc, `1,2,3`, `1,9,2,3`, 1)},
		{"add at the length appends", `[{"op":"add","path":"/list/3","value":9}]`,
			strings.Replace(doc, `1,2,3`, `1,2,3,9`, 1)},
		{"add at - appends", `[{"op":"add","path":"/list/-","value":9}]`, strings.Replace(doc, `1,2,3`, `1,2,3,9`, 1)},
		{"set replaces an element", `[{"op":"set","path":"/list/1","value":9}]`,
			strings.Replace(doc, `1,2,3`, `1,9,3`, 1)},
		{"replace an element", `[{"op":"replace","path":"/list/0","value":"9"}]`,
			strings.Replace(doc, `1,2,3`, `"9",2,3`, 1)},
		{"remove an element", `[{"op":"remove","path":"/list/0"}]`, strings.Replace(doc, `1,2,3`, `2,3`, 1)},
		{"remove a property", `[{"op":"remove","path":"/s"}]`, strings.Replace(doc, `,"s":"x"`, ``, 1)},
		{"increment", `[{"op":"incr","path":"/a/n","value":-3}]`, strings.Replace(doc, `"n":1`, `"n":-2`, 1)},
		{"increment a fraction", `[{"op":"incr","path":"/a/f","value":1}]`, strings.Replace(doc, `1.50`, `2.5`, 1)},
		{"increment an element", `[{"op":"incr","path":"/list/2","value":4}]`,
			strings.Replace(doc, `1,2,3`, `1,2,7`, 1)},
		{"increment creates a property", `[{"op":"incr","path":"/made","value":4}]`,
			strings.TrimSuffix(doc, "}") + `,"made":4}`},
		{"increment over 64 bits becomes a float", `[{"op":"incr","path":"/big","value":1}]`,
			strings.Replace(doc, `9223372036854775807`, `9223372036854776000`, 1)},
		{"operations follow one another",
			`[{"op":"add","path":"/b","value":{}},{"op":"add","path":"/b/c","value":1},{"op":"incr","path":"/b/c","value":1}]`, strings.TrimSuffix(doc, "}") + `,"b":{"c":2}}`},
		{"move", `[{"op":"move","from":"/s","path":"/a/s"}]`,
			strings.Replace(strings.Replace(doc, `,"s":"x"`, ``, 1), `1.50}`, `1.50,"s":"x"}`, 1)},
		{"move to a longer name that begins alike", `[{"op":"move","from":"/s","path":"/sx"}]`,
			strings.Replace(strings.TrimSuffix(doc, "}"), `,"s":"x"`, ``, 1) + `,"sx":"x"}`},
		{"move out of an object", `[{"op":"move","from":"/a/n","path":"/n"}]`,
			strings.Replace(strings.TrimSuffix(doc, "}"), `"n":1,`, ``, 1) + `,"n":1}`},
		{"empty and refill an array",
			`[{"op":"remove","path":"/list/2"},{"op":"remove","path":"/list/0"},{"op":"remove","path":"/list/0"},{"op":"add","path":"/list/0","value":[]},{"op":"add","path":"/list/0/-","value":{}}]`, strings.Replace(doc, `1,2,3`, `[{}]`, 1)},
		{"empty and refill an object",
			`[{"op":"set","path":"/b","value":{"c":1}},{"op":"remove","path":"/b/c"},{"op":"add","path":"/b/d","value":2}]`, strings.TrimSuffix(doc, "}") + `,"b":{"d":2}}`},
		{"a name with escapes",
			`[{"op":"set","path":"/b","value":{"\u0063\"}":"}"}},{"op":"replace","path":"/b/c\"}","value":1}]`,
			strings.TrimSuffix(doc, "}") + `,"b":{"\u0063\"}":1}}`},
		{"repeated name -> first member",
			`[{"op":"set","path":"/b","value":{"c":1,"c":2}},{"op":"incr","path":"/b/c","value":5}]`,
			strings.TrimSuffix(doc, "}") + `,"b":{"c":6,"c":2}}`},
		{"escaped path", `[{"op":"add","path":"/x~1y~0z","value":1}]`, strings.TrimSuffix(doc, "}") + `,"x/y~z":1}`},

		{"replace a missing property", `[{"op":"replace","path":"/nothing","value":1}]`, "400"},
		{"remove a missing property", `[{"op":"remove","path":"/nothing"}]`, "400"},
		{"missing parent", `[{"op":"add","path":"/no/thing","value":1}]`, "400"},
		{"parent is a scalar", `[{"op":"add","path":"/s/x","value":1}]`, "400"},
		{"add beyond the end", `[{"op":"add","path":"/list/4","value":1}]`, "400"},
		{"set beyond the end", `[{"op":"set","path":"/list/3","value":1}]`, "400"},
		{"remove beyond the end", `[{"op":"remove","path":"/list/3"}]`, "400"},
		{"index with a leading zero", `[{"op":"set","path":"/list/01","value":1}]`, "400"},
		{"increment a string", `[{"op":"incr","path":"/s","value":1}]`, "400"},
		{"increment by a string", `[{"op":"incr","path":"/a/n","value":"1"}]`, "400"},
		{"increment out of range",
			`[{"op":"set","path":"/a/n","value":1e308},{"op":"incr","path":"/a/n","value":1e308}]`, "400"},
		{"increment a number out of range",
			`[{"op":"set","path":"/a/n","value":1e999},{"op":"incr","path":"/a/n","value":-1e999}]`, "400"},
		{"no value", `[{"op":"set","path":"/a/n"}]`, "400"},
		{"too deep, removed by a later operation",
			`[{"op":"set","path":"/b","value":{"x":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) +
				`,"y":[1 , 2]}},{"op":"remove","path":"/b/x"},{"op":"remove","path":"/b/y/0"}]`, "400"},
		{"unknown operation", `[{"op":"test","path":"/a/n","value":1}]`, "400"},
		{"no operations", `[]`, "400"},
		{"eleven operations",
			`[` + strings.Repeat(`{"op":"incr","path":"/a/n","value":1},`, 10) +
				`{"op":"incr","path":"/a/n","value":1}]`, "400"},
		{"whole document", `[{"op":"set","path":"","value":1}]`, "400"},
		{"system property", `[{"op":"set","path":"/_ts","value":1}]`, "400"},
		{"id", `[{"op":"set","path":"/id","value":"2"}]`, "400"},
		{"partition key", `[{"op":"set","path":"/a/key","value":"2"}]`, "400"},
		{"parent of the partition key", `[{"op":"remove","path":"/a"}]`, "400"},
		{"move onto itself", `[{"op":"move","from":"/list","path":"/list"}]`, "400"},
		{"move into itself", `[{"op":"move","from":"/list","path":"/list/0"}]`, "400"},
		{"move a missing property", `[{"op":"move","from":"/nothing","path":"/b"}]`, "400"},
		{"move the partition key away", `[{"op":"move","from":"/a/key","path":"/b"}]`, "400"},
	} {
		t.Run(one.name, func(t *testing.T) {
			p, err := e.parsePatch(fmt.Appendf(nil, `{"operations":%s}`, one.ops))
			var got []byte
			if err == nil {
				got, err = p.apply([]byte(doc), key)
			}
			var api *apierror.Error
			if errors.As(err, &api) {
				got = fmt.Append(nil, api.Status)
			} else if err != nil {
				t.Fatal(err)
			}
			if string(got) != one.want {
				t.Errorf("got  %s\nwant %s", got, one.want)
			}
		})
	}
}

func TestPatchThroughClient(t *testing.T) {
	ctx := context.Background()
	c := newContainer(t, newEngine(t, Options{}), azcosmos.ContainerProperties{})
	mustCreate(t, c, "a", `{"id":"1","pk":"a","n":1,"revision":7}`)
	var ops azcosmos.PatchOperations
	ops.AppendIncrement("/n", 2)
	ops.AppendSet("/x", map[string]int{"y": 1})
	ops.SetCondition("from c where c.revision < 8")
	res, err := c.PatchItem(ctx, pk("a"), "1", ops, withContent)
	if err != nil || !strings.HasPrefix(string(res.Value), `{"id":"1","pk":"a","n":3,"revision":7,"x":{"y":1},"_rid"`) {
		t.Fatalf("got %s: %v", res.Value, err)
	}
	ops.SetCondition("from c where c.revision < 7")
	_, err = c.PatchItem(ctx, pk("a"), "1", ops, nil)
	wantStatus(t, err, 412, "")
	ops.SetCondition("from c where c.revision <")
	_, err = c.PatchItem(ctx, pk("a"), "1", ops, nil)
	wantStatus(t, err, 400, "")
	var big azcosmos.PatchOperations
	big.AppendSet("/s", strings.Repeat("x", maxItemBytes-200))
	_, err = c.PatchItem(ctx, pk("a"), "1", big, nil)
	if s := statusOf(err); s != 413 && s != 0 {
		t.Error(err)
	}
}

// TestPatch_Bodies: SDKs send an object with the operations, or the array alone.
func TestPatch_Bodies(t *testing.T) {
	e := newEngine(t, Options{})
	for body, want := range map[string]int{
		`{"operations":[{"op":"remove","path":"/a"}]}`:                                       1,
		` [{"op":"remove","path":"/a"},{"op":"set","path":"/b","value":null}]`:               2,
		`{"condition":"from c where c.a = 1","operations":[{"op":"remove","path":"/a"}]}`:    1,
		"{ \"operations\" :\n[ {\"path\" : \"/a\\u0062\", \"\\u006fp\": \"Remove\"} ] }":     1,
		`{"condition":null,"operations":[{"op":"set","path":"/a","value":[ 1 ],"more":{}}]}`: 1,
		`{"condition":1,"operations":[{"op":"remove","path":"/a"}]}`:                         0,
		`{"operations":{"x":{"op":"remove","path":"/a"}}}`:                                   0,
		`[{"op":"remove","path":1}]`:                                                         0,
		`[{"op":["remove"],"path":"/a"}]`:                                                    0,
		`[{"op":"remove","path":"/a"}`:                                                       0,
		`[{"op":"set","path":"/a","value":nil}]`:                                             0,
		"[{\"op\":\"set\",\"path\":\"/a\",\"value\":\"\xff\"}]":                              0,
		`[]`: 0, `[1]`: 0, `{}`: 0, `null`: 0, `1`: 0, ``: 0,
	} {
		p, err := e.parsePatch([]byte(body))
		if (err == nil) != (want > 0) || err == nil && len(p.ops) != want {
			t.Errorf("%s: %+v, %v", body, p, err)
		}
	}
}
