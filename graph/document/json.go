package document

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// byteOrderMark may be before a JSON text, where parsers may ignore it (RFC 8259, section 8.1).
const byteOrderMark = "\ufeff"

// Decode decodes a text that is one JSON value. Of members with the same name the last counts: to
// refuse duplicates, the decoder would have to store all names.
func Decode(text string, into any) error {
	if err := checkText(text); err != nil {
		return err
	}
	return jsonv2.Unmarshal([]byte(strings.TrimPrefix(text, byteOrderMark)), into, jsontext.AllowDuplicateNames(true))
}

// Object is a JSON object. A number is an int64 if it is an integer, also if it is written as 1.0 or 1e0
// (GraphQL, section 3.5). It is a float64, at most the largest, if it has a fraction or is too large for
// an int64, unless it is written without fraction and exponent: it may be an ID, and is a json.Number.
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
		if strings.Trim(t.String(), "-0123456789") == "" {
			return json.Number(t.String()), nil
		}
		return integer(t.Float()), nil
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

// integer returns the int64 for a float64 without a fraction if no other number of JSON has the same float64.
func integer(f float64) any {
	const exact = 1 << 53
	if f == math.Trunc(f) && -exact < f && f < exact {
		return int64(f)
	}
	return f
}
