package layout

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

const DatabaseRIDBytes = 4

func DatabaseRID(no uint32) string {
	return EncodeRID(binary.BigEndian.AppendUint32(nil, no))
}

func ContainerRIDBytes(db, no uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, db), no|0x80000000)
}

// appendItemRID appends the resource id of an item. SDKs that continue an ORDER BY over partitions
// compare it as a little-endian number; its upper 4 bits are the resource type, 0 for an item.
func appendItemRID(dst, container []byte, rid uint64) []byte {
	const shift = BirthShift - 4
	return appendChildRID(dst, container, rid>>BirthShift<<shift|rid&(1<<shift-1))
}

// AppendRangeRID appends the resource id of a physical partition.
func AppendRangeRID(dst, container []byte, no uint32) []byte {
	return appendChildRID(dst, container, 5<<60|uint64(no))
}

func appendChildRID(dst, container []byte, child uint64) []byte {
	var b [16]byte
	copy(b[:8], container)
	binary.LittleEndian.PutUint64(b[8:], child)
	return RIDEncoding.AppendEncode(dst, b[:])
}

// RIDEncoding is the base64 alphabet of resource ids.
var RIDEncoding = base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-")

func EncodeRID(b []byte) string { return RIDEncoding.EncodeToString(b) }

func FormatETag(container uint32, lsn uint64, op uint16, ts int64) string {
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%08x0000", uint32(lsn), uint16(lsn>>32), uint16(container), op, uint32(ts))
}

// MaxRanges is the most physical partitions that a container can have over time: resource ids begin
// with the number of the partition in which the item was created.
const (
	MaxRanges  = 1 << 12
	BirthShift = 64 - 12
)
