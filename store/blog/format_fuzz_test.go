package blog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"_rid":"x","Documents":[{"a":1},{"b":[1,{"c":"]"}]}],"_count":2}`, `{"Documents":[]}`, `{"Documents":null}`,
		`{}`, `[]`, ``, `{"Documents":[1]}`,
		`{"Documents":[{"a":1}`, `{"Documents":[{"a":1},]}`, `{"Documents":[{}]} `,
		`{"a":{"Documents":[{"n":1}]},"Documents":[{"n":2}]}`, `{"Documents":[{}],`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var got []string
		err := eachItem([]byte(body), func(d *jsontext.Decoder) error {
			var item map[string]any
			if err := jsonv2.UnmarshalDecode(d, &item); err != nil {
				return err
			}
			got = append(got, fmt.Sprint(item))
			return nil
		})
		if err != nil {
			return // an error discards all items
		}
		var members map[string]json.RawMessage
		if err := json.NewDecoder(strings.NewReader(body)).Decode(&members); err != nil {
			t.Fatalf("eachItem accepts %q, package json fails: %v", body, err)
		}
		var want []map[string]any
		if documents := members["Documents"]; len(documents) > 0 && documents[0] == '[' {
			if err := json.Unmarshal(documents, &want); err != nil {
				t.Fatalf("eachItem accepts %q, package json fails: %v", body, err)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: got %v, want %v", body, got, want)
		}
		for i, item := range want {
			if got[i] != fmt.Sprint(item) {
				t.Errorf("%q: got %v, want %v", body, got, want)
			}
		}
	})
}
