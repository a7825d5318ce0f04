package layout

import "encoding/binary"

// The layout of the keys. Every key of a container begins with a kind and the container's number,
// so dropping a container is one range deletion per kind. An item's address is its effective
// partition key, its partition key and its id. As the effective partition key comes first, a
// physical partition is a contiguous range of every kind that is keyed by address.
//
//	i container address                       -> record: the item
//	f container range LSN op                  -> address, record if it is small, length of address: the change
//	                                             feed, one entry per item
//	o container birth rid                     -> address: order of creation, for scans over partitions
//	c container index EPK pk values... id     -> length of id: a composite index, by logical partition
//	r container path value address            -> length of address: the range index of included paths, and of
//	                                             the elements of arrays if there are full-text indexes
//	x container path term 0 address           -> a posting: the full-text index of a property
//	u container key EPK pk values...          -> id: a unique key
//	t container expiry address                -> nothing: time to live
//	l container range                         -> the last LSN
//	m kind number                             -> JSON: databases, containers, offers
//
// Numbers are big-endian. "range" is the number of a physical partition; "birth" the one in which
// the item was created, which its rid begins with; "op" the position of an operation in its
// transaction; "path" a hash. Every entry is checked against its item, so a hash collision costs
// only time.
const (
	KindItem      = 'i'
	KindFeed      = 'f'
	KindOrder     = 'o'
	KindComposite = 'c'
	KindRange     = 'r'
	KindText      = 'x'
	KindUnique    = 'u'
	KindExpiry    = 't'
	KindLSN       = 'l'
	KindMeta      = 'm'
)

// ContainerKinds are the kinds that belong to a container.
var ContainerKinds = []byte{KindItem, KindFeed, KindOrder, KindComposite, KindRange, KindText, KindUnique,
	KindExpiry, KindLSN}

// The kinds of metadata.
const (
	MetaDatabase  = 'd'
	MetaContainer = 'c'
	MetaOffer     = 'o'
	MetaNext      = 'n' // the next number to allocate
)

// AddressOffset is the length of the kind and the container at the start of a key; the address follows in the key of
// an item.
const AddressOffset = 1 + 4

// AppendKind appends the start of the keys of a kind in a container.
func AppendKind(dst []byte, kind byte, container uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, kind), container)
}

func AppendItemKey(dst []byte, container uint32, address []byte) []byte {
	return append(AppendKind(dst, KindItem, container), address...)
}

func AppendFeedPrefix(dst []byte, container, rangeNo uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendKind(dst, KindFeed, container), rangeNo)
}

func AppendFeedKey(dst []byte, container, rangeNo uint32, lsn uint64, op uint16) []byte {
	dst = AppendFeedPrefix(dst, container, rangeNo)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(dst, lsn), op)
}

// FeedPosition returns the LSN and op at the end of a feed key.
func FeedPosition(key []byte) (lsn uint64, op uint16) {
	n := len(key)
	return binary.BigEndian.Uint64(key[n-10:]), binary.BigEndian.Uint16(key[n-2:])
}

// MaxInlineRecord is the longest record that a change feed entry carries, so that a page of small
// items is one scan without lookups. Writing longer items twice would cost more than it saves.
const MaxInlineRecord = 1 << 10

// AppendFeedValue appends a change feed entry's value.
func AppendFeedValue(dst, address []byte, rec *Record) []byte {
	dst = append(dst, address...)
	if HeaderBytes+rec.Client < MaxInlineRecord {
		dst = rec.Append(dst)
	}
	return binary.BigEndian.AppendUint16(dst, uint16(len(address)))
}

// SplitFeedValue returns the parts of a change feed entry's value. stored is empty if the entry
// does not carry the record.
func SplitFeedValue(v []byte) (address, stored []byte) {
	end := len(v) - 2
	n := binary.BigEndian.Uint16(v[end:])
	return v[:n], v[n:end]
}

func AppendOrderKey(dst []byte, container uint32, rid uint64) []byte {
	dst = binary.BigEndian.AppendUint32(AppendKind(dst, KindOrder, container), uint32(rid>>BirthShift))
	return binary.BigEndian.AppendUint64(dst, rid)
}

// AppendCompositePrefix appends the prefix of one logical partition's entries in a composite index,
// or of several with a prefix of a hierarchical key.
func AppendCompositePrefix(dst []byte, container uint32, index uint16, partition []byte) []byte {
	dst = binary.BigEndian.AppendUint16(AppendKind(dst, KindComposite, container), index)
	return append(dst, partition...)
}

func AppendRangePrefix(dst []byte, container uint32, path uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendKind(dst, KindRange, container), path)
}

// AppendTextPrefix appends the prefix of a term's postings. The term "" has a header of every item's text.
func AppendTextPrefix(dst []byte, container uint32, path uint64, term string) []byte {
	dst = binary.BigEndian.AppendUint64(AppendKind(dst, KindText, container), path)
	return append(append(dst, term...), 0)
}

func AppendUniquePrefix(dst []byte, container uint32, key uint16, partition []byte) []byte {
	dst = binary.BigEndian.AppendUint16(AppendKind(dst, KindUnique, container), key)
	return append(dst, partition...)
}

func AppendExpiryKey(dst []byte, container uint32, expiry int64, address []byte) []byte {
	dst = binary.BigEndian.AppendUint64(AppendKind(dst, KindExpiry, container), uint64(expiry))
	return append(dst, address...)
}

func LSNKey(container, rangeNo uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendKind(make([]byte, 0, 9), KindLSN, container), rangeNo)
}

func MetaKey(kind byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{KindMeta, kind}, number)
}

// PrefixEnd returns the first key after all keys that begin with prefix, or nil.
func PrefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
