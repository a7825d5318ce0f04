package jsonpart

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestPart(t *testing.T) {
	text := []byte("{ \"a\" :\n {\"x\": [1, \"}\"]}\t, \"list\": [ 1,\"two\" ,\r\n{}, null], \"other\": 2 }")
	var v struct {
		A    Part   `json:"a"`
		List []Part `json:"list"`
		None Part   `json:"none"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	got := [][]byte{v.A.Of(text), v.None.Of(text)}
	for _, p := range v.List {
		got = append(got, p.Of(text))
	}
	for i, want := range []string{`{"x": [1, "}"]}`, ``, `1`, `"two"`, `{}`, `null`} {
		if string(got[i]) != want {
			t.Errorf("%d: %s, want %s", i, got[i], want)
		}
	}
	before := bytes.Clone(text)
	_ = append(got[0], "overwritten"...)
	if !bytes.Equal(text, before) {
		t.Errorf("the text is now %s", text)
	}
}

// What is found is the value, wherever it is.
func TestPartOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.StringMatching(`[ \t\r\n]{0,2}`)
		value := rapid.SampledFrom([]string{`1`, `-2.5e3`, `""`, `"a,b: c"`, `"\""`, `[]`, `[ 1 , 2 ]`, `{"a" : [ {} ]}`, `true`, `null`})
		var values []string
		text := "["
		for i := range rapid.IntRange(1, 4).Draw(t, "values") {
			if i > 0 {
				text += space.Draw(t, "before") + ","
			}
			values = append(values, value.Draw(t, "value"))
			text += space.Draw(t, "space") + values[i]
		}
		text += space.Draw(t, "after") + "]"
		var parts []Part
		if err := json.Unmarshal([]byte(text), &parts); err != nil {
			t.Fatal(err)
		}
		for i, p := range parts {
			if got := string(p.Of([]byte(text))); got != values[i] {
				t.Fatalf("%q: %q, want %q", text, got, values[i])
			}
		}
	})
}
