package sql

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"byline/store/emulator/jsonpart"
)

// Compare is the total order of ORDER BY: undefined, null, false, true, numbers, strings by UTF-8
// bytes, arrays by elements, objects by members in the order of their names.
func Compare(a, b Value) int {
	if a.kind != b.kind {
		return cmp.Compare(a.kind, b.kind)
	}
	switch a.kind {
	case Bool:
		switch {
		case a.yes == b.yes:
			return 0
		case b.yes:
			return -1
		}
		return 1
	case Number:
		return cmp.Compare(a.num, b.num)
	case String:
		return bytes.Compare(a.text, b.text)
	case Array:
		x, y := jsonpart.Elements{Text: a.text, At: 1}, jsonpart.Elements{Text: b.text, At: 1}
		for {
			v, more := x.Next()
			w, longer := y.Next()
			if !more || !longer {
				return compareEnds(more, longer)
			}
			if c := Compare(ValueOf(v), ValueOf(w)); c != 0 {
				return c
			}
		}
	case Object:
		x, y := sortedMembers(a.text), sortedMembers(b.text)
		for i := 0; ; i++ {
			if i >= len(x) || i >= len(y) {
				return compareEnds(i < len(x), i < len(y))
			}
			if c := bytes.Compare(x[i].name, y[i].name); c != 0 {
				return c
			}
			if c := Compare(ValueOf(x[i].raw), ValueOf(y[i].raw)); c != 0 {
				return c
			}
		}
	}
	return 0
}

func compareEnds(more, longer bool) int {
	switch {
	case more:
		return 1
	case longer:
		return -1
	}
	return 0
}

type namedValue struct{ name, raw []byte }

// sortedMembers returns an object's members by name, the first of each name.
func sortedMembers(raw []byte) []namedValue {
	var list []namedValue
	m := jsonpart.Members{Text: raw, At: 1}
	for {
		key, start, end, ok := m.Next()
		if !ok {
			break
		}
		if m.Escaped {
			key = unescapeName(key)
		}
		list = append(list, namedValue{key, raw[start:end]})
	}
	slices.SortStableFunc(list, func(a, b namedValue) int { return bytes.Compare(a.name, b.name) })
	return slices.CompactFunc(list, func(a, b namedValue) bool { return bytes.Equal(a.name, b.name) })
}

// The first byte of an encoded value. The end of an array or object sorts before every value.
const (
	keyEnd = iota
	keyUndefined
	keyNull
	keyFalse
	keyTrue
	keyNumber
	keyString
	keyArray
	keyObject
)

// AppendKey appends an order-preserving encoding of v: bytes order like Compare, equal values have
// equal encodings, and no encoding is a prefix of another, so they can be concatenated.
func AppendKey(dst []byte, v Value) []byte {
	switch v.kind {
	case Null:
		return append(dst, keyNull)
	case Bool:
		if v.yes {
			return append(dst, keyTrue)
		}
		return append(dst, keyFalse)
	case Number:
		bits := math.Float64bits(v.num)
		switch {
		case v.num == 0:
			bits = 1 << 63 // -0 too
		case v.num < 0:
			bits = ^bits
		default:
			bits |= 1 << 63
		}
		return binary.BigEndian.AppendUint64(append(dst, keyNumber), bits)
	case String:
		return appendKeyText(append(dst, keyString), v.text)
	case Array:
		dst = append(dst, keyArray)
		s := jsonpart.Elements{Text: v.text, At: 1}
		for {
			raw, ok := s.Next()
			if !ok {
				return append(dst, keyEnd)
			}
			dst = AppendKey(dst, ValueOf(raw))
		}
	case Object:
		dst = append(dst, keyObject)
		for _, m := range sortedMembers(v.text) {
			dst = appendKeyText(append(dst, keyString), m.name)
			dst = AppendKey(dst, ValueOf(m.raw))
		}
		return append(dst, keyEnd)
	}
	return append(dst, keyUndefined)
}

// appendKeyText terminates text with 0, and escapes 0 and 1 as 1 1 and 1 2.
func appendKeyText(dst, s []byte) []byte {
	for _, c := range s {
		if c <= 1 {
			dst = append(dst, 1, c+1)
			continue
		}
		dst = append(dst, c)
	}
	return append(dst, 0)
}
