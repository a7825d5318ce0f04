package emulator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"byline/internal/jsonpart"
	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/sql"

	"github.com/spaolacci/murmur3"
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

type component struct {
	kind   byte
	number float64
	text   string
}

// partitionKey is a partition key, with one component per path. It may be a prefix of a
// hierarchical key.
type partitionKey []component

// parsePartitionKey parses the x-ms-documentdb-partitionkey header: a JSON array in which an empty
// object is an undefined component.
func parsePartitionKey(header string) (partitionKey, error) {
	if text, ok := plainKey(header); ok {
		return partitionKey{{kind: componentString, text: text}}, nil
	}
	raw := bytes.TrimSpace([]byte(header))
	if !sql.ValidJSON(raw) || raw[0] != '[' {
		return nil, apierror.BadRequest("Partition key %s is invalid.", header)
	}
	key := partitionKey{}
	for r := range jsonpart.Children(raw) {
		c, ok := componentOf(sql.ValueOf(r.Value))
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

// componentOf converts a value. Arrays and objects cannot be components.
func componentOf(v sql.Value) (component, bool) {
	switch v.Kind() {
	case sql.Undefined:
		return component{}, true
	case sql.Null:
		return component{kind: componentNull}, true
	case sql.Bool:
		if v.Bool() {
			return component{kind: componentTrue}, true
		}
		return component{kind: componentFalse}, true
	case sql.Number:
		return component{kind: componentNumber, number: v.Float() + 0}, true // -0 becomes 0
	case sql.String:
		return component{kind: componentString, text: v.String()}, true
	}
	return component{}, false
}

// appendKey appends the key in an encoding in which no key is a prefix of another with the same
// number of components.
func (k partitionKey) appendKey(dst []byte) []byte {
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

// keyLength returns the length of the first n components at the start of b.
func keyLength(b []byte, n int) int {
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

func (k partitionKey) equal(o partitionKey) bool { return slices.Equal(k, o) }

// partitionKeyPaths is a container's partition key definition.
type partitionKeyPaths struct {
	paths   []sql.Path
	version int
	multi   bool // MultiHash
}

// epkLength is the length of an effective partition key in bytes.
func (d *partitionKeyPaths) epkLength() int {
	if d.multi {
		return 16 * len(d.paths)
	}
	return 16
}

// of returns the partition key of a document.
func (d *partitionKeyPaths) of(doc []byte) (partitionKey, error) {
	key := make(partitionKey, len(d.paths))
	for i, p := range d.paths {
		c, ok := componentOf(sql.Lookup(doc, p))
		if !ok {
			return nil, apierror.BadRequest("The partition key %s must be a string, a number, a boolean or null.", p)
		}
		key[i] = c
	}
	return key, nil
}

// appendEPK appends the effective partition key, hashed like the service and its SDKs do. A prefix
// of a hierarchical key yields a prefix.
func (d *partitionKeyPaths) appendEPK(dst []byte, key partitionKey) []byte {
	var arena [128]byte
	if d.version == 1 {
		for _, c := range key {
			h := murmur3.New32() // murmur3.Sum32 reads past its input
			h.Write(c.appendHashed(arena[:0], 0x00))
			dst = append(dst, make([]byte, 12)...)
			dst = h.Sum(dst)
		}
		return dst
	}
	if d.multi {
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

func (c component) appendHashed(dst []byte, end byte) []byte {
	dst = append(dst, c.kind)
	switch c.kind {
	case componentNumber:
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.number))
	case componentString:
		dst = append(append(dst, c.text...), end)
	}
	return dst
}

// appendPartition appends the common prefix of all addresses in one logical partition.
func (d *partitionKeyPaths) appendPartition(dst []byte, key partitionKey) []byte {
	return key.appendKey(d.appendEPK(dst, key))
}

// partition is a physical partition: the items with an effective partition key in [min, max). It
// has its own sequence of LSNs.
type partition struct {
	no       uint32
	min, max []byte   // nil and 0xFF are unbounded
	parents  []uint32 // ancestors, oldest first

	splitting bool          // guarded by container.mu; see StartSplit
	revision  atomic.Uint64 // of container.revision; 0 before it splits

	mu   sync.Mutex
	lsn  uint64 // guarded by mu: last LSN assigned
	size *size  // guarded by mu: of its items; nil until sizeOfPartition

	writes  map[string][]time.Time // guarded by mu: recent changes, by item; nil without Options.ItemWriters
	logical map[string]size        // guarded by mu: logical partitions written, by prefix of the addresses; nil without Options.PartitionBytes

	budget  budget
	backlog backlog

	applied atomic.Uint64 // last LSN visible to readers
	synced  atomic.Uint64 // last durable LSN; see durability
}

func (p *partition) id() string { return rangeID(p.no) }

func rangeID(no uint32) string { return strconv.FormatUint(uint64(no), 10) }

func (p *partition) holds(epk []byte) bool {
	return bytes.Compare(p.min, epk) <= 0 && bytes.Compare(epk, p.max) < 0
}

func formatEPK(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }

// descends reports whether partition no was split into p, directly or not.
func (p *partition) descends(no uint32) bool {
	return slices.Contains(p.parents, no)
}

// checkSession returns 404/1002 if a session token is ahead of have, an LSN of p. It ignores the LSNs of
// regions: one region has all writes.
func checkSession(p *partition, have uint64, header string) error {
	for header != "" {
		var one string
		one, header, _ = strings.Cut(header, ",")
		id, rest, ok := strings.Cut(strings.TrimSpace(one), ":")
		if !ok {
			return apierror.BadRequest("The session token %q is invalid.", one)
		}
		if no, err := strconv.ParseUint(id, 10, 32); err != nil || uint32(no) != p.no && !p.descends(uint32(no)) {
			continue
		}
		parts := strings.Split(rest, "#")
		lsn, err := strconv.ParseInt(parts[min(1, len(parts)-1)], 10, 64)
		if err != nil {
			return apierror.BadRequest("The session token %q is invalid.", one)
		}
		if lsn > int64(have) {
			return apierror.SessionNotAvailable()
		}
	}
	return nil
}

// The resource ids of the service: 4 bytes for a database, 4 more for a container, 8 more for an item.

const databaseRIDBytes = 4

func databaseRID(no uint32) string {
	return encodeRID(binary.BigEndian.AppendUint32(nil, no))
}

func containerRIDBytes(db, no uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, db), no|0x80000000)
}

// appendItemRID appends the resource id of an item. SDKs that continue an ORDER BY over partitions
// compare it as a little-endian number; its upper 4 bits are the resource type, 0 for an item.
func appendItemRID(dst, container []byte, rid uint64) []byte {
	const shift = birthShift - 4
	return appendChildRID(dst, container, rid>>birthShift<<shift|rid&(1<<shift-1))
}

// appendRangeRID appends the resource id of a physical partition.
func appendRangeRID(dst, container []byte, no uint32) []byte {
	return appendChildRID(dst, container, 5<<60|uint64(no))
}

func appendChildRID(dst, container []byte, child uint64) []byte {
	var b [16]byte
	copy(b[:8], container)
	binary.LittleEndian.PutUint64(b[8:], child)
	return ridEncoding.AppendEncode(dst, b[:])
}

// ridEncoding is the base64 alphabet of resource ids.
var ridEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")

func encodeRID(b []byte) string { return ridEncoding.EncodeToString(b) }

func formatETag(container uint32, lsn uint64, op uint16, ts int64) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%08x0000", uint32(lsn), uint16(lsn>>32), uint16(container), op, uint32(ts))
}
