// Package index is how items are found: which paths of documents a container indexes, and the entries of its indexes.
//
// A Policy and UniqueKeys are what a client sets, in the protocol's format; New parses them to Indexes: the tree of
// included and excluded paths of the range index, the composite indexes and the unique keys. A Writer replaces the
// entries of one item in a batch: change feed, order of creation, expiry, range index, composite and full-text
// indexes. It counts their bytes, of which an item may have MaxIndexed, and returns the Cost for the request charge. A
// query reads the entries by the keys that RangeBounds, AppendRangeValue, Column and Text return. Unique keys need
// other items of the transaction, so the engine writes their entries itself.
//
// Path hashes can collide, and long values are cut: a reader checks every entry against its item.
package index
