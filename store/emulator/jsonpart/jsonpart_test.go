package jsonpart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestChildren(t *testing.T) {
	text := []byte("{ \"a\" :\n {\"x\": [1, \"}\"]}\t, \"li\\\"st\": [ 1,\"two\\\\\" ,\r\n{}, null], \"other\": 2 }")
	var got []string
	for c := range Children(text) {
		got = append(got, fmt.Sprintf("%s=%s", c.Name, c.Value))
		if !bytes.Equal(text[c.Start:c.End], c.Value) {
			t.Errorf("%s is at %d to %d", c.Value, c.Start, c.End)
		}
		for d := range Children(c.Value) {
			got = append(got, string(d.Value))
		}
	}
	want := []string{`a={"x": [1, "}"]}`, `[1, "}"]`, "li\\\"st=[ 1,\"two\\\\\" ,\r\n{}, null]", `1`, `"two\\"`, `{}`,
		`null`, `other=2`}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, none := range []string{``, `1`, `"[1]"`, `[]`, `{}`, `[ ]`, `null`} {
		for c := range Children([]byte(none)) {
			t.Errorf("%s has %s", none, c.Value)
		}
	}
}

// TestClosed: truncated text, and text that continues after the value, is not closed.
func TestClosed(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, `[{"a":"]"}]`: true, `{"a":[1,{}] }`: true, "[1\n]": true,
		`[`: false, `{`: false, `[{}`: false, `{"a":"}`: false, `{"a":[}`: false, `{"a":{`: false, `[]]`: false,
		`{} x`: false, `{"a" 1}`: false,
	} {
		m, s := Members{Text: []byte(text), At: 1}, Elements{Text: []byte(text), At: 1}
		var got bool
		if text[0] == '{' {
			for ok := true; ok; {
				_, _, _, ok = m.Next()
			}
			got = m.Closed()
		} else {
			for ok := true; ok; {
				_, ok = s.Next()
			}
			got = s.Closed()
		}
		if got != want {
			t.Errorf("%s: closed %t, want %t", text, got, want)
		}
	}
}

// TestChildren_LikeEncodingJSON compares Children with encoding/json.
func TestChildren_LikeEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.StringMatching(`[ \t\r\n]{0,2}`)
		value := rapid.SampledFrom([]string{`1`, `-2.5e3`, `""`, `"a,b: c"`, `"\""`, `"\\"`, `[]`, `[ 1 , 2 ]`,
			`{"a" : [ {} ]}`, `true`, `null`})
		names, open, end := rapid.Bool().Draw(t, "object"), "[", "]"
		if names {
			open, end = "{", "}"
		}
		var elements []string
		for i := range rapid.IntRange(0, 4).Draw(t, "values") {
			one := space.Draw(t, "before")
			if names {
				one += fmt.Sprintf(`"%d"%s:%s`, i, space.Draw(t, "after the name"), space.Draw(t, "before the value"))
			}
			elements = append(elements, one+value.Draw(t, "value")+space.Draw(t, "after"))
		}
		text := []byte(open + strings.Join(elements, ",") + end)
		var got, want []string
		for c := range Children(text) {
			got = append(got, string(c.Value))
		}
		if names {
			var all map[string]json.RawMessage
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			for i := range len(all) {
				want = append(want, string(all[fmt.Sprint(i)]))
			}
		} else {
			var all []json.RawMessage
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				want = append(want, string(one))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
	})
}

// FuzzChildren: invalid JSON causes no read out of bounds and no endless loop.
func FuzzChildren(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"c"}]}`, `{"a`, `{"a":`, `["\`, `[\"`, `[,,]`, `{"a" 1}`, "[\x00",
		`{"":}`, `[[[`, `]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var walk func([]byte, int)
		walk = func(text []byte, depth int) {
			for c := range Children(text) {
				if !bytes.Equal(text[c.Start:c.End], c.Value) || len(c.Value) == 0 {
					t.Fatalf("%q is at %d to %d of %q", c.Value, c.Start, c.End, text)
				}
				if depth < 20 {
					walk(c.Value, depth+1)
				}
			}
		}
		walk(text, 0)
	})
}
