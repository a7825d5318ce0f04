package emulator

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
//	r container path value address            -> length of address: the range index of included paths
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
	kindItem      = 'i'
	kindFeed      = 'f'
	kindOrder     = 'o'
	kindComposite = 'c'
	kindRange     = 'r'
	kindUnique    = 'u'
	kindExpiry    = 't'
	kindLSN       = 'l'
	kindMeta      = 'm'
)

// containerKinds are the kinds that belong to a container.
var containerKinds = []byte{kindItem, kindFeed, kindOrder, kindComposite, kindRange, kindUnique, kindExpiry, kindLSN}

// The kinds of metadata.
const (
	metaDatabase  = 'd'
	metaContainer = 'c'
	metaOffer     = 'o'
	metaNext      = 'n' // the next number to allocate
)

func appendKind(dst []byte, kind byte, container uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, kind), container)
}

func appendItemKey(dst []byte, container uint32, address []byte) []byte {
	return append(appendKind(dst, kindItem, container), address...)
}

func appendFeedPrefix(dst []byte, container, rangeNo uint32) []byte {
	return binary.BigEndian.AppendUint32(appendKind(dst, kindFeed, container), rangeNo)
}

func appendFeedKey(dst []byte, container, rangeNo uint32, lsn uint64, op uint16) []byte {
	dst = appendFeedPrefix(dst, container, rangeNo)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(dst, lsn), op)
}

// feedPosition returns the LSN and op at the end of a feed key.
func feedPosition(key []byte) (lsn uint64, op uint16) {
	n := len(key)
	return binary.BigEndian.Uint64(key[n-10:]), binary.BigEndian.Uint16(key[n-2:])
}

// maxInlineRecord is the longest record that a change feed entry carries, so that a page of small
// items is one scan without lookups. Writing longer items twice would cost more than it saves.
const maxInlineRecord = 1 << 10

// appendFeedValue appends a change feed entry's value.
func appendFeedValue(dst, address []byte, rec *record) []byte {
	dst = append(dst, address...)
	if headerBytes+rec.client < maxInlineRecord {
		dst = rec.append(dst)
	}
	return binary.BigEndian.AppendUint16(dst, uint16(len(address)))
}

// splitFeedValue returns the parts of a change feed entry's value. stored is empty if the entry
// does not carry the record.
func splitFeedValue(v []byte) (address, stored []byte) {
	end := len(v) - 2
	n := binary.BigEndian.Uint16(v[end:])
	return v[:n], v[n:end]
}

func appendOrderKey(dst []byte, container uint32, rid uint64) []byte {
	dst = binary.BigEndian.AppendUint32(appendKind(dst, kindOrder, container), uint32(rid>>birthShift))
	return binary.BigEndian.AppendUint64(dst, rid)
}

// appendCompositePrefix appends the prefix of one logical partition's entries in a composite index,
// or of several with a prefix of a hierarchical key.
func appendCompositePrefix(dst []byte, container uint32, index uint16, partition []byte) []byte {
	dst = binary.BigEndian.AppendUint16(appendKind(dst, kindComposite, container), index)
	return append(dst, partition...)
}

func appendRangePrefix(dst []byte, container uint32, path uint64) []byte {
	return binary.BigEndian.AppendUint64(appendKind(dst, kindRange, container), path)
}

func appendUniquePrefix(dst []byte, container uint32, key uint16, partition []byte) []byte {
	dst = binary.BigEndian.AppendUint16(appendKind(dst, kindUnique, container), key)
	return append(dst, partition...)
}

func appendExpiryKey(dst []byte, container uint32, expiry int64, address []byte) []byte {
	dst = binary.BigEndian.AppendUint64(appendKind(dst, kindExpiry, container), uint64(expiry))
	return append(dst, address...)
}

func lsnKey(container, rangeNo uint32) []byte {
	return binary.BigEndian.AppendUint32(appendKind(make([]byte, 0, 9), kindLSN, container), rangeNo)
}

func metaKey(kind byte, number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{kindMeta, kind}, number)
}

// prefixEnd returns the first key after all keys that begin with prefix, or nil.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
