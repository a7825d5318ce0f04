package partitionkey

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/spaolacci/murmur3"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"
)

// The kinds of a partition key component, with the numbers that the service hashes.
const (
	componentUndefined byte = 0x00
	componentNull      byte = 0x01
	componentFalse     byte = 0x02
	componentTrue      byte = 0x03
	componentNumber    byte = 0x05
	componentString    byte = 0x08
)

// maxKeyBytes is the service's limit on a component of a partition key.
const maxKeyBytes = 2048

// Component is one value of a partition key: undefined, null, a boolean, a number or a string.
type Component struct {
	kind   byte
	number float64
	text   string
}

// Key is a partition key, with one component per path. It may be a prefix of a
// hierarchical key.
type Key []Component

// parsePartitionKey parses the x-ms-documentdb-partitionkey header: a JSON array in which an empty
// object is an undefined component.
func parsePartitionKey(header string) (Key, error) {
	if text, ok := plainKey(header); ok {
		return Key{{kind: componentString, text: text}}, nil
	}
	raw := bytes.TrimSpace([]byte(header))
	if !sql.ValidJSON(raw) || raw[0] != '[' {
		return nil, apierror.BadRequest("Partition key %s is invalid.", header)
	}
	key := Key{}
	for r := range jsonpart.Children(raw) {
		c, ok := ComponentOf(sql.ValueOf(r.Value))
		if !ok && string(r.Value) != "{}" {
			return nil, apierror.BadRequest("Partition key %s is invalid.", header)
		}
		if len(c.text) > maxKeyBytes {
			return nil, apierror.BadRequest("The partition key value is longer than %d bytes.", maxKeyBytes)
		}
		key = append(key, c)
	}
	return key, nil
}

// Parse parses the partition key of a request, which can be a prefix of a hierarchical key. An empty one has only
// undefined components.
func (d *Paths) Parse(header string) (Key, error) {
	key, err := parsePartitionKey(header)
	switch {
	case err != nil:
		return nil, err
	case len(key) > len(d.Paths):
		return nil, apierror.BadRequest("Partition key provided has more components than the container's definition.")
	case len(key) == 0:
		return make(Key, len(d.Paths)), nil
	}
	return key, nil
}

// plainKey is the fast path for one string of printable ASCII without escapes.
func plainKey(header string) (string, bool) {
	if len(header) < 4 || len(header) > maxKeyBytes || header[:2] != `["` || header[len(header)-2:] != `"]` {
		return "", false
	}
	text := header[2 : len(header)-2]
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return text, true
}

// ComponentOf converts a value. Arrays and objects cannot be components.
func ComponentOf(v sql.Value) (Component, bool) {
	switch v.Kind() {
	case sql.Undefined:
		return Component{}, true
	case sql.Null:
		return Component{kind: componentNull}, true
	case sql.Bool:
		if v.Bool() {
			return Component{kind: componentTrue}, true
		}
		return Component{kind: componentFalse}, true
	case sql.Number:
		return Component{kind: componentNumber, number: v.Float() + 0}, true // -0 becomes 0
	case sql.String:
		return Component{kind: componentString, text: v.String()}, true
	}
	return Component{}, false
}

// AppendKey appends the key in an encoding in which no key is a prefix of another with the same
// number of components.
func (k Key) AppendKey(dst []byte) []byte {
	for _, c := range k {
		dst = append(dst, c.kind)
		switch c.kind {
		case componentNumber:
			dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(c.number))
		case componentString:
			for i := 0; i < len(c.text); i++ {
				if dst = append(dst, c.text[i]); c.text[i] == 0 {
					dst = append(dst, 0xFF)
				}
			}
			dst = append(dst, 0, 1)
		}
	}
	return dst
}

// KeyLength returns the length of the first n components at the start of b.
func KeyLength(b []byte, n int) int {
	at := 0
	for ; n > 0; n-- {
		kind := b[at]
		at++
		switch kind {
		case componentNumber:
			at += 8
		case componentString:
			for b[at] != 0 || b[at+1] != 1 {
				if b[at] == 0 {
					at++
				}
				at++
			}
			at += 2
		}
	}
	return at
}

func (k Key) Equal(o Key) bool { return slices.Equal(k, o) }

// Paths is a container's partition key definition.
type Paths struct {
	Paths   []sql.Path
	Version int
	Multi   bool // MultiHash
}

// EPKLength is the length of an effective partition key in bytes.
func (d *Paths) EPKLength() int {
	if d.Multi {
		return 16 * len(d.Paths)
	}
	return 16
}

// Of returns the partition key of a document.
func (d *Paths) Of(doc []byte) (Key, error) {
	key := make(Key, len(d.Paths))
	for i, p := range d.Paths {
		c, ok := ComponentOf(sql.Lookup(doc, p))
		if !ok {
			return nil, apierror.BadRequest("The partition key %s must be a string, a number, a boolean or null.", p)
		}
		key[i] = c
	}
	return key, nil
}

// AppendEPK appends the effective partition key, hashed like the service and its SDKs do. A prefix
// of a hierarchical key yields a prefix.
func (d *Paths) AppendEPK(dst []byte, key Key) []byte {
	var arena [128]byte
	if d.Version == 1 {
		for _, c := range key {
			h := murmur3.New32() // murmur3.Sum32 reads past its input
			h.Write(c.appendHashed(arena[:0], 0x00))
			dst = append(dst, make([]byte, 12)...)
			dst = h.Sum(dst)
		}
		return dst
	}
	if d.Multi {
		for _, c := range key {
			dst = appendHash(dst, c.appendHashed(arena[:0], 0xFF))
		}
		return dst
	}
	in := arena[:0]
	for _, c := range key {
		in = c.appendHashed(in, 0xFF)
	}
	return appendHash(dst, in)
}

func appendHash(dst, in []byte) []byte {
	low, high := murmur3.Sum128(in)
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, high)
	dst = binary.BigEndian.AppendUint64(dst, low)
	dst[at] &= 0x3F
	return dst
}

func (c Component) appendHashed(dst []byte, end byte) []byte {
	dst = append(dst, c.kind)
	switch c.kind {
	case componentNumber:
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.number))
	case componentString:
		dst = append(append(dst, c.text...), end)
	}
	return dst
}

// AppendPartition appends the common prefix of all addresses in one logical partition.
func (d *Paths) AppendPartition(dst []byte, key Key) []byte {
	return key.AppendKey(d.AppendEPK(dst, key))
}
