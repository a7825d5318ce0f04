package layout

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
)

// Container is what the records of a container's items depend on. It is immutable.
type Container struct {
	No       uint32
	RID      []byte
	SelfLink string // dbs/{rid}/colls/{rid}/
}

// Record is one item. It is stored as a header of HeaderBytes and the client's JSON. doc is that
// JSON followed by the system properties, which derive from the header.
type Record struct {
	LSN       uint64
	Op        uint16
	RID       uint64
	Timestamp int64
	TTL       int32 // of the item: 0 none, -1 never
	Client    int   // length of the client's JSON without its closing brace
	Size      int   // length of the document
	Doc       []byte
}

const (
	recordVersion = 1
	// HeaderBytes is the length of the header; the client's JSON follows.
	HeaderBytes = 1 + 8 + 2 + 8 + 8 + 4
)

var errCorrupt = errors.New("corrupt item record")

// Append appends the stored form.
func (r *Record) Append(dst []byte) []byte {
	dst = append(dst, recordVersion)
	dst = binary.BigEndian.AppendUint64(dst, r.LSN)
	dst = binary.BigEndian.AppendUint16(dst, r.Op)
	dst = binary.BigEndian.AppendUint64(dst, r.RID)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.TTL))
	return r.AppendClientDoc(dst)
}

// ReadRecord decodes a stored value and copies what it keeps. The document is built in *buf, or in
// a new buffer if buf is nil.
func (c *Container) ReadRecord(b []byte, buf *[]byte) (Record, error) {
	r, err := ReadHeader(b)
	if err != nil {
		return Record{}, err
	}
	if buf == nil {
		buf = new([]byte)
	}
	r.Finish(c, b[HeaderBytes:], *buf)
	*buf = r.Doc
	return r, nil
}

// ReadHeader decodes the header of a stored value.
func ReadHeader(b []byte) (Record, error) {
	if len(b) < HeaderBytes+len("{}") || b[0] != recordVersion {
		return Record{}, errCorrupt
	}
	return Record{
		LSN:       binary.BigEndian.Uint64(b[1:]),
		Op:        binary.BigEndian.Uint16(b[9:]),
		RID:       binary.BigEndian.Uint64(b[11:]),
		Timestamp: int64(binary.BigEndian.Uint64(b[19:])),
		TTL:       int32(binary.BigEndian.Uint32(b[27:])),
	}, nil
}

// AppendClientDoc appends the client's JSON.
func (r *Record) AppendClientDoc(dst []byte) []byte {
	return append(append(dst, r.Doc[:r.Client]...), '}')
}

// ETag returns the item's ETag with its quotes.
func (r *Record) ETag(container uint32) string {
	return string(appendETag(make([]byte, 0, 64), container, r, `"`))
}

func appendETag(dst []byte, container uint32, r *Record, quote string) []byte {
	dst = append(dst, quote...)
	dst = appendHex(dst, r.LSN&0xFFFFFFFF, 8)
	dst = appendHex(append(dst, '-'), r.LSN>>32, 4)
	dst = appendHex(append(dst, '-'), uint64(container), 4)
	dst = appendHex(append(dst, '-'), uint64(r.Op), 4)
	dst = appendHex(append(dst, '-'), uint64(r.Timestamp), 8)
	return append(append(dst, "0000"...), quote...)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, "0123456789abcdef"[v>>(4*i)&0xF])
	}
	return dst
}

// Finish builds the document in buf, if that is large enough: the client's JSON and the system
// properties. buf may be client itself.
func (r *Record) Finish(c *Container, client, buf []byte) {
	b := slices.Grow(buf[:0], len(client)+len(c.SelfLink)+SystemBytes)
	b = append(b, client[:len(client)-1]...)
	r.Client = len(b)
	b = append(b, `,"_rid":"`...) // there is a member before: the id
	at := len(b)
	b = appendItemRID(b, c.RID, r.RID)
	rid := b[at:]
	b = append(append(append(b, `","_self":"`...), c.SelfLink...), "docs/"...)
	b = append(append(b, rid...), `/","_etag":"`...)
	b = appendETag(b, c.No, r, `\"`)
	b = append(b, `","_attachments":"attachments/","_ts":`...)
	b = strconv.AppendInt(b, r.Timestamp, 10)
	r.Doc = append(b, '}')
	r.Size = len(r.Doc)
}

// SystemBytes bounds the size of the system properties without the container's link.
const SystemBytes = 200

func IsSystemProperty(name string) bool {
	switch name {
	case "_rid", "_self", "_etag", "_attachments", "_ts", "_lsn":
		return true
	}
	return false
}
