package sql

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the type of a Value. Kinds are numbered in Cosmos DB's type order.
type Kind uint8

// The kinds.
const (
	Undefined Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Value is a JSON value or undefined, the zero Value. It may share the bytes it was parsed from.
type Value struct {
	kind Kind
	yes  bool    // of a Bool
	num  float64 // of a Number; never NaN
	text []byte  // text of a String; JSON of an Array or Object, and of a Number from a document
}

func boolean(yes bool) Value { return Value{kind: Bool, yes: yes} }

func text(s []byte) Value { return Value{kind: String, text: s} }

// number returns a Number, or undefined if f is not finite.
func number(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}
	}
	return Value{kind: Number, num: f}
}

var errJSON = errors.New("not a JSON value")

// ParseValue validates and parses a JSON value. The Value may keep raw.
func ParseValue(raw []byte) (Value, error) {
	if simpleString(raw) {
		return text(raw[1 : len(raw)-1]), nil
	}
	if !ValidJSON(raw) {
		return Value{}, errJSON
	}
	raw = bytes.TrimSpace(raw)
	if raw[0] == '{' || raw[0] == '[' {
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return Value{}, err
		}
		raw = compact.Bytes()
	}
	return ValueOf(raw), nil
}

// simpleString reports whether raw is a JSON string of printable ASCII without escapes.
func simpleString(raw []byte) bool {
	n := len(raw) - 1
	if n < 1 || raw[0] != '"' || raw[n] != '"' {
		return false
	}
	for _, c := range raw[1:n] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func kindOf(c byte) Kind {
	switch c {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// ValueOf returns the value of valid JSON without white space between tokens. The Value keeps raw.
func ValueOf(raw []byte) Value {
	if len(raw) == 0 {
		return Value{}
	}
	switch kind := kindOf(raw[0]); kind {
	case Bool:
		return boolean(raw[0] == 't')
	case Null:
		return Value{kind: Null}
	case Number:
		return Value{kind: Number, num: parseNumber(raw), text: raw}
	case String:
		return text(stringText(raw))
	default:
		return Value{kind: kind, text: raw}
	}
}

// stringText returns the decoded text of a JSON string; it shares raw if there are no escapes.
func stringText(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		s, _ := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw) // valid: there is no error
		return s
	}
	return raw[1 : len(raw)-1]
}

var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseNumber parses a JSON number. Up to 15 digits are exact in a double, and so is one division
// by a power of ten.
func parseNumber(raw []byte) float64 {
	i, negative := 0, false
	if raw[0] == '-' {
		i, negative = 1, true
	}
	var mantissa int64
	digits, fraction, point := 0, 0, false
	for ; i < len(raw); i++ {
		c := raw[i]
		switch {
		case '0' <= c && c <= '9':
			mantissa = mantissa*10 + int64(c-'0')
			digits++
			if point {
				fraction++
			}
		case c == '.':
			point = true
		default:
			digits = 99
		}
		if digits > 15 {
			f, _ := strconv.ParseFloat(string(raw), 64) // out of range: an infinity
			return f
		}
	}
	f := float64(mantissa)
	if fraction > 0 {
		f /= powersOfTen[fraction]
	}
	if negative {
		f = -f
	}
	return f
}

// Kind returns the value's type.
func (v Value) Kind() Kind { return v.kind }

// Bool returns the value of a Bool.
func (v Value) Bool() bool { return v.yes }

// Float returns the value of a Number.
func (v Value) Float() float64 { return v.num }

// String returns the text of a string, "undefined", or the JSON text.
func (v Value) String() string {
	switch v.kind {
	case String:
		return string(v.text)
	case Undefined:
		return "undefined"
	}
	return string(v.AppendJSON(nil))
}

// AppendJSON appends the value as JSON, a number from a document unchanged. Undefined appends
// nothing.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case Undefined:
		return dst
	case Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, v.yes)
	case String:
		return AppendQuoted(dst, v.text)
	case Number:
		if v.text == nil {
			return appendNumber(dst, v.num)
		}
	}
	return append(dst, v.text...)
}

// appendNumber formats a number as JavaScript does.
func appendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // -0 too
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' { // e-09 is e-9
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// clone returns a copy with bytes of its own.
func (v Value) clone() Value {
	v.text = bytes.Clone(v.text)
	return v
}
