package itemjson_test

import (
	"errors"
	"testing"

	"byline/internal/itemjson"
)

type embedded struct {
	Known string `json:"known,omitempty"`
}

type item struct {
	ID string `json:"id"`
	embedded
	Absent int `json:"absent,omitempty"`
}

func TestEncodeOver(t *testing.T) {
	for name, tt := range map[string]struct{ other, want string }{
		"known properties -> replaced": {`{"id":"a","known":"x","absent":1}`,
			`{"id":"b","schemaVersion":1}`},
		"properties of Cosmos DB -> dropped": {`{"id":"a","_etag":"e","_ts":1}`, `{"id":"b","schemaVersion":1}`},
		"unknown properties -> kept": {`{"z":{"known":[1.5,null]},"a\"":"<","id":"a"}`,
			`{"id":"b","schemaVersion":1,"a\"":"<","z":{"known":[1.5,null]}}`},
		"no version -> version 1":                   {`{"new":true}`, `{"id":"b","schemaVersion":1,"new":true}`},
		"version 1 -> version 1":                    {`{"schemaVersion":1}`, `{"id":"b","schemaVersion":1}`},
		"later version -> refused":                  {`{"schemaVersion":2}`, ""},
		"version in an unknown notation -> refused": {`{"schemaVersion":"1b"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []any{item{ID: "b"}, &item{ID: "b"}} {
				got, err := itemjson.EncodeOver(v, []byte(tt.other))
				if string(got) != tt.want || errors.Is(err, itemjson.ErrLater) != (tt.want == "") {
					t.Errorf("got %s, %v, want %s", got, err, tt.want)
				}
			}
			if later := itemjson.IsLater([]byte(tt.other)); later != (tt.want == "") {
				t.Errorf("is later: %t", later)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	got, err := itemjson.Encode(item{ID: "b", embedded: embedded{"x"}})
	if want := `{"id":"b","known":"x","schemaVersion":1}`; string(got) != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
