package document

import (
	"errors"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode decodes a text that is one JSON value. Of members with the same name the last counts: to
// refuse duplicates, the decoder would have to store all names.
func Decode(text string, into any) error {
	if err := checkText(text); err != nil {
		return err
	}
	return jsonv2.Unmarshal([]byte(text), into, jsontext.AllowDuplicateNames(true))
}

// Object is a JSON object. A number is an int64, or a float64 if it is not an integer of 64 bits,
// and at most the largest float64: the executor would take a json.Number for a String.
type Object map[string]any

var ErrNoObject = errors.New("not a JSON object")

// UnmarshalJSONFrom implements jsonv2.UnmarshalerFrom.
func (i *Object) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := readInput(d)
	if err != nil {
		return err
	}
	object, ok := value.(map[string]any)
	if value != nil && !ok {
		return ErrNoObject
	}
	*i = object
	return nil
}

func readInput(d *jsontext.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return n, nil
		}
		return t.Float(), nil
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			value, err := readInput(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err := d.ReadToken()
		return list, err
	case '{':
		object := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // reading the next token invalidates name
			if object[key], err = readInput(d); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return object, err
	}
	return nil, nil
}
